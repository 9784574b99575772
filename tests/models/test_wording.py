"""Known words near to unknown ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from models.wording import RELATED_FILE, NearestWords

KNOWN = ["a", "elephant", "fox", "foxes", "rocket", "cat", "dog", "kitten", "ice", "cream", "<unk>"]
RELATED = {"spacecraft": ["rocket"], "pet": ["cat", "dog", "rabbit", "fox"], "pony": ["horse"]}


@pytest.mark.parametrize(
    ("word", "nearest"),
    [
        ("spacecraft", ["rocket"]),
        ("Spacecrafts", ["rocket"]),
        ("ponies", ["horse"]),
        ("pets", ["cat", "dog", "rabbit"]),
        ("elefant", ["elephant"]),
        ("kittn", ["kitten"]),
        ("zeppelin", []),
        ("🗿", []),
        ("", []),
    ],
)
def test_by_meaning_then_by_spelling(word: str, nearest: list[str]) -> None:
    assert NearestWords(KNOWN, RELATED)(word) == nearest


def test_without_the_file_nothing_is_suggested(tmp_path: Path) -> None:
    assert NearestWords.beside(tmp_path, KNOWN) is None
    (tmp_path / RELATED_FILE).write_text('{"zeppelin": ["rocket"]}', "utf-8")
    nearest = NearestWords.beside(tmp_path, KNOWN)
    assert nearest is not None and nearest("zeppelin") == ["rocket"]
