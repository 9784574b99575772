"""The README's pictures, drawn by the shipped weights through the engine.

    python -m training.samples

`samples.png` shows six prompts; `sheet.png` 48 held-out prompts with seeds 0 to 47, unpicked.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from engine.engine import Engine
from engine.events import Finished
from engine.requests import GenerationRequest
from models.loading import Loader
from training.evaluate import questions
from training.loop import save_sheet

SIX = (
    "a fox on a blue background", "an apple on a white background", "a panda on a pink background",
    "a rocket on a black background", "an owl on a green background",
    "a strawberry on a turquoise background",
)  # fmt: skip


def pictures(engine: Engine, prompts: list[str], variant: str) -> torch.Tensor:
    """[N, 3, H, W] in 0..1, seeds counting up from 0."""
    jobs = [
        engine.submit(
            GenerationRequest(prompt, variant, seed=seed, preview_every=0), "sheet", str(seed)
        )
        for seed, prompt in enumerate(prompts)
    ]
    ends = [list(job.events())[-1] for job in jobs]
    assert all(isinstance(end, Finished) for end in ends), ends
    stack = torch.stack([torch.from_numpy(end.image.copy()) for end in ends])  # type: ignore[union-attr]
    return stack.permute(0, 3, 1, 2) / 255


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--variant", default="pocket-ar")
    parser.add_argument("--out", type=Path, default=Path("assets/readme"))
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    loader = Loader()
    engine = Engine(loader.load, [args.variant], device=loader.device)
    engine.wait_ready(None)
    save_sheet(args.out / "samples.png", pictures(engine, list(SIX), args.variant), columns=6)
    prompts = [question.prompt for question in questions(per_skill=8)]
    sheet = torch.cat(
        [pictures(engine, prompts[first : first + 12], args.variant) for first in range(0, 48, 12)]
    )
    save_sheet(args.out / "sheet.png", sheet, columns=8)
    engine.close()


if __name__ == "__main__":
    main()
