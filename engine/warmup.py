"""Warming a variant: one small picture through every kind of step, before visitors come.

It meets slow first calls, finds weights that give no numbers, measures how long a step, a decode
and a preview take, and gives the linear preview its first lessons.
"""

from __future__ import annotations

import time

import torch
from torch import Tensor

from engine.clock import Clock
from engine.conditioning import Conditioning
from engine.previews import Previews
from models.contracts import LoadedVariant, SampleSettings

_PROMPT = "a red apple and a blue star"


def synchronise(device: torch.device) -> None:
    """Wait for the device, so that a clock shows what was done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


def warm(
    loaded: LoadedVariant,
    conditioning: Conditioning,
    previews: Previews,
    clock: Clock,
    device: torch.device,
) -> None:
    """Raises whatever the variant raises; it is not fit to serve then."""
    variant, sampler = loaded.variant, loaded.sampler
    settings = SampleSettings(
        seed=0,
        ar_iterations=max(variant.ar_iterations.low, min(4, variant.ar_iterations.default)),
        flow_steps=variant.flow_steps.default,
        cfg_scale=variant.cfg_scale,
    )
    prompt, empty = conditioning.context(loaded, _PROMPT), conditioning.context(loaded, "")
    state = sampler.start(settings, prompt, empty)
    steps = sampler.num_steps(state)
    for step in range(steps):
        begin = time.perf_counter()
        sampler.advance([state])
        synchronise(device)
        if step > 0 or steps == 1:  # the first call also pays for what is set up once
            clock.step[variant.id].add(time.perf_counter() - begin)
    latents = sampler.latent(state).unsqueeze(0).clone()
    pixels = loaded.autoencoder.decode(latents)
    begin = time.perf_counter()
    pixels = loaded.autoencoder.decode(latents)
    synchronise(device)
    clock.decode[variant.id].add(time.perf_counter() - begin)
    previews.practise(loaded)
    previews.learn(loaded, latents, pixels)
    previews.make("linear", loaded, latents, None)
    clock.linear.pop(variant.id, None)  # the first call is slower and doesn't count
    for _ in range(5):
        previews.make("linear", loaded, latents, _half_committed(sampler.committed(state)))


def _half_committed(grid: Tensor | None) -> Tensor | None:
    """A grid as in the middle of a picture, so that all of a preview's work is measured."""
    if grid is None:
        return None
    return torch.where(torch.arange(grid.shape[-1], device=grid.device) % 2 == 0, grid, 0)[None]
