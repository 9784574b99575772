"""A dictionary that forgets: least recently used first, bounded by count and by weight.

Every cache of the engine is one of these with its own key; none of them does anything else.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def _weightless(_: object) -> int:
    return 0


class Lru(Generic[K, V]):
    """Not thread-safe: its owner holds the lock, where one is needed."""

    def __init__(
        self, count: int, weight: int | None = None, weigh: Callable[[V], int] = _weightless
    ) -> None:
        self._count = count
        self._limit = weight
        self._weigh = weigh
        self._items: OrderedDict[K, V] = OrderedDict()
        self.weight = 0

    def get(self, key: K) -> V | None:
        if key in self._items:
            self._items.move_to_end(key)
        return self._items.get(key)

    def put(self, key: K, value: V) -> None:
        self.drop(key)
        self._items[key] = value
        self.weight += self._weigh(value)
        while self._items and self._over():
            self.drop(next(iter(self._items)))

    def drop(self, key: K) -> None:
        if key in self._items:
            self.weight -= self._weigh(self._items.pop(key))

    def drop_where(self, unwanted: Callable[[K], bool]) -> None:
        for key in [key for key in self._items if unwanted(key)]:
            self.drop(key)

    def __len__(self) -> int:
        return len(self._items)

    def _over(self) -> bool:
        too_heavy = self._limit is not None and self.weight > self._limit
        return len(self._items) > self._count or too_heavy
