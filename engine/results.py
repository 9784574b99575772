"""Finished pictures, kept for a while: a request whose inputs didn't change costs nothing.

A picture is a pure function of its resolved request (all randomness comes from the seed), so one
visitor may be given what was made for another: nothing in it tells who asked. A picture to start
from is named by its pixels or by its job, and who may not start from it is refused before anybody
looks here. Preview settings don't change the picture and are no part of the key.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace

from engine.events import Bits, Grid, Pixels
from engine.limits import EngineLimits
from engine.lru import Lru
from engine.requests import GenerationRequest
from models.catalogue import find_variant
from models.trajectory import Trajectory


@dataclass(frozen=True)
class Result:
    """A finished picture, read-only because several readers may hold it."""

    image: Pixels
    committed: Grid | None
    bits: Bits | None
    steps: int
    weights: str
    notes: tuple[str, ...]
    trajectory: Trajectory

    @property
    def nbytes(self) -> int:
        extras = (part.nbytes for part in (self.committed, self.bits) if part is not None)
        return self.image.nbytes + sum(extras) + self.trajectory.nbytes


def picture_key(request: GenerationRequest) -> GenerationRequest:
    """What decides the picture. Call with a resolved request."""
    return replace(request, preview_every=0, preview="off")


class Results:
    """Bounded by count and bytes; any thread may use it."""

    def __init__(self, limits: EngineLimits) -> None:
        self._lock = threading.Lock()
        self._kept: Lru[GenerationRequest, Result] = Lru(
            limits.results_cached, limits.results_bytes, lambda result: result.nbytes
        )

    def get(self, request: GenerationRequest) -> Result | None:
        with self._lock:
            return self._kept.get(picture_key(request))

    def at_another_size(self, request: GenerationRequest) -> Result | None:
        """The picture if it is here, but decoded at another size."""
        sizes = find_variant(request.variant).sizes
        found = (self.get(replace(request, size=size)) for size in sizes if size != request.size)
        return next((result for result in found if result is not None), None)

    def put(self, request: GenerationRequest, result: Result) -> None:
        with self._lock:
            self._kept.put(picture_key(request), result)
