"""Diffusion sampling of whole pictures (Nitro-E): Euler steps along a rectified flow.

Every step runs the model on all tokens. Samples at different noise levels share a forward, as
time enters per sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from models.contracts import SampleSettings
from models.nitro_e import NitroE
from models.randomness import Randomness, draw
from models.schedules import diffusion_sigmas


@dataclass
class DiffusionState:
    """One picture in progress, on the model's device."""

    settings: SampleSettings
    texts: tuple[Tensor, ...]  # (unconditional, prompt) embedded rows [1, L, D], or the prompt's
    scale: Tensor  # fp32 scalar
    z: Tensor  # fp32 [T, C]
    estimate: Tensor | None = None  # fp32 [T, C]: the clean tokens z is heading for
    step: int = 0


@dataclass
class DiffusionSampler:
    """The step contract for Nitro-E; see `models.contracts.Sampler`. A step is a flow step."""

    model: NitroE
    _times: dict[int, Tensor] = field(default_factory=dict)

    def prompt_context(self, text_rows: Tensor) -> Tensor:
        """Embedded text [1, L, D]."""
        weight = self.model.context_embedder.weight
        return self.model.embed_text(text_rows[None].to(weight.device, weight.dtype))

    def batch_key(self, settings: SampleSettings) -> object:
        return settings.cfg_scale > 1.0

    def start(
        self,
        settings: SampleSettings,
        prompt: Tensor,
        unconditional: Tensor,
        random: Randomness | None = None,
    ) -> DiffusionState:
        """A new sample; its random numbers come from the seed unless they are given."""
        config, guided = self.model.config, settings.cfg_scale > 1.0
        random = random or draw(settings.seed, config.tokens, config.channels)
        return DiffusionState(
            settings=settings,
            texts=(unconditional, prompt) if guided else (prompt,),
            scale=torch.tensor(float(settings.cfg_scale), device=prompt.device),
            z=(random.fields[0] * settings.temperature).to(prompt.device),
        )

    def num_steps(self, state: DiffusionState) -> int:
        return state.settings.flow_steps

    def advance(self, states: Sequence[DiffusionState]) -> None:
        """One Euler step for each state."""
        branches = len(states[0].texts)
        z = torch.stack([state.z for state in states])  # [B, T, C]
        rows = [self._time_rows(state.settings.flow_steps)[state.step] for state in states]
        time = torch.stack(rows).repeat(branches, 1, 1)  # [branches * B, 6, D]
        text = torch.cat([state.texts[branch] for branch in range(branches) for state in states])
        x = z.to(text.dtype).repeat(branches, 1, 1)
        velocity = self.model(x, text, time).float()
        if branches == 2:
            v_null, v_text = velocity.chunk(2)
            scale = torch.stack([state.scale for state in states])[:, None, None]
            velocity = torch.lerp(v_null, v_text, scale)
        for state, v in zip(states, velocity, strict=True):
            now, after = diffusion_sigmas(state.settings.flow_steps)[state.step :][:2]
            state.estimate = state.z - now * v
            state.z = state.z + (after - now) * v
            state.step += 1

    def _time_rows(self, steps: int) -> Tensor:
        """Modulation by time at each step, [steps, 6, D]; a table, as it never varies."""
        device = self.model.proj_out.weight.device
        table = self._times.get(steps)
        if table is None or table.device != device:
            sigmas = torch.tensor(diffusion_sigmas(steps)[:-1], device=device)
            table = self._times[steps] = self.model.adaln_single(1000 * sigmas)
        return table

    def latent(self, state: DiffusionState) -> Tensor:
        """The clean estimate while under way, the sample at the end."""
        side = self.model.config.grid
        done = state.step >= self.num_steps(state) or state.estimate is None
        tokens = state.z if done else state.estimate
        assert tokens is not None
        return tokens.T.unflatten(1, (side, side))

    def shown(self, state: DiffusionState) -> bool:
        return state.estimate is not None

    def committed(self, state: DiffusionState) -> None:
        return None
