"""The measure of diversity, on the world itself."""

from __future__ import annotations

import numpy as np
import pytest

from training.diversity import PROMPTS, SEEDS, pairwise_distance, scenes_of
from training.world.render import render


@pytest.mark.parametrize("prompt", PROMPTS)
def test_scenes_are_what_the_prompt_says_and_differ(prompt: str) -> None:
    scenes = scenes_of(prompt)
    assert len(scenes) == SEEDS
    skill, objects, fits = PROMPTS[prompt]
    for scene in scenes:
        assert scene.skill == skill and fits(scene)
        assert {item.name for item in scene.items} == set(objects)
    mean, closest = pairwise_distance([render(scene) for scene in scenes])
    assert mean > 0.05 and closest >= 0


def test_distance_of_equal_and_opposite_pictures() -> None:
    black, white = np.zeros((4, 4, 3), np.float32), np.ones((4, 4, 3), np.float32)
    assert pairwise_distance([black, black]) == (0, 0)
    mean, closest = pairwise_distance([black, black, white])
    assert mean == pytest.approx(2 / 3) and closest == 0
