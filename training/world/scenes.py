"""Scenes: which objects stand where on which colour, drawn from a random generator.

A scene is data, not pixels. The six skills are those of GenEval, so that the same words describe
Pocket and the published models: single object, two objects, counting, colours (of the
background), position, attribute binding.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from random import Random
from typing import Literal

from training.world.vocabulary import COLOURS, OBJECTS, TINTS

CANVAS = 128  # pixels a side
SKILLS = ("single", "two", "counting", "colours", "position", "attribute")
POSITIONS = ("left of", "right of", "above", "below")
Split = Literal["train", "held-out", "any"]


@dataclass(frozen=True)
class Item:
    """One object of a scene. `x`, `y` are the centre and `size` the side of its box, in pixels."""

    name: str
    x: int
    y: int
    size: int
    tint: str | None = None


@dataclass(frozen=True)
class Scene:
    """Everything a picture of the Pocket world shows. `shade` shifts the background's RGB."""

    skill: str
    background: str
    items: tuple[Item, ...]
    relation: str | None = None  # of items[0] to items[1]
    shade: tuple[int, int, int] = (0, 0, 0)


@dataclass(frozen=True)
class WorldConfig:
    """How free the world is. Freedom costs training samples, so a curriculum starts narrow.

    `weights` are relative frequencies of the skills in the order of `SKILLS`; `jitter` is the
    largest shift of an object in pixels, in steps of `lattice`; `objects` limits the vocabulary.
    """

    weights: tuple[float, ...] = (2, 2, 1, 2, 2, 1)
    jitter: int = 4
    lattice: int = 4
    single_sizes: tuple[int, ...] = (96,)
    shade: int = 8
    objects: tuple[str, ...] = tuple(OBJECTS)


def is_held_out(scene: Scene) -> bool:
    """Whether a scene belongs to the evaluation: a tenth of all object pairs and of all bindings.

    Decided by a hash of the names, so that training and evaluation never meet, in any order of
    drawing. Scenes of one untinted kind of object are in both.
    """
    names = sorted({item.name for item in scene.items})
    combinations = ["+".join(names)] if len(names) > 1 else []
    combinations += [f"{item.tint} {item.name}" for item in scene.items if item.tint]
    return any(zlib.crc32(words.encode()) % 10 == 0 for words in combinations)


def draw_scene(
    rng: Random,
    config: WorldConfig = WorldConfig(),
    skill: str | None = None,
    split: Split = "train",
) -> Scene:
    """Draw one scene. `skill` fixes the kind; otherwise it is drawn by `config.weights`."""
    skill = skill or rng.choices(SKILLS, config.weights)[0]
    while True:
        scene = _draw(rng, config, skill)
        combined = skill in ("two", "position", "attribute")
        if split == "any" or not combined or is_held_out(scene) == (split == "held-out"):
            return scene


def _draw(rng: Random, config: WorldConfig, skill: str) -> Scene:
    background = rng.choice(tuple(COLOURS))
    shade = tuple(rng.randint(-config.shade, config.shade) for _ in range(3))
    relation: str | None = None
    if skill in ("single", "colours"):
        names, tints = [rng.choice(config.objects)], [None]
    elif skill == "counting":
        count = rng.randint(1, 4)
        names, tints = [rng.choice(config.objects)] * count, [None] * count
    elif skill == "attribute":
        count = rng.randint(1, 2)
        names = rng.sample(config.objects, count)
        tints = rng.sample([t for t in TINTS if t != background], count)
    else:
        names, tints = rng.sample(config.objects, 2), [None, None]
    if skill == "position":
        relation = rng.choice(POSITIONS)
    places = _places(rng, len(names), relation, config)
    items = tuple(
        Item(name, x, y, size, tint)
        for name, tint, (x, y, size) in zip(names, tints, places, strict=True)
    )
    return Scene(skill, background, items, relation, shade)


def _places(
    rng: Random, count: int, relation: str | None, config: WorldConfig
) -> list[tuple[int, int, int]]:
    """Centre and size of each object: one in the middle, two beside or above, three, four."""
    middle, low, high = CANVAS // 2, 34, CANVAS - 34
    if count == 1:
        spots, size = [(middle, middle)], rng.choice(config.single_sizes)
    elif count == 2:
        side_by_side = relation in POSITIONS[:2] if relation else rng.random() < 0.5
        spots = [(low, middle), (high, middle)] if side_by_side else [(middle, low), (middle, high)]
        if relation in ("right of", "below"):
            spots.reverse()
        size = 58
    elif count == 3:
        spots, size = [(middle, low), (low, high), (high, high)], 54
    else:
        spots, size = [(low, low), (high, low), (low, high), (high, high)], 54
    reach = config.jitter // config.lattice
    # Grouped objects move together, so that a group stays inside the canvas and apart.
    dx, dy = (rng.randint(-reach, reach) * config.lattice for _ in range(2))
    return [(x + dx, y + dy, size) for x, y in spots]
