"""Checking values that come from outside: what was given, what is allowed, in words."""

from __future__ import annotations

import math
from typing import TypeVar

T = TypeVar("T")


class InvalidRequest(ValueError):
    """A request that cannot be run. The message is for the person who sent it."""


def or_default(value: T | None, default: T) -> T:
    """The value, or the default for None."""
    return default if value is None else value


def whole(name: str, value: object, low: int, high: int) -> int:
    """A whole number within the bounds. Raises `InvalidRequest`, as all of these do."""
    within = _within(name, value, low, high, "a whole number")
    if within != int(within):
        raise InvalidRequest(f"{name} has to be a whole number; got {value!r}.")
    return int(within)


def number(name: str, value: object, low: float, high: float) -> float:
    """Always a float: JSON writes 2.0 as 2, and tensors care."""
    return float(_within(name, value, low, high, "a number"))


def choice(name: str, value: T, allowed: tuple[T, ...]) -> T:
    """One of the allowed values."""
    if value not in allowed:
        raise InvalidRequest(f"{name} has to be one of {', '.join(map(str, allowed))}.")
    return value


def _within(name: str, value: object, low: float, high: float, kind: str) -> int | float:
    wrong = isinstance(value, bool) or not isinstance(value, int | float)
    if wrong or (isinstance(value, float) and not math.isfinite(value)):
        raise InvalidRequest(f"{name} has to be {kind} from {low} to {high}; got {value!r:.40}.")
    assert isinstance(value, int | float)
    if not low <= value <= high:  # whole numbers may be too large for a float
        shown = f"{value:.15g}" if abs(value) < 1e15 else "a number far outside"
        raise InvalidRequest(f"{name} has to be from {low} to {high}; got {shown}.")
    return value
