"""Diversity: do other seeds give other pictures? Against the world the models learnt from.

    python -m training.diversity --variants pocket-ar,pocket-ar-joint

For each prompt, 16 seeds; the mean distance of all pairs (root mean square over pixels, 0..1) beside
that of 16 scenes of the training world which the same prompt describes.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np
from numpy.typing import NDArray

from models.loading import Loader
from models.sources import Sources
from training.evaluate import Question, draw
from training.world.render import render
from training.world.scenes import Scene, WorldConfig, draw_scene

SEEDS = 16
# Prompt; the skill, objects and further condition of the scenes it describes.
PROMPTS: dict[str, tuple[str, tuple[str, ...], Callable[[Scene], bool]]] = {
    "a fox": ("single", ("fox",), lambda scene: True),
    "a fox on a blue background": ("colours", ("fox",), lambda scene: scene.background == "blue"),
    "three apples": ("counting", ("apple",), lambda scene: len(scene.items) == 3),
    "a cat and a balloon": ("two", ("cat", "balloon"), lambda scene: True),
}


def pairwise_distance(pictures: list[NDArray[np.float32]]) -> tuple[float, float]:
    """Mean and smallest root-mean-square distance of all pairs."""
    distances = [
        float(np.sqrt(np.square(a - b).mean())) for a, b in itertools.combinations(pictures, 2)
    ]
    return sum(distances) / len(distances), min(distances)


def scenes_of(prompt: str) -> list[Scene]:
    """16 scenes of the training world that the prompt describes."""
    skill, objects, fits = PROMPTS[prompt]
    rng, config = Random(prompt), WorldConfig(objects=objects)
    drawn = (draw_scene(rng, config, skill, split="any") for _ in itertools.count())
    return list(itertools.islice((scene for scene in drawn if fits(scene)), SEEDS))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--variants", default="pocket-ar,pocket-ar-joint")
    parser.add_argument("--pocket", type=Path, help="folder of weights, if not the shipped ones")
    args = parser.parse_args()
    loader = Loader(Sources(pocket=args.pocket) if args.pocket else Sources())
    variants = {name: loader.load(name) for name in args.variants.split(",")}
    print("| prompt | world | " + " | ".join(f"{name} (closest pair)" for name in variants) + " |")
    print("|---|" + "---:|" * (1 + len(variants)))
    for prompt in PROMPTS:
        scenes = scenes_of(prompt)
        row = [f"{pairwise_distance([render(scene) for scene in scenes])[0]:.3f}"]
        for loaded in variants.values():
            asked = [Question(prompt, scenes[0], seed) for seed in range(SEEDS)]
            mean, closest = pairwise_distance(draw(loaded, asked))
            row.append(f"{mean:.3f} ({closest:.3f})")
        print(f"| {prompt} | " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
