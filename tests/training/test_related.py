"""Suggestions in place of unknown words are words Pocket knows."""

from __future__ import annotations

import json
from pathlib import Path

from models.sources import Sources
from models.wording import RELATED_FILE
from training.related import related_words
from training.words import vocabulary


def test_suggestions_are_known_and_their_keys_are_not() -> None:
    known = set(vocabulary())
    for table in (related_words(), json.loads(_shipped().read_text("utf-8"))):
        assert len(table) > 150
        for word, nearest in table.items():
            assert word not in known, word
            assert nearest and all(set(near.split()) <= known for near in nearest), (word, nearest)


def test_keywords_are_those_of_the_worlds_glyphs(tmp_path: Path) -> None:
    file = tmp_path / "en.xml"
    file.write_text(
        "<ldml><annotations>"
        '<annotation cp="🦊">vixen | fox</annotation><annotation cp="🦊" type="tts">fox</annotation>'
        '<annotation cp="🗿">moai</annotation>'
        "</annotations></ldml>",
        "utf-8",
    )
    table = related_words(file)
    assert table["vixen"] == ["fox"]
    assert "fox" not in table and "moai" not in table
    # Without the file the project's own groups remain.
    assert related_words(tmp_path / "none.xml")["pet"] == ["cat", "dog", "rabbit"]


def _shipped() -> Path:
    return Sources().pocket / "text_encoder" / RELATED_FILE
