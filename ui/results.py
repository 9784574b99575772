"""Finished pictures, kept for their owner to download.

Bounded by count and bytes: the oldest go first, a page's own before those of others. The whole
store is shared, so many busy pages do push out old pictures; their settings draw them again.
Pictures are kept as pixels and encoded when somebody asks, which most never do.
"""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from engine.events import Pixels


@dataclass(frozen=True)
class Result:
    """A finished picture, whose it is, and the settings that draw it again."""

    owner: str
    image: Pixels
    settings: dict[str, Any]


class ResultStore:
    """Thread-safe. Names are unguessable, and still only their owner gets the picture."""

    def __init__(self, per_owner: int = 96, count: int = 512, max_bytes: int = 192 << 20):
        self._per_owner, self._count, self._max_bytes = per_owner, count, max_bytes
        self._kept: OrderedDict[str, Result] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def add(self, owner: str, image: Pixels, settings: dict[str, Any]) -> str:
        """Keep a picture; returns its unguessable name."""
        name = secrets.token_urlsafe(18)
        with self._lock:
            self._kept[name] = Result(owner, image, settings)
            self._bytes += image.nbytes
            mine = [key for key, result in self._kept.items() if result.owner == owner]
            for key in mine[: -self._per_owner]:
                self._drop(key)
            while len(self._kept) > self._count or self._bytes > self._max_bytes:
                self._drop(next(iter(self._kept)))
        return name

    def get(self, name: str, owner: str) -> Result | None:
        """The picture, or None when it is gone or somebody else's: the two look alike."""
        with self._lock:
            result = self._kept.get(name)
        return result if result is not None and result.owner == owner else None

    def __len__(self) -> int:
        return len(self._kept)

    def _drop(self, name: str) -> None:
        self._bytes -= self._kept.pop(name).image.nbytes
