"""The plan: every picture of a batch with its number, its file and its settings.

A plan is a pure function of the command and its prompts, so a second run of the same command
makes the same one, and a picture's number says everything about it. One variant after another:
batches are full of the same weights, and no two variants take turns in the memory.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from engine.requests import MAX_SEED, GenerationRequest
from ui.batch.prompts import WRITTEN, Entry

Format = Literal["png", "webp"]
MAX_PICTURES = 10_000_000


class PlanTooLarge(ValueError):
    """More pictures than one batch may have. The message is for a person."""


@dataclass(frozen=True, slots=True)
class Task:
    """One picture that is to be drawn."""

    index: int  # from 0
    file_name: str
    values: dict[str, Any]

    def request(self) -> GenerationRequest:
        """With every default filled in. Raises `InvalidRequest`."""
        return GenerationRequest.from_dict(self.values).resolved()

    def line(self, request: GenerationRequest, weights: str) -> dict[str, Any]:
        """What `metadata.jsonl` says about the picture: its file, all settings, whose weights."""
        return {"file_name": self.file_name, **request.to_dict(), "weights": weights}


@dataclass(frozen=True)
class Plan:
    """`settings` hold for every picture whose entry has none of its own.

    `exact`: one picture at a time, so that each is bit for bit what `generate` draws.
    """

    entries: tuple[Entry, ...]
    variants: tuple[str, ...] = ("pocket-ar",)
    seeds: int = 1  # per prompt, counting up
    seed: int = 0
    settings: dict[str, Any] = field(default_factory=dict)
    format: Format = "png"
    exact: bool = False

    def __post_init__(self) -> None:
        if len(self) > MAX_PICTURES:
            raise PlanTooLarge(
                f"That makes {len(self):,} pictures; one batch may have {MAX_PICTURES:,}. Please "
                "make several of it."
            )

    def __len__(self) -> int:
        own = sum("variant" in entry.settings for entry in self.entries)
        return self.seeds * (own + (len(self.entries) - own) * len(self.variants))

    def tasks(self) -> Iterator[Task]:
        """Every picture by number; made as they are asked for, so that many need no memory."""
        index = 0
        for variant in self._all_variants():
            for entry in self.entries:
                if not self._draws(entry, variant):
                    continue
                for n in range(self.seeds):
                    yield Task(index, self.file_name(index), self._values(entry, variant, n))
                    index += 1

    def file_name(self, index: int) -> str:
        """Names sort as the pictures do."""
        return f"{index:0{self._digits}d}.{self.format}"

    def index_of(self, file_name: str) -> int | None:
        """The number of one of this plan's files; None for another file."""
        stem, _, ending = file_name.rpartition(".")
        known = ending == self.format and stem.isascii() and stem.isdecimal()
        if not known or len(stem) != self._digits or int(stem) >= len(self):
            return None
        return int(stem)

    def fingerprint(self) -> str:
        """Equal for equal pictures under equal names."""
        digest = hashlib.sha256()
        defaults = [self._defaults(variant) for variant in self._all_variants()]
        for part in ({**self.summary(), "prompts": len(self.entries)}, defaults):
            digest.update(_json(part))
        for entry in self.entries:
            digest.update(_json([entry.prompt, entry.settings]))
        return digest.hexdigest()

    def summary(self) -> dict[str, Any]:
        """What was asked for, for a person who compares two plans."""
        return {
            "prompts": len(self.entries),
            "variants": list(self.variants),
            "seeds": self.seeds,
            "first seed": self.seed,
            "settings": self.settings,
            "format": self.format,
            "exact": self.exact,
        }

    @property
    def _digits(self) -> int:
        return max(6, len(str(len(self) - 1)))

    def _all_variants(self) -> list[Any]:
        """The command's, then those that entries name for themselves."""
        named = (e.settings["variant"] for e in self.entries if "variant" in e.settings)
        seen = list(self.variants)
        for variant in named:
            if variant not in seen:
                seen.append(variant)
        return seen

    def _draws(self, entry: Entry, variant: Any) -> bool:
        if "variant" in entry.settings:
            return bool(entry.settings["variant"] == variant)
        return variant in self.variants

    def _values(self, entry: Entry, variant: Any, n: int) -> dict[str, Any]:
        values = {"seed": self.seed, **self.settings, **entry.settings}
        seed = values["seed"]
        if n and isinstance(seed, int) and not isinstance(seed, bool) and 0 <= seed <= MAX_SEED:
            seed = (seed + n) % (MAX_SEED + 1)
        silent = {"preview_every": 0, "preview": "off"}
        return {**values, "prompt": entry.prompt, "variant": variant, "seed": seed, **silent}

    def _defaults(self, variant: Any) -> dict[str, Any]:
        """What the variant fills in: with other defaults the same words are another picture."""
        try:
            return GenerationRequest("x", variant).resolved().to_dict()
        except ValueError:
            return {}


def request_of(line: dict[str, Any]) -> GenerationRequest:
    """The request that draws a line of `metadata.jsonl` again. Raises `InvalidRequest`."""
    values = {name: value for name, value in line.items() if name not in WRITTEN}
    return GenerationRequest.from_dict(values).resolved()


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, ensure_ascii=True).encode() + b"\n"
