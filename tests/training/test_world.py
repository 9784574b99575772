"""The Pocket world: what captions say is what scenes show, and evaluation never meets training."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from training.words import MAX_TOKENS, UNKNOWN, build_tokenizer
from training.world.captions import UNKNOWN_WORD, caption
from training.world.render import render, sprite
from training.world.scenes import CANVAS, SKILLS, draw_scene, is_held_out
from training.world.vocabulary import COLOURS, OBJECTS, TINTS, plural


def test_size_of_the_world() -> None:
    assert len(OBJECTS) >= 120 and len(set(OBJECTS.values())) == len(OBJECTS)
    assert len(COLOURS) == 12 and set(TINTS) <= set(COLOURS)


def test_every_object_can_be_drawn_and_looks_different() -> None:
    seen = {sprite(name, 32).tobytes() for name in OBJECTS}
    assert len(seen) == len(OBJECTS)


@pytest.mark.parametrize("skill", SKILLS)
def test_objects_stay_inside_and_apart(skill: str) -> None:
    for seed in range(300):
        scene = draw_scene(Random(seed), skill=skill)
        assert scene.skill == skill and 1 <= len(scene.items) <= 4
        for item in scene.items:
            assert item.size // 2 <= item.x <= CANVAS - item.size // 2
            assert item.size // 2 <= item.y <= CANVAS - item.size // 2
            # Latent cells are cut through objects of one size alike, wherever they stand.
            assert (item.x - item.size // 2) % 16 == (item.y - item.size // 2) % 16 == 4
        for a, b in zip(scene.items, scene.items[1:]):
            assert max(abs(a.x - b.x), abs(a.y - b.y)) >= 0.8 * a.size


def test_position_words_are_true() -> None:
    for seed in range(200):
        scene = draw_scene(Random(seed), skill="position")
        first, second = scene.items
        holds = {
            "left of": first.x < second.x,
            "right of": first.x > second.x,
            "above": first.y < second.y,
            "below": first.y > second.y,
        }
        assert holds[scene.relation]


def test_tints_differ_from_the_background_and_from_the_original() -> None:
    for seed in range(100):
        scene = draw_scene(Random(seed), skill="attribute")
        for item in scene.items:
            assert item.tint in TINTS and item.tint != scene.background
    plain, tinted = sprite("fox", 64), sprite("fox", 64, "blue")
    assert np.abs(plain - tinted).max() > 0.3
    assert np.array_equal(plain[..., 3], tinted[..., 3])


def test_evaluation_never_meets_training() -> None:
    for seed in range(500):
        skill = ("two", "position", "attribute")[seed % 3]
        assert not is_held_out(draw_scene(Random(seed), skill=skill, split="train"))
        assert is_held_out(draw_scene(Random(seed), skill=skill, split="held-out"))


def test_captions_use_only_words_of_the_tokenizer_and_fit() -> None:
    tokenizer = build_tokenizer()
    unknown = tokenizer.convert_tokens_to_ids(UNKNOWN)
    for seed in range(3000):
        text = caption(draw_scene(Random(seed)), Random(seed)).replace(UNKNOWN_WORD, "")
        ids = tokenizer(text)["input_ids"]
        assert unknown not in ids and len(ids) <= MAX_TOKENS, text


def test_captions_name_what_is_there() -> None:
    for seed in range(300):
        scene = draw_scene(Random(seed), skill="colours")
        text = caption(scene, Random(seed), plain=True)
        assert scene.items[0].name in text and f"{scene.background} background" in text


def test_plurals() -> None:
    cases = {"fox": "foxes", "cherry": "cherries", "key": "keys", "light bulb": "light bulbs"}
    assert {noun: plural(noun) for noun in cases} == cases


def test_pictures_are_what_the_seed_says() -> None:
    pictures = [render(draw_scene(Random("a"))) for _ in range(2)]
    assert np.array_equal(*pictures)
    assert pictures[0].shape == (128, 128, 3) and pictures[0].dtype == np.float32
