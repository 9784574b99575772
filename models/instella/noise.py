"""The noise process of bits and the guided step back: pure functions of probabilities.

At time t a bit keeps its clean value with probability 1 - t and is a fair coin otherwise; t = 1 is
noise alone. The network foresees which bits are wrong.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

import torch
from torch import Tensor

Protocol = Literal[1, 2]


@lru_cache(maxsize=256)
def noise_times(steps: int, rho: float = 1.0) -> tuple[float, ...]:
    """Times before each step, and 0 at the end: `steps + 1` numbers from 1 down."""
    return (*((1 - i / steps) ** rho for i in range(steps)), 0.0)


def noise_times_from(strength: float, steps: int, rho: float = 1.0) -> tuple[float, ...]:
    """Times that start at `strength`, then go on with those of `steps` that are below it."""
    grid = noise_times(steps, rho)
    return grid if strength >= 1 else (strength, *(t for t in grid if t < strength - 1e-6))


def noised(clean: Tensor, time: float | Tensor) -> Tensor:
    """Probability that a bit is 1 at `time`, of bits or of probabilities that they are 1."""
    return clean * (1 - time) + time / 2


def guided(unconditional: Tensor, conditional: Tensor, scale: Tensor) -> Tensor:
    """Logits with guidance in the usual convention (1 = none); the paper's g is `scale - 1`."""
    return torch.lerp(unconditional, conditional, scale)


def certain(logits: Tensor, temperature: float) -> Tensor:
    """Probabilities of logits; a temperature of 0 makes them 0 or 1."""
    if temperature == 0:
        return (logits > 0).to(logits.dtype)
    return (logits / temperature).sigmoid()


def clean_probability(z: Tensor, flips: Tensor) -> Tensor:
    """Probability that the clean bit is 1, from the noisy bit and the probability that it is wrong."""
    return z * (1 - flips) + (1 - z) * flips


def next_probability(
    z: Tensor, clean: Tensor, now: float, after: float, protocol: Protocol
) -> Tensor:
    """Probability that a bit is 1 at the time `after`, coming from `z` at `now`.

    Protocol 1 noises the estimate anew; protocol 2 keeps some memory of where the bit stands.
    """
    one = noised(clean, after)
    if protocol == 1:
        return one
    gap = now - after
    to_one = one * (z - gap * (z - 0.5))
    to_zero = (1 - one) * ((1 - z) - gap * ((1 - z) - 0.5))
    whole = to_one + to_zero
    return torch.where(whole > 0, to_one / whole.clamp(min=1e-30), one)
