"""Tiny models of every kind with the goldens' weights: the geometry is one, so pictures travel."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from models.contracts import SampleSettings
from models.emmdit import EMMDiTConfig
from models.heads import HeadConfig
from models.nitro_ar import NitroAR, NitroARConfig
from models.nitro_e import NitroE, NitroEConfig
from models.samplers.diffusion import DiffusionSampler
from models.samplers.joint import JointSampler
from models.samplers.masked_ar import MaskedARSampler
from tests.golden_rule import fill, rule_input

KINDS = ("mlp", "joint", "diffusion")
GRID, CHANNELS = 8, 32
SMALL: dict[str, Any] = {
    "grid": GRID,
    "width": 64,
    "head_dim": 32,
    "text_width": 48,
    "groups": (1, 2, 1),
}


def sampler_of(kind: str) -> Any:
    if kind == "diffusion":
        return DiffusionSampler(
            fill(NitroE(NitroEConfig(**SMALL, subregions=False))).requires_grad_(False)
        )
    if kind == "mlp":
        config = NitroARConfig(EMMDiTConfig(**SMALL), HeadConfig("mlp", width=64, depth=2))
        return MaskedARSampler(fill(NitroAR(config)).requires_grad_(False))
    config = NitroARConfig(
        EMMDiTConfig(**SMALL, norm="rms", global_pass=True),
        HeadConfig("transformer", width=64, depth=2),
    )
    return JointSampler(fill(NitroAR(config)).requires_grad_(False))


def settings(seed: int = 1, **changes: Any) -> SampleSettings:
    values = {"ar_iterations": 5, "flow_steps": 4, "cfg_scale": 3.0, **changes}
    return SampleSettings(seed=seed, **values)


def contexts(sampler: Any, prompt: int = 0) -> tuple[Any, Any]:
    """(prompt, unconditional), read anew."""
    return (
        sampler.prompt_context(rule_input(f"prompt:{prompt}", 16, 48)),
        sampler.prompt_context(rule_input("empty", 16, 48)),
    )


def finish(sampler: Any, state: Any) -> Tensor:
    """The latent after the steps that are left."""
    while state.step < sampler.num_steps(state):
        sampler.advance([state])
    return sampler.latent(state)


def picture(name: str = "picture") -> Tensor:
    return rule_input(name, CHANNELS, GRID, GRID)


def window(top: int = 2, left: int = 3, side: int = 3) -> Tensor:
    """A mask that frees a square."""
    free = torch.zeros(GRID, GRID, dtype=torch.bool)
    free[top : top + side, left : left + side] = True
    return free
