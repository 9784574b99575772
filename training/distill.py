"""Stage 4: `pocket-e-dist`, four steps without guidance, taught by pocket-e's guided twenty.

Reflow (Liu et al., 2022): the teacher turns noises into pictures along curved paths; the student
learns the straight line between the two ends. Only noise levels the four-step sampler visits are
trained, so nothing is spent on the others.

    python -m training.distill --teacher runs/pocket-e --out runs/pocket-e-dist
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path
from random import Random

import torch
from torch import Tensor

from models.contracts import SampleSettings
from models.nitro_e import NitroE
from models.precision import pick_device
from models.randomness import draw
from models.samplers.diffusion import DiffusionSampler
from models.schedules import diffusion_sigmas
from training.families import families
from training.fit import Sheets, fit
from training.latents import LatentSet
from training.loop import Run, autocast, averaged
from training.trainee import Captioner, Trainee, new_text_encoder
from training.world.captions import caption
from training.world.scenes import draw_scene

STEPS = 4


def load_teacher(run: Path) -> Trainee:
    """Model and text encoder of a finished pocket-e run, averaged weights."""
    trainee = Trainee(families()["pocket-e"].build(), new_text_encoder())
    trainee.load_state_dict(averaged(run))
    return trainee.eval().requires_grad_(False)


@dataclass
class Pairs:
    """What the teacher drew: prompts, seeds of the noise, and the tokens they became."""

    prompts: list[str]
    tokens: Tensor  # fp16 [N, T, C]

    def noise(self, index: int) -> Tensor:
        """The noise of pair `index`, [T, C]: the product's own for that seed."""
        return draw(index, *self.tokens.shape[1:]).fields[0]

    def save(self, file: Path) -> None:
        torch.save({"prompts": self.prompts, "tokens": self.tokens}, file)

    @classmethod
    def load(cls, file: Path) -> Pairs:
        return cls(**torch.load(file, weights_only=True))


@torch.inference_mode()
def make_pairs(teacher: Trainee, count: int, cfg_scale: float, seed: int, batch: int = 64) -> Pairs:
    """The teacher's guided pictures of new training scenes; pair i has noise of seed i."""
    device = pick_device()
    teacher.to(device)
    sampler, captioner = DiffusionSampler(teacher.model), Captioner(teacher.text)
    family, prompts, tokens = families()["pocket-e"], [], []
    began = time.monotonic()
    empty = sampler.prompt_context(captioner([""])[0])
    for first in range(0, count, batch):
        indices = range(first, min(first + batch, count))
        rngs = [Random(f"pairs:{seed}:{index}") for index in indices]
        texts = [caption(draw_scene(rng), rng) for rng in rngs]
        with autocast(device):
            states = [
                sampler.start(
                    SampleSettings(index, 1, family.flow_steps, cfg_scale),
                    sampler.prompt_context(rows), empty,
                )
                for index, rows in zip(indices, captioner(texts), strict=True)
            ]  # fmt: skip
            for _ in range(family.flow_steps):
                sampler.advance(states)
        prompts += texts
        tokens.append(torch.stack([state.z for state in states]).half().cpu())
        rate = len(prompts) / (time.monotonic() - began)
        print(f"pairs {len(prompts)}/{count}, {rate:.0f} a second", flush=True)
    return Pairs(prompts, torch.cat(tokens))


def reflow_loss(
    model: NitroE, pairs: Pairs, indices: list[int], text: Tensor, generator: torch.Generator
) -> Tensor:
    """Straight-line velocity at the levels the four steps visit; the first counts double, as
    everything else follows from it."""
    tokens = pairs.tokens[indices].float().to(text.device)
    noise = torch.stack([pairs.noise(index) for index in indices]).to(tokens)
    levels = torch.tensor(diffusion_sigmas(STEPS)[:-1])
    weights = torch.tensor([2.0, *[1.0] * (len(levels) - 1)])
    picks = torch.multinomial(weights, len(indices), replacement=True, generator=generator)
    times = levels[picks].to(tokens)
    noisy = tokens + times[:, None, None] * (noise - tokens)
    made = model(noisy, model.embed_text(text), model.adaln_single(1000 * times))
    return (made.float() - (noise - tokens)).square().mean()


def train(
    run: Run, teacher: Path, pairs: Pairs, sheets: Sheets, seed: int, batch: int, lr: float
) -> None:
    torch.manual_seed(seed)
    device = pick_device()
    student = load_teacher(teacher)
    student.model.requires_grad_(True)
    student.to(device)
    captioner = Captioner(student.text)

    def loss_of(rng: Random, generator: torch.Generator) -> Tensor:
        indices = [rng.randrange(len(pairs.prompts)) for _ in range(batch)]
        with torch.no_grad():
            text = captioner([pairs.prompts[index] for index in indices])
        return reflow_loss(student.model, pairs, indices, text, generator)

    fit(run, student, [student.model], loss_of, sheets, seed, batch, lr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--teacher", type=Path, default=Path("runs/pocket-e"))
    parser.add_argument("--autoencoder", type=Path, default=Path("runs/autoencoder"))
    parser.add_argument("--latents", type=Path, default=Path("runs/latents.pt"))
    parser.add_argument("--out", type=Path, default=Path("runs/pocket-e-dist"))
    parser.add_argument("--pairs", type=int, default=20_000)
    parser.add_argument("--cfg-scale", type=float, default=3.0, help="the teacher's guidance")
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--batch", type=int, default=96)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lr", type=float, default=1e-3)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    file = args.out / "pairs.pt"
    if not file.exists():
        make_pairs(load_teacher(args.teacher), args.pairs, args.cfg_scale, args.seed).save(file)
    scale = LatentSet.load(args.latents).scale
    family = families()["pocket-e-dist"]
    run = Run(args.out, args.steps, args.minutes * 60)
    train(
        run, args.teacher, Pairs.load(file), Sheets(family, args.autoencoder, scale), args.seed,
        args.batch, args.lr,
    )  # fmt: skip


if __name__ == "__main__":
    main()
