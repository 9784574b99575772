"""Measured times: how long a step, a decode and a preview take here, as moving averages."""

from __future__ import annotations

from collections import defaultdict, deque
from statistics import median

_WEIGHT = 0.2  # of a new measurement
GUESS_S = 0.05  # for what has never been measured


class Average:
    """An exponential moving average that starts at its first value."""

    def __init__(self) -> None:
        self.value: float | None = None

    def add(self, seconds: float) -> None:
        old = seconds if self.value is None else self.value
        self.value = old + _WEIGHT * (seconds - old)

    def or_guess(self, guess: float = GUESS_S) -> float:
        return guess if self.value is None else self.value


class Typical:
    """The median of the last measurements: one slow moment doesn't count.

    What looks too dear is not done, hence never measured again; `relax` lets the figure sink
    until it is tried once more.
    """

    def __init__(self) -> None:
        self._last: deque[float] = deque(maxlen=9)

    def add(self, seconds: float) -> None:
        self._last.append(seconds)

    def relax(self) -> None:
        self._last = deque((0.98 * seconds for seconds in self._last), maxlen=9)

    @property
    def value(self) -> float | None:
        return median(self._last) if self._last else None


class Clock:
    """Averages by variant. Written by the worker alone; reading a float needs no lock."""

    def __init__(self) -> None:
        self.step: dict[str, Average] = defaultdict(Average)  # one call of `advance`
        self.decode: dict[str, Average] = defaultdict(Average)  # one picture
        self.linear: dict[str, Typical] = defaultdict(Typical)  # one linear preview

    @staticmethod
    def milliseconds(averages: dict[str, Average]) -> dict[str, float]:
        items = list(averages.items())
        return {name: 1000 * a.value for name, a in items if a.value is not None}
