"""How far a batch is: how many, how quick, how long still."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

_WINDOW_S = 60.0


class Progress:
    """Counts pictures of this run. The rate is that of the last minute.

    `total` and `before` count pictures of the whole batch: all of them, and those that were done
    when the run began.
    """

    def __init__(
        self, total: int, before: int = 0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.total, self.before, self._clock = total, before, clock
        self.drawn = self.failed = 0
        self._times: deque[float] = deque([clock()])

    def add(self, failed: bool = False) -> None:
        """A picture is over, well or not."""
        self.failed += failed
        self.drawn += not failed
        self._times.append(self._clock())
        while self._times[-1] - self._times[0] > _WINDOW_S and len(self._times) > 2:
            self._times.popleft()

    @property
    def left(self) -> int:
        """Pictures that are still to come."""
        return max(0, self.total - self.before - self.drawn - self.failed)

    @property
    def rate(self) -> float | None:
        """Pictures a second; None until it can be told."""
        seconds = self._clock() - self._times[0]
        return (len(self._times) - 1) / seconds if len(self._times) > 1 and seconds > 0 else None

    def __str__(self) -> str:
        done = self.before + self.drawn
        parts = [f"{done:,} of {self.total:,} ({100 * done / max(1, self.total):.0f} %)"]
        if rate := self.rate:
            pace = f"{rate:.1f} pictures/s" if rate >= 0.1 else f"{60 * rate:.1f} pictures/min"
            parts += [pace, f"{duration(self.left / rate)} left"]
        if self.failed:
            parts.append(f"{self.failed:,} failed")
        return " · ".join(parts)


def duration(seconds: float) -> str:
    """A time in the two units that matter: 2 h 5 min, 3 min 20 s, 45 s."""
    whole = max(0, round(seconds))
    days, hours = divmod(whole // 3600, 24)
    minutes = whole // 60 % 60
    if days:
        return f"{days} d {hours} h"
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {whole % 60} s" if minutes else f"{whole} s"
