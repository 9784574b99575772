"""A match: which two variants meet, on which side, with which seed. All of it follows from one
number, so that a match can be drawn again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from random import Random
from typing import Any

from engine.requests import GenerationRequest
from ui.variants import EXAMPLES
from ui.votes.prompts import POCKET_PROMPTS

SIDES = ("left", "right")


class NoMatch(ValueError):
    """Nothing can be compared here. The message is for a person."""


@dataclass(frozen=True)
class Match:
    """Two variants on one prompt and seed."""

    seed: int
    prompt: str
    left: str
    right: str
    picture_seed: int

    def request(self, side: str) -> GenerationRequest:
        """What is drawn on a side: the variant with its own defaults, no previews."""
        return GenerationRequest(
            self.prompt,
            variant=self.left if side == "left" else self.right,
            seed=self.picture_seed,
            preview_every=0,
        ).resolved()


def pairs(variants: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Variants that can be told apart by their pictures alone: two of them, of one size."""
    return [(a, b) for a, b in combinations(variants, 2) if a.resolution == b.resolution]


def make_match(seed: int, variants: Sequence[Any], prompt: str = "") -> Match:
    """The match of a seed among variants of the catalogue; with its own prompt if none is given.

    Raises `NoMatch` where no two of them can meet.
    """
    possible = pairs(variants)
    if not possible:
        raise NoMatch(
            "A vote needs two models that draw at the same size and are ready. Wait until they are "
            "loaded, or serve more of them (NITRO_VARIANTS)."
        )
    random = Random(seed)
    two = list(random.choice(possible))
    random.shuffle(two)
    picture_seed = random.getrandbits(32)
    small = all(variant.embedded for variant in two)
    words = random.choice(POCKET_PROMPTS if small else EXAMPLES)
    return Match(seed, prompt or words, two[0].id, two[1].id, picture_seed)


@dataclass
class OpenMatches:
    """Matches whose pictures were sent and that wait for their vote, by an unguessable id, with their
    owners. Bounded: the oldest are let go. Thread-safe."""

    most: int = 2048
    _known: OrderedDict[str, tuple[str, Match]] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, name: str, owner: str, match: Match) -> None:
        with self._lock:
            self._known[name] = owner, match
            while len(self._known) > self.most:
                self._known.popitem(last=False)

    def get(self, name: str, owner: str) -> Match | None:
        """None when it is gone or somebody else's: the two look alike."""
        with self._lock:
            found = self._known.get(name)
        return found[1] if found is not None and found[0] == owner else None
