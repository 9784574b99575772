"""Votes on disk: one SQLite file, one row a vote, written through before anybody is thanked."""

from __future__ import annotations

import csv
import io
import os
import sqlite3
import threading
from collections.abc import Mapping
from dataclasses import astuple, dataclass, fields
from pathlib import Path

CHOICES = ("left", "right", "tie", "both bad")


class VotesUnavailable(RuntimeError):
    """Votes cannot be kept or read. The message is for a person."""


class AlreadyVoted(RuntimeError):
    """The match has its vote; the first one stands."""


@dataclass(frozen=True)
class Vote:
    """A match and what was thought of it: enough to draw it again."""

    match: str
    seed: int  # of the match: pair, sides and the pictures' seed follow from it
    prompt: str
    left: str
    right: str
    picture_seed: int
    choice: str  # one of CHOICES
    at: str  # UTC, ISO 8601
    voter: str  # a hash of the page's session


COLUMNS = tuple(field.name for field in fields(Vote))
_TABLE = """
CREATE TABLE IF NOT EXISTS votes (
    match TEXT PRIMARY KEY, seed INTEGER NOT NULL, prompt TEXT NOT NULL,
    left TEXT NOT NULL, right TEXT NOT NULL CHECK (left <> right), picture_seed INTEGER NOT NULL,
    choice TEXT NOT NULL CHECK (choice IN ('left', 'right', 'tie', 'both bad')),
    at TEXT NOT NULL, voter TEXT NOT NULL
) STRICT
"""


def default_file(environ: Mapping[str, str] = os.environ) -> Path:
    """NITRO_VOTES, else `nitro-canvas/votes.db` in the user's data folder."""
    if given := environ.get("NITRO_VOTES"):
        return Path(given)
    data = environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "nitro-canvas" / "votes.db"


class VoteStore:
    """Thread-safe, and safe beside other processes with the same file. Opened when first used, so
    that a disk that cannot be written to harms nothing but votes."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._open: sqlite3.Connection | None = None

    def add(self, vote: Vote) -> None:
        """Keep a vote. On return it is on the disk. Raises `AlreadyVoted` or `VotesUnavailable`."""
        marks = ", ".join("?" * len(COLUMNS))
        with self._lock:
            try:
                with self._connection() as connection:
                    connection.execute(f"INSERT INTO votes VALUES ({marks})", astuple(vote))
            except sqlite3.IntegrityError:
                raise AlreadyVoted(
                    "This match has its vote already; the first one stands."
                ) from None
            except (sqlite3.Error, OSError) as error:
                self._forget()
                raise _unavailable(error) from None

    def votes(self) -> list[Vote]:
        """All of them, the oldest first. Raises `VotesUnavailable`."""
        return self._select("ORDER BY at, rowid")

    def get(self, match: str) -> Vote | None:
        """The vote on a match. Raises `VotesUnavailable`."""
        return next(iter(self._select("WHERE match = ?", match)), None)

    def close(self) -> None:
        with self._lock:
            self._forget()

    def _select(self, rest: str, *values: str) -> list[Vote]:
        with self._lock:
            try:
                rows = self._connection().execute(
                    f"SELECT {', '.join(COLUMNS)} FROM votes {rest}", values
                )
                return [Vote(*row) for row in rows]
            except (sqlite3.Error, OSError) as error:
                self._forget()
                raise _unavailable(error) from None

    def _connection(self) -> sqlite3.Connection:
        if self._open is None:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            made = sqlite3.connect(self._file, timeout=20, check_same_thread=False)
            try:
                made.execute("PRAGMA journal_mode=WAL")
                made.execute("PRAGMA synchronous=FULL")  # WAL alone may lose the last ones
                made.execute(_TABLE)
            except sqlite3.Error:
                made.close()
                raise
            self._open = made
        return self._open

    def _forget(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None


def _unavailable(error: Exception) -> VotesUnavailable:
    why = str(error) if isinstance(error, sqlite3.Error) else (error.strerror or "")  # type: ignore[attr-defined]
    return VotesUnavailable(
        f"Votes cannot be kept here at the moment ({why}). Everything else works. Whoever runs this "
        "server can set NITRO_VOTES to a file that can be written to."
    )


def as_csv(votes: list[Vote]) -> str:
    """A header and one line a vote; the columns are `Vote`'s, without the voter."""
    names = [name for name in COLUMNS if name != "voter"]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([getattr(vote, name) for name in names] for vote in votes)
    return out.getvalue()
