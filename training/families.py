"""The generators that can be trained: for each its model, its loss and how sample sheets are drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from models.contracts import Sampler
from models.instella.autoregressive import BitAR
from models.instella.config import POCKET_BITS_AR, POCKET_BITS_DIFFUSION
from models.instella.diffusion import BitDiffusion
from models.nitro_ar import POCKET_AR, POCKET_AR_JOINT, NitroAR
from models.nitro_e import POCKET_E, NitroE
from models.samplers.bit_ar import BitARSampler
from models.samplers.bit_diffusion import BitDiffusionSampler
from models.samplers.diffusion import DiffusionSampler
from models.samplers.joint import JointSampler
from models.samplers.masked_ar import MaskedARSampler
from training.bits import ar_loss, flip_loss, tokenizer_decoder
from training.latents import latent_decoder
from training.losses import diffusion_loss, joint_loss, masked_ar_loss

# (model, tokens [B, T, C], thumbnails [B, C], text rows [B, L, D], generator) to a scalar
Loss = Callable[[Any, Tensor, Tensor, Tensor, torch.Generator], Tensor]


@dataclass(frozen=True)
class Family:
    """One kind of generator. All after the loss is what sample sheets are drawn with; `decoder`
    makes latents [N, C, h, w] pictures in -1..1 from an autoencoder's run."""

    build: Callable[[], nn.Module]
    loss: Loss
    sampler: Callable[[Any], Sampler]
    iterations: int
    flow_steps: int
    cfg_scale: float
    decoder: Callable[[Path], Callable[[Tensor], Tensor]] = latent_decoder


def families(draws: int = 1) -> dict[str, Family]:
    """By variant. `draws`: noise levels per masked token, for the MLP head."""
    diffusion = Family(
        partial(NitroE, POCKET_E),
        lambda model, tokens, _, text, generator: diffusion_loss(model, tokens, text, generator),
        DiffusionSampler, iterations=1, flow_steps=20, cfg_scale=3.0,
    )  # fmt: skip
    return {
        "pocket-ar": Family(
            partial(NitroAR, POCKET_AR),
            lambda model, tokens, _, text, generator: masked_ar_loss(
                model, tokens, text, generator, draws
            ),
            MaskedARSampler, iterations=24, flow_steps=6, cfg_scale=3.0,
        ),
        "pocket-ar-joint": Family(
            partial(NitroAR, POCKET_AR_JOINT), joint_loss, JointSampler,
            iterations=1, flow_steps=6, cfg_scale=2.0,
        ),
        "pocket-e": diffusion,
        "pocket-e-dist": replace(diffusion, flow_steps=4, cfg_scale=1.0),
        "pocket-instella": Family(
            partial(BitAR, POCKET_BITS_AR),
            lambda model, bits, _, text, generator: ar_loss(model, bits, text, generator),
            BitARSampler, iterations=1, flow_steps=1, cfg_scale=3.0, decoder=tokenizer_decoder,
        ),
        "pocket-instella-diffusion": Family(
            partial(BitDiffusion, POCKET_BITS_DIFFUSION),
            lambda model, bits, _, text, generator: flip_loss(model, bits, text, generator),
            BitDiffusionSampler, iterations=1, flow_steps=20, cfg_scale=3.0,
            decoder=tokenizer_decoder,
        ),
    }  # fmt: skip
