"""Prompt templates: `a {red|blue} {cat|dog}` stands for all four combinations.

Choices may be empty (`a {|small }fox`) and hold choices; a backslash takes a brace, a bar or a
backslash literally. Outside of braces a bar is just a bar.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

MAX_COMBINATIONS = 1_000_000
_MAX_DEPTH = 16
_SPECIAL = "{|}\\"


class TemplateError(ValueError):
    """A template that cannot be read. The message is for the person who wrote it."""


@dataclass(frozen=True)
class _Choice:
    options: tuple[_Parts, ...]

    def count(self) -> int:
        return sum(map(_count, self.options))

    def texts(self) -> Iterator[str]:
        return itertools.chain.from_iterable(map(_texts, self.options))


_Parts = tuple["str | _Choice", ...]  # one after another


def combinations(template: str) -> int:
    """How many prompts a template stands for. Raises `TemplateError`."""
    return _count(_parse(template))


def expand(template: str, limit: int = MAX_COMBINATIONS) -> Iterator[str]:
    """Every combination, the last choice changing quickest.

    Raises `TemplateError`, before the first one, if there are more than `limit`.
    """
    parts = _parse(template)
    count = _count(parts)
    if count > limit:
        raise TemplateError(
            f"The template stands for {count:,} prompts; at most {limit:,} are drawn in one batch. "
            "Please shorten a list."
        )
    return _texts(parts)


def _count(parts: _Parts) -> int:
    return math.prod(part.count() for part in parts if isinstance(part, _Choice))


def _texts(parts: _Parts) -> Iterator[str]:
    lists = ([part] if isinstance(part, str) else part.texts() for part in parts)
    return map("".join, itertools.product(*lists))


def _parse(template: str) -> _Parts:
    parts, end = _sequence(template, 0, 0)
    if end < len(template):
        raise TemplateError(
            f"The template has a closing brace without an opening one at character {end + 1}. "
            r"Write \} for the brace itself."
        )
    return parts


def _sequence(text: str, at: int, depth: int) -> tuple[_Parts, int]:
    """Parts from `at` up to the end, or to what ends an option inside of braces."""
    parts: list[str | _Choice] = []
    while at < len(text):
        character = text[at]
        if character == "}" or (character == "|" and depth):
            break
        if character == "{":
            choice, at = _choice(text, at, depth + 1)
            parts.append(choice)
            continue
        if character == "\\" and text[at + 1 : at + 2] and text[at + 1] in _SPECIAL:
            at += 1
        parts.append(text[at])
        at += 1
    return tuple(parts), at


def _choice(text: str, start: int, depth: int) -> tuple[_Choice, int]:
    if depth > _MAX_DEPTH:
        raise TemplateError(f"Braces are nested more than {_MAX_DEPTH} deep.")
    options: list[_Parts] = []
    at = start
    while at < len(text) and text[at] != "}":
        parts, at = _sequence(text, at + 1, depth)
        options.append(parts)
    if at >= len(text):
        raise TemplateError(
            f"The brace at character {start + 1} of the template is never closed. "
            r"Write \{ for the brace itself."
        )
    return _Choice(tuple(options)), at + 1
