"""What the generators learn from: flow matching on masked tokens, or on all of them at once.

Rectified flow (Liu et al., 2022): a token is mixed with noise at a time from 0 (data) to 1 (noise),
and the head learns the velocity, noise - data. Masks follow MAR (Li et al., 2024).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from models.nitro_ar import NitroAR
from models.nitro_e import NitroE


def flow_target(tokens: Tensor, times: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Noised tokens at `times` (1 = pure noise) and the velocity (noise - data) to predict."""
    noise = torch.randn(tokens.shape, generator=generator).to(tokens)
    return tokens + times * (noise - tokens), noise - tokens


def flow_times(count: int, steps: int, generator: torch.Generator) -> Tensor:
    """Half of the times uniform, half at the few noise levels the default sampler visits."""
    uniform = torch.rand(count, generator=generator)
    grid = 1 - torch.randint(0, steps, (count,), generator=generator) / steps
    return torch.where(torch.rand(count, generator=generator) < 0.5, uniform, grid)


def mask_ratios(count: int, generator: torch.Generator) -> Tensor:
    """Half as MAR draws them (mostly 0.7 to 1), half as the cosine schedule visits them."""
    mar = 1 - 0.3 * torch.rand(count, generator=generator) ** 2
    cosine = torch.cos(math.pi / 2 * torch.rand(count, generator=generator))
    return torch.where(torch.rand(count, generator=generator) < 0.5, mar, cosine)


def masked(count: int, ratios: Tensor, generator: torch.Generator) -> Tensor:
    """Random masks, bool [B, count]; at least one token is masked."""
    ranks = torch.rand(len(ratios), count, generator=generator).argsort(1).argsort(1)
    return ranks < (ratios * count).ceil().clamp(min=1)[:, None]


def masked_ar_loss(
    model: NitroAR, tokens: Tensor, text: Tensor, generator: torch.Generator, draws: int = 1
) -> Tensor:
    """Flow matching on the masked tokens, `draws` noise levels each."""
    mask = masked(tokens.shape[1], mask_ratios(len(tokens), generator), generator)
    mask = mask.to(tokens.device)
    seen = torch.where(mask[:, :, None], model.mask_token, tokens)
    hidden = model(seen, model.embed_text(text))[mask].repeat(draws, 1)  # [n, D]
    target = tokens[mask].repeat(draws, 1)
    times = flow_times(len(target), 3, generator).to(tokens)
    noisy, velocity = flow_target(target, times[:, None], generator)
    head = model.diffloss.net
    made = head(noisy, head.time(1000 * times), head.condition(hidden))
    return (made.float() - velocity).square().mean()


def joint_loss(
    model: NitroAR, tokens: Tensor, thumbnail: Tensor, text: Tensor, generator: torch.Generator
) -> Tensor:
    """Flow matching of all tokens given the global token, and of the global token itself."""
    count = len(tokens)
    embedded = model.embed_text(text)
    # The predicted global token will be a little off: learn to live with that.
    shake = 0.1 * torch.randn(thumbnail.shape, generator=generator).to(thumbnail)
    stand_in = (thumbnail + shake)[:, None, :]
    ratios = 1 - 0.3 * torch.rand(count, generator=generator)
    ratios[torch.rand(count, generator=generator) < 0.8] = 1.0
    mask = masked(tokens.shape[1], ratios, generator).to(tokens.device)
    hidden = model(torch.where(mask[:, :, None], stand_in, tokens), embedded)
    times = flow_times(count, 6, generator).to(tokens)
    noisy, velocity = flow_target(tokens, times[:, None, None], generator)
    head = model.diffloss.net
    made = head(noisy, head.time(1000 * times), head.condition(hidden))
    loss = ((made.float() - velocity).square().mean(2) * mask).sum() / mask.sum()
    head, hidden = model.diffloss_global.net, model.global_pass(embedded)
    times = flow_times(count, 6, generator).to(tokens)
    noisy, velocity = flow_target(thumbnail[:, None], times[:, None, None], generator)
    made = head(noisy, head.time(1000 * times), head.condition(hidden))
    return loss + 0.25 * (made.float() - velocity).square().mean()


def diffusion_loss(
    model: NitroE, tokens: Tensor, text: Tensor, generator: torch.Generator
) -> Tensor:
    """Flow matching of whole pictures, all tokens at one noise level.

    Levels are the logistic of a normal number (Esser et al., 2024): most in the middle, where what
    is drawn is decided; a quarter uniform, so that the ends are learnt too.
    """
    count = len(tokens)
    middle = torch.sigmoid(torch.randn(count, generator=generator))
    uniform = torch.rand(count, generator=generator)
    times = torch.where(torch.rand(count, generator=generator) < 0.25, uniform, middle).to(tokens)
    noisy, velocity = flow_target(tokens, times[:, None, None], generator)
    made = model(noisy, model.embed_text(text), model.adaln_single(1000 * times))
    return (made.float() - velocity).square().mean()
