"""What an operator wants to know over time: how long steps take, how full batches are, memory.

Only the worker writes here, and it takes no lock: an addition to a list's element and one to a
float. Whoever looks gets a copy, in which a step that is being added at that moment may be counted
and not yet summed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

STEP_BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
BATCH_BOUNDS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)


@dataclass(frozen=True)
class Distribution:
    """Counts of values up to each bound (inclusive), not cumulated; the last counts the rest."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    total: float  # sum of the values

    @property
    def count(self) -> int:
        return sum(self.counts)


class Histogram:
    """A distribution that grows. One thread adds, any may look."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(self._bounds) + 1)
        self._total = 0.0

    def add(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._total += value

    def look(self) -> Distribution:
        return Distribution(self._bounds, tuple(self._counts), self._total)


@dataclass(frozen=True)
class Measured:
    """A copy of all measures. Distributions by variant."""

    step_s: dict[str, Distribution]  # seconds of one step of a batch
    batch_size: dict[str, Distribution]  # pictures that shared a step
    device_bytes: int | None  # memory that torch has allocated on the device; None on a CPU


class Measures:
    """Made for the variants of an engine; the set never changes, so looking needs no lock."""

    def __init__(self, variant_ids: Iterable[str]) -> None:
        names = tuple(variant_ids)
        self._step_s = {name: Histogram(STEP_BOUNDS_S) for name in names}
        self._batch_size = {name: Histogram(BATCH_BOUNDS) for name in names}
        self.device_bytes: int | None = None

    def step(self, variant_id: str, seconds: float, pictures: int) -> None:
        """One step was taken for so many pictures."""
        self._step_s[variant_id].add(seconds)
        self._batch_size[variant_id].add(pictures)

    def look(self) -> Measured:
        return Measured(
            step_s={name: each.look() for name, each in self._step_s.items()},
            batch_size={name: each.look() for name, each in self._batch_size.items()},
            device_bytes=self.device_bytes,
        )
