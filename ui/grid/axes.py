"""What an axis says: `4-20 step 4`, `1, 2, 5-7`, or words. The page's Grid reads it the same way."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

from engine.requests import InvalidRequest

Value = int | float | str

TITLES = {
    "variant": "Model",
    "ar_iterations": "AR iterations",
    "flow_steps": "Flow steps",
    "cfg_scale": "CFG scale",
    "cfg_schedule": "CFG schedule",
    "temperature": "Temperature",
    "seed": "Seed",
    "prompt": "Prompt",
}
MAX_VALUES = 100
_WHOLE = frozenset({"ar_iterations", "flow_steps", "seed"})
_REAL = frozenset({"cfg_scale", "temperature"})
_NUMBER = r"(\d+(?:\.\d+)?|\.\d+)"
_RANGE = re.compile(rf"{_NUMBER}\s*(?:-|to|\.\.)\s*{_NUMBER}(?:\s*step\s*{_NUMBER})?", re.I | re.A)
_ALONE = re.compile(_NUMBER, re.ASCII)


@dataclass(frozen=True)
class Axis:
    """A setting of `GenerationRequest` and the values it takes, each once."""

    key: str
    values: tuple[Value, ...]

    @property
    def title(self) -> str:
        return TITLES[self.key]

    def labels(self) -> tuple[str, ...]:
        """The values as they are written at the axis."""
        return tuple(f"{v:g}" if isinstance(v, float) else str(v) for v in self.values)


def parse_axis(text: str) -> Axis:
    """An axis as the command line has it: `cfg_scale: 1-5 step 0.5`. Raises `InvalidRequest`."""
    key, colon, values = text.partition(":")
    if not colon:
        raise InvalidRequest(f'An axis is a setting and its values, as "seed: 0-3"; got {text!r}.')
    return make_axis(key.strip().lower().replace(" ", "_"), values)


def make_axis(key: str, text: str) -> Axis:
    """Values are separated by commas; prompts, which may hold commas, by bars.

    Whether a model can do with a value is for the request to say. Raises `InvalidRequest` in words
    for what cannot be read, for nothing, and for more than `MAX_VALUES`.
    """
    if key not in TITLES:
        raise InvalidRequest(f"{key!r} cannot be an axis. Possible: {', '.join(TITLES)}.")
    parts = [part.strip() for part in text.split("|" if key == "prompt" else ",")]
    values: dict[Value, None] = {}
    for part in filter(None, parts):
        values.update(dict.fromkeys(_values(key, part)))
        if len(values) > MAX_VALUES:
            raise _too_many(key)
    if not values:
        raise InvalidRequest(f"{TITLES[key]} has no values. Say which ones the axis takes.")
    return Axis(key, tuple(values))


def _values(key: str, part: str) -> list[Value]:
    if key not in _WHOLE | _REAL:
        return [part]
    if _ALONE.fullmatch(part):
        return [_number(key, Decimal(part))]
    found = _RANGE.fullmatch(part)
    if found is None:
        raise InvalidRequest(
            f"{TITLES[key]}: {part!r} cannot be read. Write numbers and ranges, as "
            '"1, 2, 4-20 step 4".'
        )
    first, last, step = (Decimal(text) for text in (found[1], found[2], found[3] or "1"))
    if not step or last < first:
        raise InvalidRequest(f"{TITLES[key]}: the range {part!r} goes nowhere.")
    if (last - first) / step >= MAX_VALUES:
        raise _too_many(key)
    return [_number(key, first + n * step) for n in range(int((last - first) / step) + 1)]


def _number(key: str, value: Decimal) -> Value:
    """Decimals, so that 0.1 three times is 0.3."""
    if key in _REAL:
        return float(value)
    if value != int(value):
        raise InvalidRequest(f"{TITLES[key]} takes whole numbers; got {value}.")
    return int(value)


def _too_many(key: str) -> InvalidRequest:
    return InvalidRequest(f"{TITLES[key]} has more than {MAX_VALUES} values. Shorten the list.")
