"""Reading prompt files: a prompt a line, CSV with a header, or JSON lines.

CSV columns and JSON keys are the fields of `GenerationRequest`; what a line sets itself goes
before what the command sets for all. A `metadata.jsonl` that was written by a batch is a prompt
file too, which draws the same pictures again.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TextIO

from engine.requests import GenerationRequest

KNOWN = frozenset(f.name for f in fields(GenerationRequest))
WRITTEN = frozenset({"file_name", "weights"})  # a batch's own notes, read over
_WHOLE = frozenset(
    {
        "seed",
        "ar_iterations",
        "flow_steps",
        "preview_every",
        "count",
        "context",
        "fork_step",
        "size",
    }
)
_REAL = frozenset({"cfg_scale", "temperature", "strength"})


class PromptFileError(ValueError):
    """A prompt file that cannot be read. The message names the file and the line."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A prompt, and the settings that its line has for itself."""

    prompt: Any  # text, if the request is to be drawn; checked there
    settings: dict[str, Any] = field(default_factory=dict)


def read_prompts(path: Path) -> tuple[Entry, ...]:
    """Every entry of a file; its ending says how to read it (.csv, .jsonl, else plain text).

    Raises `PromptFileError` for a file that cannot be read or holds no prompt. Whether a prompt
    and its settings can be drawn is not asked here: one that cannot fails alone.
    """
    ending = path.suffix.lower()
    read = _reader(ending)
    try:
        with path.open(encoding="utf-8-sig", newline="" if ending == ".csv" else None) as file:
            entries = tuple(read(file))
    except UnicodeDecodeError as error:
        raise PromptFileError(
            f"{path} is not UTF-8 text (byte {error.start}). Please save it as UTF-8."
        ) from None
    except OSError as error:
        raise PromptFileError(f"{path} cannot be read: {error.strerror}.") from None
    except PromptFileError as error:
        raise PromptFileError(f"{path}, {error}") from None
    if not entries:
        raise PromptFileError(f"{path} holds no prompt.")
    return entries


def parse_prompts(text: str, kind: str) -> tuple[Entry, ...]:
    """The same of text that was sent: "text", "csv" or "jsonl". Raises `PromptFileError`."""
    entries = tuple(_reader(f".{kind}")(io.StringIO(text.removeprefix("\ufeff"))))
    if not entries:
        raise PromptFileError("There is no prompt. Write one a line.")
    return entries


def _reader(ending: str) -> Callable[[TextIO], Iterator[Entry]]:
    if ending == ".csv":
        return _csv
    return _jsonl if ending in (".jsonl", ".ndjson") else _text


def _text(file: TextIO) -> Iterator[Entry]:
    for line in file:
        if line.strip():
            yield Entry(line.strip())


def _jsonl(file: TextIO) -> Iterator[Entry]:
    """An object with a prompt and settings on each line, or just a string."""
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        try:
            values = json.loads(line)
        except (ValueError, RecursionError):
            raise PromptFileError(f"line {number}: this is not valid JSON.") from None
        if isinstance(values, str):
            values = {"prompt": values}
        if not isinstance(values, dict):
            raise PromptFileError(
                f'line {number}: expected {{"prompt": "..."}} or a string, got {line.strip()[:40]}.'
            )
        yield _entry(values, f"line {number}")


def _csv(file: TextIO) -> Iterator[Entry]:
    """A header with a `prompt` column; an empty cell is a setting left at its default."""
    reader = csv.DictReader(file, strict=True)
    try:
        if reader.fieldnames is None:
            return
        names = [name.strip() for name in reader.fieldnames]
        if twice := {name for name in names if names.count(name) > 1}:
            raise PromptFileError(f"line 1: the column {min(twice)!r} is there twice.")
        reader.fieldnames = names
        _entry(dict.fromkeys(names), "line 1")
        for row in reader:
            if None in row:
                raise PromptFileError(f"line {reader.line_num}: more cells than the header has.")
            cells = {name: _value(name, cell) for name, cell in row.items() if cell}
            yield _entry({"prompt": "", **cells}, f"line {reader.line_num}")
    except csv.Error as error:
        raise PromptFileError(f"line {reader.reader.line_num}: {error}.") from None


def _value(name: str, cell: str) -> Any:
    """A cell as a number where the setting is one; what is no number is refused when drawn."""
    try:
        if name in _WHOLE:
            return int(cell)
        if name in _REAL:
            return float(cell)
    except ValueError:
        pass
    return cell


def _entry(values: dict[str, Any], place: str) -> Entry:
    if extra := sorted(set(values) - KNOWN - WRITTEN):
        raise PromptFileError(
            f"{place}: unknown setting {', '.join(map(repr, extra))}. Known: "
            f"{', '.join(sorted(KNOWN))}."
        )
    if "prompt" not in values:
        raise PromptFileError(f"{place}: there is no prompt.")
    own = {k: v for k, v in values.items() if k != "prompt" and k in KNOWN and v is not None}
    return Entry(values["prompt"], own)
