"""JSON knows one kind of number: a browser's CFG scale of 2.0 arrives as the integer 2."""

from __future__ import annotations

from typing import Any

REAL = ("cfg_scale", "temperature")


def as_numbers(values: Any) -> Any:
    """The settings with every real-valued one a float. Anything odd stays, to be refused later."""
    if not isinstance(values, dict):
        return values
    return {
        key: float(value) if key in REAL and type(value) is int and abs(value) < 2**53 else value
        for key, value in values.items()
    }
