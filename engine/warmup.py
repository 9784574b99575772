"""Warming a variant: one small picture through every kind of step, before visitors come.

It meets slow first calls, finds weights that give no numbers, measures how long a step, a decode
and a preview take, and gives the linear preview its first lessons.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import torch
from torch import Tensor

from engine.clock import Clock
from engine.conditioning import Conditioning
from engine.previews import Previews
from models.contracts import LoadedVariant, SampleSettings

_SLOW_DECODE_S = 1.0
_WARM_STEPS = 24  # token after token they are all alike
_PROMPT = "a red apple and a blue star"


def synchronise(device: torch.device) -> None:
    """Wait for the device, so that a clock shows what was done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


def release_memory(device: torch.device) -> None:
    """Give back what torch holds without using it."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
    elif device.type == "mps":
        torch.mps.empty_cache()


def memory_in_use(device: torch.device) -> int | None:
    """Bytes that torch has allocated on an accelerator; None where nobody counts them."""
    if device.type == "cuda":
        return int(torch.cuda.memory_allocated(device))
    if device.type == "mps":
        return int(torch.mps.current_allocated_memory())
    return None


def warm(
    loaded: LoadedVariant,
    conditioning: Conditioning,
    previews: Previews,
    clock: Clock,
    device: torch.device,
) -> Iterator[None]:
    """A piece of the work per turn, so that visitors of other variants are served in between.

    Raises whatever the variant raises; it is not fit to serve then.
    """
    variant, sampler = loaded.variant, loaded.sampler
    settings = SampleSettings(
        seed=0,
        ar_iterations=max(variant.ar_iterations.low, min(4, variant.ar_iterations.default)),
        flow_steps=variant.flow_steps.default,
        cfg_scale=variant.cfg_scale,
    )
    empty = conditioning.context(loaded, "")
    yield
    state = sampler.start(settings, conditioning.context(loaded, _PROMPT), empty)
    steps = sampler.num_steps(state)
    for step in range(min(steps, _WARM_STEPS)):
        yield
        begin = time.perf_counter()
        sampler.advance([state])
        synchronise(device)
        if step > 0 or steps == 1:  # the first call also pays for what is set up once
            clock.step[variant.id].add(time.perf_counter() - begin)
    yield
    latents = sampler.latent(state).unsqueeze(0).clone()
    pixels, seconds = _decode(loaded, latents, device)
    if seconds < _SLOW_DECODE_S:  # the first call was not the usual one
        pixels, seconds = _decode(loaded, latents, device)
    clock.decode[variant.id].add(seconds)
    yield
    previews.practise(loaded)
    previews.learn(loaded, latents, pixels)
    rows, columns = variant.shape
    there = torch.arange(rows, device=latents.device) < rows // 2  # as halfway through a picture
    shown = there[None, :, None].expand(1, rows, columns)
    previews.make("linear", loaded, latents, shown)
    clock.linear.pop(variant.id, None)  # the first call is slower and doesn't count
    for _ in range(5):
        previews.make("linear", loaded, latents, shown)


def _decode(loaded: LoadedVariant, latents: Tensor, device: torch.device) -> tuple[Tensor, float]:
    """The decoded picture and the seconds it took."""
    begin = time.perf_counter()
    pixels = loaded.autoencoder.decode(latents)
    synchronise(device)
    return pixels, time.perf_counter() - begin
