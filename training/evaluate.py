"""PocketEval: do the embedded models draw what is asked? GenEval's six skills, held-out prompts.

    python -m training.evaluate --variants pocket-ar,pocket-ar-joint --json out.json

Prompts come from scenes that training never saw: object pairs and object-tint bindings of the
held-out split. A picture counts only if the detector finds exactly the objects asked for, with
their tints, in the right places, on the named background, and nothing else.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
import torch
from numpy.typing import NDArray

from models.catalogue import Variant
from models.contracts import LoadedVariant, SampleSettings
from models.loading import Loader
from models.sources import Sources
from training.detector import Detector, Found
from training.world.captions import caption
from training.world.scenes import SKILLS, Scene, draw_scene

PER_SKILL = 60
SEED = 20_261_201  # of the prompt set: fixed, so that tables can be compared


@dataclass(frozen=True)
class Question:
    """A prompt and what its picture has to show."""

    prompt: str
    scene: Scene
    seed: int

    @property
    def names_background(self) -> bool:
        return f"{self.scene.background} background" in self.prompt


def questions(per_skill: int) -> list[Question]:
    """The fixed prompt set; a smaller one is a part of a larger one."""
    out = []
    for skill in SKILLS:
        for number in range(per_skill):
            rng = Random(f"{SEED}:{skill}:{number}")
            scene = draw_scene(rng, skill=skill, split="held-out")
            out.append(Question(caption(scene, rng, plain=True), scene, number))
    return out


def is_right(question: Question, found: Found) -> bool:
    """Exactly what was asked for, and nothing else."""
    scene = question.scene
    if question.names_background and found.background != scene.background:
        return False
    if _labels(scene.items) != _labels(found.items):
        return False
    if scene.relation is None:
        return True
    places = {item.name: item for item in found.items}
    first, second = places[scene.items[0].name], places[scene.items[1].name]
    dx, dy = second.x - first.x, second.y - first.y
    return {
        "left of": dx > abs(dy),
        "right of": -dx > abs(dy),
        "above": dy > abs(dx),
        "below": -dy > abs(dx),
    }[scene.relation]


def _labels(items: tuple) -> list[tuple[str, str]]:  # type: ignore[type-arg]
    return sorted((item.name, item.tint or "") for item in items)


@dataclass(frozen=True)
class Steps:
    """How a variant is sampled."""

    ar_iterations: int
    flow_steps: int
    cfg_scale: float

    @classmethod
    def of(cls, variant: Variant) -> Steps:
        """A variant's defaults."""
        return cls(variant.ar_iterations.default, variant.flow_steps.default, variant.cfg_scale)


@torch.inference_mode()
def draw(
    loaded: LoadedVariant, asked: list[Question], steps: Steps | None = None, batch: int = 30
) -> list[NDArray[np.float32]]:
    """Pictures of the prompts, RGB in 0..1; at the variant's default settings, if no others."""
    sampler, steps = loaded.sampler, steps or Steps.of(loaded.variant)
    empty = sampler.prompt_context(loaded.text.encode([""])[0])
    pictures = []
    for first in range(0, len(asked), batch):
        part = asked[first : first + batch]
        states = [
            sampler.start(
                SampleSettings(
                    question.seed, steps.ar_iterations, steps.flow_steps, steps.cfg_scale
                ),
                sampler.prompt_context(rows),
                empty,
            )
            for question, rows in zip(
                part, loaded.text.encode([q.prompt for q in part]), strict=True
            )
        ]
        for _ in range(sampler.num_steps(states[0])):
            sampler.advance(states)
        latents = torch.stack([sampler.latent(state) for state in states])
        pictures += list(loaded.autoencoder.decode(latents).permute(0, 2, 3, 1).cpu().numpy())
    return pictures


def evaluate(
    loaded: LoadedVariant, detector: Detector, per_skill: int, steps: Steps | None = None
) -> dict[str, float]:
    """Share of right pictures by skill, and their mean as "overall"."""
    asked = questions(per_skill)
    pictures = draw(loaded, asked, steps)
    right = dict.fromkeys(SKILLS, 0)
    for question, picture in zip(asked, pictures, strict=True):
        right[question.scene.skill] += is_right(question, detector.find(picture))
    scores = {skill: count / per_skill for skill, count in right.items()}
    return {**scores, "overall": sum(scores.values()) / len(scores)}


def table(results: dict[str, dict[str, float]]) -> str:
    """The scores as Markdown, in GenEval's order."""
    columns = (*SKILLS, "overall")
    lines = ["| variant | " + " | ".join(columns) + " |", "|---|" + "---:|" * len(columns)]
    for name, scores in results.items():
        lines.append(f"| {name} | " + " | ".join(f"{scores[c]:.2f}" for c in columns) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--variants", default="pocket-ar,pocket-ar-joint")
    parser.add_argument("--per-skill", type=int, default=PER_SKILL)
    default = "default: the variant's own"
    parser.add_argument("--ar-iterations", type=int, help=default)
    parser.add_argument("--flow-steps", type=int, help=default)
    parser.add_argument("--cfg-scale", type=float, help=default)
    parser.add_argument("--pocket", type=Path, help="folder of weights, if not the shipped ones")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    sources = Sources(pocket=args.pocket) if args.pocket else Sources()
    loader, detector, results = Loader(sources), Detector(), {}
    for name in args.variants.split(","):
        begin = time.monotonic()
        loaded = loader.load(name)
        own = Steps.of(loaded.variant)
        steps = Steps(
            args.ar_iterations or own.ar_iterations,
            args.flow_steps or own.flow_steps,
            args.cfg_scale or own.cfg_scale,
        )
        results[name] = evaluate(loaded, detector, args.per_skill, steps)
        print(f"{name}: {time.monotonic() - begin:.0f} s", flush=True)
    print(table(results))
    if args.json:
        args.json.write_text(
            json.dumps({"per_skill": args.per_skill, "variants": results}, indent=2)
        )


if __name__ == "__main__":
    main()
