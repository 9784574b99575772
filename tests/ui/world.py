"""What the page's tests draw with: the real engine, a model that paints a prompt's own colour.

Three variants, one for each thing a page can meet: one with its weights, one with random ones, one
without any. A prompt with "explode" in it comes out broken.
"""

from __future__ import annotations

import io
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from PIL import Image

from engine.engine import Engine
from engine.limits import EngineLimits
from models.contracts import BrokenPicture, LoadedVariant
from models.weights import WeightsError
from tests.engine.fakes import FakeText, FakeWorld, colour_of

VARIANTS = ("pocket-ar", "pocket-ar-joint", "nitro-ar-gan")


class PageText(FakeText):
    """A word more than there are, and two words it never learnt."""

    max_tokens = 24

    def encode(self, prompts: Sequence[str]) -> Any:
        if any("explode" in prompt for prompt in prompts):
            raise BrokenPicture("The picture came out broken; nothing else is affected.")
        return super().encode(prompts)

    def count_tokens(self, prompt: str) -> int:
        return len(prompt.split()) + 1

    def unknown_words(self, prompt: str) -> list[str]:
        return [word for word in prompt.split() if word in ("zebra", "spaceship")]

    def nearest_words(self, word: str) -> list[str]:
        return {"zebra": ["horse"], "spaceship": ["rocket"]}.get(word, [])


class PageWorld(FakeWorld):
    """Steps take `step_s`, to be changed at any time."""

    def __init__(self, step_s: float = 0.03) -> None:
        super().__init__()
        self.step_s = step_s
        self.text = PageText()
        self.sampler.before_step = lambda states: time.sleep(self.step_s)
        self.failures["nitro-ar-gan"] = WeightsError("its weights are not here yet.")

    def load(self, variant_id: str, progress: Any) -> LoadedVariant:
        loaded = super().load(variant_id, progress)
        return replace(loaded, weights="pocket") if variant_id == "pocket-ar" else loaded


def start(
    world: FakeWorld, variants: Sequence[str] = VARIANTS, wait: bool = True, **limits: Any
) -> Engine:
    """An engine that draws every picture anew, with every preview."""
    chosen = EngineLimits(**{"results_cached": 0, "preview_share": 1e6, **limits})
    engine = Engine(world.load, variants, limits=chosen)
    assert not wait or engine.wait_ready(30)
    return engine


def mean_colour(picture: bytes) -> tuple[int, ...]:
    """Of an encoded picture."""
    pixels = np.asarray(Image.open(io.BytesIO(picture)).convert("RGB"))
    return tuple(int(value) for value in pixels.mean((0, 1)))


def is_of(colour: Sequence[float], prompt: str) -> bool:
    """Whether a picture of this mean colour is the prompt's."""
    return max(abs(a - b) for a, b in zip(colour, colour_of(prompt), strict=True)) < 16
