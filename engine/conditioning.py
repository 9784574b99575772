"""What steps need of a prompt, remembered: typing, seed grids and comparisons repeat prompts.

Two caches: text rows by (text encoder, prompt), which variants with one encoder share, and the
sampler's prompt context by (variant, prompt), where a sampler keeps its first pass. The empty
prompt's, which guidance needs for every picture, never leave.

Tokenisers are not made for several threads at once, so all text calls share one lock; a prompt
can then be described from any thread.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable
from typing import Any

from torch import Tensor

from engine.limits import EngineLimits
from engine.lru import Lru
from engine.status import PromptInfo
from models.contracts import LoadedVariant

_EMPTY = ""


class Conditioning:
    """`context` is the worker's alone; `describe` may be called from any thread."""

    def __init__(self, limits: EngineLimits) -> None:
        self._text_lock = threading.Lock()
        most = limits.conditioning_bytes
        self._rows: Lru[tuple[str, str], Tensor] = Lru(limits.prompts_cached, most, _weight)
        self._contexts: Lru[tuple[str, str], Any] = Lru(limits.contexts_cached, most, _weight)
        self._empty_rows: dict[str, Tensor] = {}  # by text encoder
        self._empty_contexts: dict[str, Any] = {}  # by variant
        self._infos: Lru[tuple[str, str], PromptInfo] = Lru(4 * limits.prompts_cached)

    def context(self, loaded: LoadedVariant, prompt: str) -> Any:
        """The sampler's prompt context."""
        variant = loaded.variant
        if prompt == _EMPTY:
            if variant.id not in self._empty_contexts:
                self._empty_contexts[variant.id] = self._make(loaded, prompt)
            return self._empty_contexts[variant.id]
        key = (variant.id, prompt)
        found = self._contexts.get(key)
        if found is None:
            found = self._make(loaded, prompt)
            self._contexts.put(key, found)
        return found

    def describe(self, loaded: LoadedVariant, prompt: str) -> PromptInfo:
        """Tokens, limit and unknown words of a prompt."""
        key = (loaded.variant.text_encoder, prompt)
        with self._text_lock:
            info = self._infos.get(key)
            if info is None:
                unknown = loaded.text.unknown_words(prompt)
                nearest = (near for word in unknown for near in loaded.text.nearest_words(word))
                tokens, limit = loaded.text.count_tokens(prompt), loaded.text.max_tokens
                info = PromptInfo(
                    tokens=tokens,
                    limit=limit,
                    unread=_beyond(prompt, limit, loaded.text.count_tokens)
                    if tokens > limit
                    else "",
                    unknown=tuple(unknown),
                    nearest=tuple(dict.fromkeys(nearest))[:6],
                )
                self._infos.put(key, info)
            return info

    def forget(self, variant_id: str) -> None:
        """The variant was dropped; its contexts belong to modules that are gone."""
        self._empty_contexts.pop(variant_id, None)
        self._contexts.drop_where(lambda key: key[0] == variant_id)

    def _make(self, loaded: LoadedVariant, prompt: str) -> Any:
        return loaded.sampler.prompt_context(self._text_rows(loaded, prompt))

    def _text_rows(self, loaded: LoadedVariant, prompt: str) -> Tensor:
        """[L, width]. One prompt a call: rows then don't depend on who else is asking."""
        encoder = loaded.variant.text_encoder
        if prompt == _EMPTY and encoder in self._empty_rows:
            return self._empty_rows[encoder]
        rows = self._rows.get((encoder, prompt))
        if rows is None:
            rows = loaded.text.encode([prompt])[0]
            if prompt == _EMPTY:
                self._empty_rows[encoder] = rows
            else:
                self._rows.put((encoder, prompt), rows)
        return rows


def _weight(kept: Any) -> int:
    """Bytes of text rows or of a context that says so; the others are small."""
    return int(getattr(kept, "nbytes", 0))


def _beyond(prompt: str, limit: int, count_tokens: Callable[[str], int]) -> str:
    """The words at the prompt's end that do not fit into `limit` tokens (a word cut in two counts
    as one of them). A prompt of n words is counted log n times."""
    words = prompt.split()
    read = bisect_right(
        range(1, len(words)), limit, key=lambda n: count_tokens(" ".join(words[:n]))
    )
    return " ".join(words[read:])
