"""Stage 3: the generators, `pocket-ar` (with the text encoder) and those that read its text rows.

pocket-ar learns backbone, MLP flow head and text encoder together, by flow matching on masked
tokens. The others keep that text encoder, so that all variants share one: pocket-ar-joint learns
its own backbone, the transformer head over all tokens and the global head on thumbnail tokens;
pocket-e is one velocity net over all tokens. pocket-e-dist has a stage of its own, `distill`.
pocket-instella learns binary tokens instead (`--latents runs/bits.pt --autoencoder runs/tokenizer`),
as a row or, for comparison, by diffusion.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from random import Random

import torch
from torch import Tensor

from models.precision import pick_device
from training.families import Family, families
from training.fit import Sheets, fit
from training.latents import LatentSet
from training.loop import Run, averaged
from training.trainee import Captioner, Trainee, initialise, new_text_encoder, warm_start
from training.world.captions import caption

PROMPT_DROPOUT = 0.1
VARIANTS = (
    "pocket-ar",
    "pocket-ar-joint",
    "pocket-e",
    "pocket-instella",
    "pocket-instella-diffusion",
)


def train(
    run: Run, data: LatentSet, family: Family, encoder_from: Path | None, start_from: Path | None,
    autoencoder: Path, seed: int, batch: int, lr: float, easy_share: float, compiled: bool = False,
) -> None:  # fmt: skip
    torch.manual_seed(seed)
    device = pick_device()
    trainee = Trainee(family.build(), new_text_encoder())
    initialise(trainee.model)
    if start_from is not None:
        warm_start(trainee, averaged(start_from))
    if encoder_from is not None:
        stored = averaged(encoder_from)
        trainee.text.load_state_dict(
            {n.removeprefix("text."): v for n, v in stored.items() if n.startswith("text.")}
        )
        trainee.text.requires_grad_(False)
    trainee.to(device)
    if compiled:  # the backbone's passes; in place, so names and checkpoints stay the same
        trainee.model.compile(dynamic=False)
    captioner = Captioner(trainee.text)
    # A curriculum: more scenes with one object at first, the world as it is at the end.
    everything = range(len(data.scenes))
    simple = [i for i in everything if data.scenes[i].skill in ("single", "colours")]

    def loss_of(rng: Random, generator: torch.Generator) -> Tensor:
        easy = easy_share * (1 - run.progress)
        chosen = [rng.choice(simple if rng.random() < easy else everything) for _ in range(batch)]
        prompts = [
            "" if rng.random() < PROMPT_DROPOUT else caption(data.scenes[i], rng) for i in chosen
        ]
        tokens, thumbnails = (part.to(device) for part in data.batch(chosen))
        return family.loss(trainee.model, tokens, thumbnails, captioner(prompts), generator)

    sheets = Sheets(family, autoencoder, data.scale)
    fit(run, trainee, [trainee], loss_of, sheets, seed, batch, lr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variant", choices=VARIANTS, required=True)
    parser.add_argument("--latents", type=Path, default=Path("runs/latents.pt"))
    parser.add_argument("--autoencoder", type=Path, default=Path("runs/autoencoder"))
    parser.add_argument("--out", type=Path, help="default: runs/VARIANT")
    parser.add_argument("--encoder-from", type=Path, help="run whose text encoder is kept")
    parser.add_argument("--start-from", type=Path, help="run to take fitting tensors from")
    parser.add_argument("--steps", type=int, default=40_000)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--batch", type=int, default=96)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--easy", type=float, default=0.75, help="extra share of one-object scenes "
        "at the start; falls to 0")  # fmt: skip
    parser.add_argument(
        "--draws", type=int, default=1, help="noise levels a masked token (MLP head)"
    )
    parser.add_argument("--compile", action="store_true", help="fuse the backbone's operations: "
        "a sixth faster on two cores, after a minute and a half (needs a C++ compiler)")  # fmt: skip
    args = parser.parse_args()
    if args.variant != "pocket-ar" and args.encoder_from is None:
        parser.error(
            f"{args.variant} shares pocket-ar's text encoder: --encoder-from runs/pocket-ar"
        )
    run = Run(args.out or Path("runs") / args.variant, args.steps, args.minutes * 60)
    train(
        run, LatentSet.load(args.latents), families(args.draws)[args.variant], args.encoder_from,
        args.start_from, args.autoencoder, args.seed, args.batch, args.lr, args.easy,
        args.compile,
    )  # fmt: skip


if __name__ == "__main__":
    main()
