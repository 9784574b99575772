"""Words a text encoder with a small vocabulary knows, near to one it does not know."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

RELATED_FILE = "related_words.json"


class NearestWords:
    """Known words for an unknown one: by meaning if it is in `related`, else by spelling.

    `related` maps words nobody taught the encoder to the known ones closest in meaning; it comes
    as `related_words.json` beside the tokenizer: {"pet": ["cat", "dog"], ...}.
    """

    def __init__(self, known: Iterable[str], related: Mapping[str, list[str]]) -> None:
        self._known = sorted(word for word in set(known) if len(word) > 2 and word.isalpha())
        self._related = related

    @classmethod
    def beside(cls, folder: Path, known: Iterable[str]) -> NearestWords | None:
        """From a text encoder's folder; None where nobody wrote the file."""
        file = folder / RELATED_FILE
        return cls(known, json.loads(file.read_text("utf-8"))) if file.exists() else None

    def __call__(self, word: str, limit: int = 3) -> list[str]:
        """The nearest known words, best first; none for a word that is near to nothing."""
        word = word.lower()
        for form in _forms(word):
            if form in self._related:
                return self._related[form][:limit]
        # A slip of the finger: two letters swapped, one missing or doubled.
        return difflib.get_close_matches(word, self._known, n=1, cutoff=0.75)


def _forms(word: str) -> list[str]:
    """The word and its possible singulars."""
    forms = [word]
    if word.endswith("ies"):
        forms.append(word[:-3] + "y")
    if word.endswith("es"):
        forms.append(word[:-2])
    if word.endswith("s"):
        forms.append(word[:-1])
    return forms
