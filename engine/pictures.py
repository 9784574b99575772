"""Pictures kept to start from: uploads, and finished ones with how they came to be.

Each belongs to one owner, and to everybody else it does not exist. An upload's name is a hash of
its pixels, so that sending a picture twice is no new picture; a finished one's is its job's id.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from dataclasses import dataclass

import numpy as np

from engine.events import Pixels
from engine.limits import EngineLimits
from models.masks import mask_text, outside
from models.photos import MAX_MARGIN, Fit, Photo, as_rgb, fitted
from models.trajectory import Trajectory

__all__ = [  # the models' part too, for those who must not import models
    "MAX_MARGIN",
    "Fit",
    "Kept",
    "Photo",
    "Pictures",
    "as_rgb",
    "fitted",
    "mask_text",
    "outside",
]


@dataclass(frozen=True)
class Kept:
    """A picture that can be started from. `variant` and `trajectory` are a finished one's."""

    name: str
    pixels: Pixels  # [S, S, 3], read-only
    variant: str = ""
    trajectory: Trajectory | None = None

    @property
    def nbytes(self) -> int:
        return self.pixels.nbytes + (self.trajectory.nbytes if self.trajectory else 0)


class Pictures:
    """Thread-safe. Bounded per owner and in all: least recently used first."""

    def __init__(self, limits: EngineLimits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, str], Kept] = OrderedDict()  # by owner and name
        self._owned: dict[str, OrderedDict[str, int]] = {}  # bytes by name
        self._bytes = 0

    def upload(self, owner: str, pixels: Pixels) -> str:
        """Keep a square RGB picture; returns its name. Raises `ValueError` for another shape."""
        square = pixels.ndim == 3 and pixels.shape[0] == pixels.shape[1] and pixels.shape[2] == 3
        if pixels.dtype != np.uint8 or not square or not pixels.size:
            raise ValueError(f"Expected uint8 [S, S, 3], got {pixels.dtype} {pixels.shape}.")
        own = np.ascontiguousarray(pixels).copy()
        own.setflags(write=False)
        digest = hashlib.sha256(f"{own.shape}".encode() + own.tobytes()).hexdigest()
        name = f"upload-{digest[:32]}"
        self.keep(owner, Kept(name, own))
        return name

    def keep(self, owner: str, picture: Kept) -> None:
        """Keep a picture under its name, at the cost of the least recently used ones."""
        limits = self._limits
        with self._lock:
            self._drop(owner, picture.name)
            mine = self._owned.setdefault(owner, OrderedDict())
            mine[picture.name] = picture.nbytes
            self._kept[owner, picture.name] = picture
            self._bytes += picture.nbytes
            while len(mine) > limits.pictures_per_owner or (
                mine and sum(mine.values()) > limits.pictures_bytes_per_owner
            ):
                self._drop(owner, next(iter(mine)))
            while self._kept and self._bytes > limits.pictures_bytes:
                self._drop(*next(iter(self._kept)))

    def get(self, owner: str, name: str) -> Kept | None:
        """The owner's picture of that name; None if it is gone, was never, or is another's."""
        with self._lock:
            found = self._kept.get((owner, name))
            if found is not None:
                self._kept.move_to_end((owner, name))
                self._owned[owner].move_to_end(name)
            return found

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def nbytes(self) -> int:
        return self._bytes

    def _drop(self, owner: str, name: str) -> None:
        picture = self._kept.pop((owner, name), None)
        if picture is not None:
            self._bytes -= picture.nbytes
            del self._owned[owner][name]
            if not self._owned[owner]:
                del self._owned[owner]
