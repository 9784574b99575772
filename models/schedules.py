"""Pure functions of a sample's schedule: how many tokens, which flow times, how much guidance.

Nothing here holds state or knows a device, so everything about shapes is known before the loop.
Source: the Nitro-AR sampler (AMD, 2026), which follows MAR (Li et al., 2024) for the mask schedule
and rectified flow (Liu et al., 2022) for the head.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

TimeRounding = Literal["two-step", "multi-step"]
# The reference's last grid point in float32: with two or more steps a token keeps 0.1 % of noise.
SIGMA_END = 0.0010000000474974513


@lru_cache(maxsize=256)
def masked_counts(tokens: int, iterations: int) -> tuple[int, ...]:
    """Masked tokens before each AR iteration, and 0 after the last: `iterations + 1` numbers.

    The cosine schedule of MaskGIT/MAR: after iteration s, floor(tokens * cos(pi/2 * (s+1)/I)) stay
    masked, but each iteration commits at least one token and all but the last leave at least one.
    More iterations than tokens therefore have empty iterations near the end.
    """
    counts = [tokens]
    for iteration in range(iterations - 1):
        keep = math.floor(tokens * math.cos(math.pi / 2 * (iteration + 1) / iterations))
        counts.append(max(1, min(counts[-1] - 1, keep)))
    return (*counts, 0)


@lru_cache(maxsize=256)
def flow_sigmas(steps: int) -> tuple[float, ...]:
    """Noise levels of the head's Euler steps, `steps + 1` numbers from 1 down.

    Evaluations happen at all but the last; with one step that end is 0, else `SIGMA_END`.
    """
    if steps == 1:
        return (1.0, 0.0)
    stride = (1.0 - SIGMA_END) / steps
    return (*(1.0 - k * stride for k in range(steps)), SIGMA_END)


@lru_cache(maxsize=256)
def flow_times(steps: int, rounding: TimeRounding) -> tuple[float, ...]:
    """What the head is told about time at each evaluation, 1000 * sigma.

    The reference truncates it to a whole number in some cases, and checkpoints are used to that:
    "two-step" (MLP head) truncates for exactly two steps, "multi-step" (transformer head) for two
    or more. Sigmas themselves are never truncated.
    """
    times = tuple(round(1000.0 * sigma, 4) for sigma in flow_sigmas(steps)[:-1])
    truncate = steps == 2 if rounding == "two-step" else steps >= 2
    return tuple(float(int(t)) for t in times) if truncate else times


@lru_cache(maxsize=256)
def diffusion_sigmas(steps: int) -> tuple[float, ...]:
    """Noise levels of a whole-picture diffusion sampler (Nitro-E), `steps + 1` numbers, last 0.

    Unlike the flow heads', the grid from 1 to 0.001 is evaluated at every point; the last step
    then moves the latent by a thousandth.
    """
    if steps == 1:
        return (1.0, 0.0)
    stride = (1.0 - SIGMA_END) / (steps - 1)
    return (*(1.0 - k * stride for k in range(steps - 1)), SIGMA_END, 0.0)


def diffusion_sigmas_from(strength: float, steps: int) -> tuple[float, ...]:
    """Noise levels that start at `strength`, then go on with those of `steps` that are below it.

    Hence about `strength * steps` steps, and the picture follows every change of the strength.
    """
    grid = diffusion_sigmas(steps)
    if strength >= 1:
        return grid
    below = (sigma for sigma in grid if sigma < strength - 1e-6)
    return (strength, *below)


def guidance_scales(
    scale: float, schedule: str, tokens: int, counts: Sequence[int]
) -> tuple[float, ...]:
    """The CFG scale of each AR iteration: constant, or growing linearly with known tokens.

    `counts` are the masked tokens before each iteration and at the end, of `tokens` in all. In the
    linear schedule's last iteration one token counts as masked, as in the reference.
    """
    if schedule == "constant":
        return (scale,) * (len(counts) - 1)
    still_masked = (max(1, count) for count in counts[1:])
    return tuple(1 + (scale - 1) * (tokens - keep) / tokens for keep in still_masked)
