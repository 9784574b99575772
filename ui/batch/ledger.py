"""The folder of a batch, and what in it is done.

Two rules make every interruption harmless. A picture comes into being under its name at once, by
renaming; and its line in `metadata.jsonl` follows it. So after a crash there may be a picture
without a line, whose line the plan still knows, and half a line at the end, which is taken away.
What else is found (a line without its picture, the same line twice) is put right the same way.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ui.batch.lock import FolderLock
from ui.batch.plan import Plan, Task

METADATA = "metadata.jsonl"
FAILURES = "failures.jsonl"
PLAN_FILE = ".nitro-batch.json"  # hidden: readers of picture folders pass over it
_PART = ".part"


class BatchRefused(ValueError):
    """The folder is not this batch's, or in use. The message says what to do."""


class Ledger:
    """One run's hold on a folder. Pictures may be written from any thread, the rest from one.

    Raises `BatchRefused` when the folder holds another plan, something else, or another run;
    `OSError` when it cannot be written to.
    """

    def __init__(self, folder: Path, plan: Plan) -> None:
        self.folder, self._plan = folder, plan
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = FolderLock(folder)
        if not self._lock.held:
            raise BatchRefused(f"Another run is drawing into {folder}; wait for it or stop it.")
        self.failed = 0
        try:
            self._weights = self._check_plan()
            self._pictures = bytearray(len(plan))  # 1: the file is there
            self._lines = bytearray(len(plan))  # 1: its line is, too
            self._find_pictures()
            self._repair()
            self.count = sum(self._lines)  # pictures that are done
            (folder / FAILURES).unlink(missing_ok=True)  # what failed is tried again
            self._metadata = (folder / METADATA).open("ab", buffering=0)
            self._complete_lines()
        except BaseException:
            self._lock.release()
            raise

    # ---- what is done ----

    def done(self, index: int) -> bool:
        """The picture and its line are there."""
        return bool(self._lines[index])

    def open_tasks(self) -> Iterator[Task]:
        """What is left to be drawn, by number."""
        return (task for task in self._plan.tasks() if not self.done(task.index))

    # ---- doing ----

    def write(self, task: Task, data: bytes) -> None:
        """A picture's file, whole or not at all. From any thread."""
        _replace(self.folder / task.file_name, data)

    def record(self, task: Task, line: dict[str, Any]) -> None:
        """A written picture's line; in one go, so that at most the last one can be torn."""
        data = _json_line(line)
        if self._metadata.write(data) != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._lines[task.index] = 1
        self.count += 1

    def fail(self, task: Task, message: str) -> None:
        """A picture that cannot be drawn, for `failures.jsonl`."""
        values = {"file_name": task.file_name, "error": message, **task.values}
        with (self.folder / FAILURES).open("ab") as file:
            file.write(_json_line(values))
        self.failed += 1

    def pin_weights(self, variant: str, weights: str) -> None:
        """Remember what a variant draws with before its first picture is written.

        Raises `BatchRefused` if earlier pictures of this batch were drawn with other weights.
        """
        known = self._weights.get(variant)
        if known == weights:
            return
        if known is not None:
            raise BatchRefused(
                f"The pictures in {self.folder} were drawn with {known} weights of {variant}; now "
                f"they are {weights}. Use the same weights again, or another folder."
            )
        self._weights[variant] = weights
        self._write_plan(self._weights)

    def close(self) -> None:
        """Let go of the folder; once everything is there, with the lines in order."""
        self._metadata.close()
        if self.count == len(self._plan):
            self._sort_lines()
        self._lock.release()

    # ---- the plan ----

    def _check_plan(self) -> dict[str, str]:
        """Whether the folder is this plan's; the weights that its pictures were drawn with."""
        path = self.folder / PLAN_FILE
        if path.exists():
            found = read_plan(path.read_bytes(), str(self.folder))
            refuse_other(found, self._plan, str(self.folder))
            return dict(found["weights"])
        others = [p.name for p in self.folder.iterdir() if not _is_ours(p.name)]
        if others:
            raise BatchRefused(
                f"{self.folder} holds files that no batch has made ({min(others)!r}, for one). "
                "Choose an empty folder, or one that does not exist yet."
            )
        self._write_plan({})
        return {}

    def _write_plan(self, weights: dict[str, str]) -> None:
        values = {
            "version": 1,
            "fingerprint": self._plan.fingerprint(),
            "asks": self._plan.summary(),
            "weights": weights,
        }
        _replace(self.folder / PLAN_FILE, _json_line(values))

    # ---- repair ----

    def _find_pictures(self) -> None:
        with os.scandir(self.folder) as entries:
            for entry in entries:
                if _is_part(entry.name):
                    os.unlink(entry.path)  # somebody died while writing it
                    continue
                index = self._plan.index_of(entry.name)
                if index is not None and entry.stat().st_size:
                    self._pictures[index] = 1

    def _repair(self) -> None:
        """Keep one whole line per picture that is there. Other files' lines stay."""
        path = self.folder / METADATA
        if not path.exists():
            return
        part, changed = _part_of(path), False
        others: set[str] = set()
        with path.open("rb") as old, part.open("wb") as new:
            for line in old:
                kept = self._keep(line, others)
                if kept:
                    new.write(line.rstrip(b"\r\n") + b"\n")
                changed |= not kept or not line.endswith(b"\n")
        if changed:
            os.replace(part, path)
        else:
            part.unlink()

    def _complete_lines(self) -> None:
        """Give pictures their line that were written but not recorded: the plan knows it."""
        if self.count == sum(self._pictures):
            return
        for task in self._plan.tasks():
            if self._pictures[task.index] and not self.done(task.index):
                request = task.request()
                self.record(task, task.line(request, self._weights.get(request.variant, "")))

    def _keep(self, line: bytes, others: set[str]) -> bool:
        try:
            name = json.loads(line)["file_name"]
        except (ValueError, TypeError, KeyError, RecursionError):
            return False
        if not isinstance(name, str):
            return False
        index = self._plan.index_of(name)
        if index is None:
            stays = name not in others and (self.folder / name).is_file()
            others.add(name)
            return stays
        if not self._pictures[index] or self._lines[index]:
            return False
        self._lines[index] = 1
        return True

    def _sort_lines(self) -> None:
        """By file, whatever order they were finished in: interrupted or not, the same file."""
        path = self.folder / METADATA
        places: list[tuple[str, int]] = []
        with path.open("rb") as old:
            at = 0
            for line in old:
                places.append((json.loads(line)["file_name"], at))
                at += len(line)
            if places == sorted(places):
                return
            with _part_of(path).open("wb") as new:
                for _, at in sorted(places):
                    old.seek(at)
                    new.write(old.readline())
        os.replace(_part_of(path), path)


def read_plan(data: bytes, where: str) -> dict[str, Any]:
    """A plan file's values. Raises `BatchRefused` if it is damaged or of another version."""
    try:
        values = json.loads(data)
        if values["version"] == 1 and isinstance(values["fingerprint"], str):
            return {"asks": {}, "weights": {}, **values}
    except (ValueError, TypeError, KeyError):
        pass
    raise BatchRefused(f"{where} holds a batch this version cannot read. Choose another place.")


def refuse_other(found: dict[str, Any], plan: Plan, where: str) -> None:
    """Raise `BatchRefused` if what was found is not this plan, naming what differs."""
    if found["fingerprint"] == plan.fingerprint():
        return
    differing = [
        f"{name} {json.dumps(found['asks'].get(name))} there, {json.dumps(value)} here"
        for name, value in plan.summary().items()
        if found["asks"].get(name) != value
    ]
    raise BatchRefused(
        f"{where} holds another batch: {'; '.join(differing) or 'the prompts are not the same'}. "
        "Run the same command as then to go on with it, or choose another place."
    )


def is_note(name: str) -> bool:
    """A file of the ledger's own, no picture."""
    return _is_ours(name) or name in (PLAN_FILE, METADATA, FAILURES)


def _json_line(values: dict[str, Any]) -> bytes:
    # ASCII: a line stays valid UTF-8 even for lone surrogates in a prompt
    return json.dumps(values, ensure_ascii=True).encode() + b"\n"


def _replace(path: Path, data: bytes) -> None:
    part = _part_of(path)
    try:
        part.write_bytes(data)
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _part_of(path: Path) -> Path:
    return path.with_name(f".{path.name}{_PART}")


def _is_part(name: str) -> bool:
    return name.startswith(".") and name.endswith(_PART)


def _is_ours(name: str) -> bool:
    return _is_part(name) or name == FolderLock.NAME
