"""The detector is right about pictures whose content is known, and not about others."""

from __future__ import annotations

from random import Random

import pytest

from training.detector import Detector
from training.evaluate import Question, is_right, questions
from training.world.captions import caption
from training.world.render import render
from training.world.scenes import SKILLS, draw_scene, is_held_out


@pytest.fixture(scope="module")
def detector() -> Detector:
    return Detector()


def test_detector_reads_rendered_scenes(detector: Detector) -> None:
    asked = questions(per_skill=17)
    found = [detector.find(render(question.scene)) for question in asked]
    right = [is_right(question, seen) for question, seen in zip(asked, found, strict=True)]
    assert sum(right) / len(right) >= 0.99
    # The same pictures under other prompts: nothing is right by chance.
    shuffled = [is_right(q, seen) for q, seen in zip(asked, found[1:] + found[:1], strict=True)]
    assert sum(shuffled) / len(shuffled) <= 0.02


@pytest.mark.parametrize("change", ["background", "place", "tint", "count"])
def test_one_wrong_thing_is_wrong(detector: Detector, change: str) -> None:
    skill = {"background": "colours", "place": "position", "tint": "attribute", "count": "counting"}
    rng = Random(5)
    scene = draw_scene(rng, skill=skill[change])
    while change == "count" and len(scene.items) == 1:
        scene = draw_scene(rng, skill="counting")
    question = Question(caption(scene, rng, plain=True), scene, 0)
    assert is_right(question, detector.find(render(scene)))
    other = scene
    while other.items == scene.items and other.background == scene.background:
        drawn = draw_scene(rng, skill=skill[change])
        if change == "background":
            other = type(scene)(scene.skill, drawn.background, scene.items, None, drawn.shade)
        elif change == "place":
            swapped = (
                type(scene.items[0])(scene.items[0].name, b.x, b.y, b.size)
                if a == scene.items[0]
                else type(a)(a.name, b.x, b.y, b.size)
                for a, b in zip(scene.items, scene.items[::-1], strict=True)
            )
            other = type(scene)(scene.skill, scene.background, tuple(swapped), None, scene.shade)
        elif change == "tint":
            tint = "red" if scene.items[0].tint != "red" else "blue"
            first = scene.items[0]
            changed = type(first)(first.name, first.x, first.y, first.size, tint)
            items = (changed, *scene.items[1:])
            other = type(scene)(scene.skill, scene.background, items, None, scene.shade)
        else:
            items = scene.items[1:]
            other = type(scene)(scene.skill, scene.background, items, None, scene.shade)
    assert not is_right(question, detector.find(render(other)))


def test_the_prompt_set_is_fixed_and_held_out() -> None:
    asked = questions(per_skill=60)
    assert len(asked) == 60 * len(SKILLS)
    assert [q.prompt for q in asked] == [q.prompt for q in questions(per_skill=60)]
    assert {q.prompt for q in questions(per_skill=5)} <= {q.prompt for q in asked}
    combined = [q for q in asked if q.scene.skill in ("two", "position", "attribute")]
    assert all(is_held_out(q.scene) for q in combined)
