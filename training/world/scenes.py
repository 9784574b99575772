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
    """How free the world is. Freedom costs training samples, so the generators' world is narrow.

    `weights` are relative frequencies of the skills in the order of `SKILLS`; `jitter` is the
    largest shift of an object in pixels, in steps of `lattice`; `objects` limits the vocabulary.
    Objects of one size always meet the 16-px latent cells in the same way: their tokens are the
    same wherever they stand, and what is learnt in one place serves in all.
    """

    weights: tuple[float, ...] = (3, 4, 2, 3, 3, 5)
    jitter: int = 16
    lattice: int = 16
    single_sizes: tuple[int, ...] = (88,)
    group_size: int = 56
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
    low, middle, high = CANVAS // 4, CANVAS // 2, 3 * CANVAS // 4
    reach = config.jitter // config.lattice
    dx, dy = (rng.randint(-reach, reach) * config.lattice for _ in range(2))
    if count == 1:
        across = rng.random() < 0.5
        x, y = (middle + dx, middle) if across else (middle, middle + dy)
        return [(x, y, rng.choice(config.single_sizes))]
    if count == 2:
        # Where nothing is said, two stand side by side as they are named: a model that draws token
        # by token cannot take back a layout it has half decided on.
        side_by_side = relation not in POSITIONS[2:]
        if relation is None:
            rng.random()  # once chose the layout; drawn still, so that the evaluation's prompts stay
        spots = [(low, middle), (high, middle)] if side_by_side else [(middle, low), (middle, high)]
        if relation in ("right of", "below"):
            spots.reverse()
        # They move together and only across: the other way there is no room.
        dx, dy = (0, dy) if side_by_side else (dx, 0)
    else:
        top = [(middle, low)] if count == 3 else [(low, low), (high, low)]
        spots, dx, dy = [*top, (low, high), (high, high)], 0, 0
    return [(x + dx, y + dy, config.group_size) for x, y in spots]
