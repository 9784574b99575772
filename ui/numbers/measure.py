"""Measuring: some pictures one after another, then as many at once as the device takes.

They go through the engine like anybody's, so other visitors are served in between; their company is
part of what is measured, and how much there was is told.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from engine.events import Failed, Finished, Superseded
from engine.requests import GenerationRequest

OWNER = "numbers"
ALONE = 5  # pictures one after another; the median counts
PROMPT = "a red apple and a blue star"


class MeasuringFailed(RuntimeError):
    """A picture could not be drawn. The message is for a person."""


@dataclass(frozen=True)
class Measurement:
    """A variant's numbers at its defaults. Milliseconds, and pictures a second."""

    variant: str
    latency_ms: float  # median of `runs` pictures drawn alone
    spread_ms: float  # half the distance between the slowest and the quickest
    runs: int
    throughput: float
    batch: int  # pictures at once
    company: int  # other pictures that were in the engine meanwhile, at most
    at: str  # UTC, ISO 8601
    weights: str


def summed_up(latencies_ms: Sequence[float]) -> tuple[float, float]:
    """Median, and half the distance between the extremes."""
    return statistics.median(latencies_ms), (max(latencies_ms) - min(latencies_ms)) / 2


def measure(
    engine: Any,
    variant: str,
    now: str,
    stopped: Callable[[], bool],
    tell: Callable[[float], None],
) -> Measurement | None:
    """A variant's numbers; None when it was stopped. `tell` hears the share that is done.

    Every picture has a seed of its own, as a kept one would cost nothing. Raises
    `MeasuringFailed`.
    """
    batch = engine.status().max_batch
    total, seed = 1 + ALONE + batch, time.time_ns() % 2**31
    done, company, latencies, weights = 0, 0, list[float](), ""

    def request() -> GenerationRequest:
        nonlocal seed
        seed += 1
        return GenerationRequest(PROMPT, variant, seed=seed, preview_every=0)

    def others(mine: int) -> int:
        status = engine.status()
        return max(0, int(status.waiting + status.running) - mine)

    for turn in range(1 + ALONE):  # the first one warms up
        if stopped():
            return None
        company = max(company, others(0))
        job = engine.submit(request(), OWNER, "alone")
        begin = time.perf_counter()
        _finish(job, stopped, engine)
        if stopped():
            return None
        if turn:
            latencies.append(1000 * (time.perf_counter() - begin))
        done += 1
        tell(done / total)
    begin = time.perf_counter()
    jobs: list[Any] = []
    try:
        for n in range(batch):
            jobs.append(engine.submit(request(), OWNER, f"together {n}"))
        company = max(company, others(batch))
        for job in jobs:
            _finish(job, stopped, engine)
            done += 1
            tell(done / total)
        seconds = time.perf_counter() - begin
    finally:  # whatever failed, no picture is drawn that nobody waits for
        for job in jobs:
            engine.cancel(job)
    if stopped():
        return None
    entry = next(each for each in engine.status().variants if each.id == variant)
    weights = entry.weights or ""
    latency, spread = summed_up(latencies)
    return Measurement(
        variant, latency, spread, ALONE, batch / seconds, batch, company, now, weights
    )


def _finish(job: Any, stopped: Callable[[], bool], engine: Any) -> None:
    for event in _events(job, stopped, engine):
        if isinstance(event, Failed):
            raise MeasuringFailed(event.message)


def _events(job: Any, stopped: Callable[[], bool], engine: Any) -> Iterator[Any]:
    while True:
        event = job.next(0.25)
        if event is None:
            if stopped():
                engine.cancel(job)
                return
            continue
        yield event
        if isinstance(event, Finished | Superseded | Failed):
            return
