"""Optional stage: the head's few steps, tuned against a small discriminator.

The published models' heads were made few-step ones in this way: the backbone stays as it is, the
head draws tokens in exactly the steps the product takes, and learns from a discriminator that sees
the backbone's hidden rows too. The relativistic loss (Jolicoeur-Martineau, 2018) with penalties on
real and drawn tokens (Huang et al., 2025) keeps it from collapsing; a share of the flow loss keeps
the head a flow, so that other step counts go on working.

The result is a run like any other: `training.export` and `training.evaluate` take it.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.precision import pick_device
from models.schedules import flow_sigmas, flow_times
from training.families import Family, families
from training.fit import Sheets, fit
from training.generator import PROMPT_DROPOUT
from training.latents import LatentSet
from training.loop import Run, averaged
from training.losses import flow_target, mask_ratios, masked
from training.trainee import Captioner, Trainee, new_text_encoder
from training.world.captions import caption

PENALTY = 0.05  # times the squared change of a verdict under a small shake
SHAKE = 0.1


class Discriminator(nn.Module):
    """Verdicts on tokens [B, N, C] that belong to hidden rows [B, N, D]: [B, N].

    Whole pictures (N = grid²) are judged with their neighbours, single tokens (N = 1) alone.
    """

    def __init__(self, channels: int, hidden_width: int, grid: int, width: int = 160) -> None:
        super().__init__()
        self.grid = grid
        self.enter = nn.Linear(channels + hidden_width, width)
        self.layers = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(3))
        self.verdict = nn.Linear(width, 1)

    def forward(self, tokens: Tensor, hidden: Tensor) -> Tensor:
        x = self.enter(torch.cat([tokens, hidden], dim=2))  # [B, N, W]
        side = self.grid if x.shape[1] == self.grid**2 else 1
        image = x.mT.unflatten(2, (side, -1))  # [B, W, side, side]
        for layer in self.layers:
            image = image + layer(F.silu(image))
        return self.verdict(F.silu(image).flatten(2).mT)[:, :, 0]


def drawn(head: nn.Module, hidden: Tensor, noise: Tensor, steps: int, joint: bool) -> Tensor:
    """Tokens as the product's sampler draws them without guidance, with gradients to the head."""
    sigmas = flow_sigmas(steps)
    times = head.time(
        torch.tensor(flow_times(steps, "multi-step" if joint else "two-step")).to(noise)
    )
    condition, z = head.condition(hidden), noise
    for k in range(steps):
        time = times[k].expand(len(z), -1) if joint else times[k]
        z = z + (sigmas[k + 1] - sigmas[k]) * head(z, time, condition).float()
    return z


@dataclass
class Batch:
    """What one step sees: the truth, the hidden rows it belongs to, and fresh noise, all [B, N, .]"""

    real: Tensor
    hidden: Tensor
    noise: Tensor


def prepare(
    model: Any, joint: bool, tokens: Tensor, thumbnail: Tensor, text: Tensor,
    generator: torch.Generator,
) -> Batch:  # fmt: skip
    """Run the frozen backbone. Whole pictures for the joint head, masked tokens for the other."""
    with torch.no_grad():
        embedded = model.embed_text(text)
        if joint:
            hidden = model(thumbnail[:, None].expand_as(tokens), embedded)
            real = tokens
        else:
            mask = masked(tokens.shape[1], mask_ratios(len(tokens), generator), generator)
            mask = mask.to(tokens.device)
            seen = torch.where(mask[:, :, None], model.mask_token, tokens)
            hidden = model(seen, embedded)[mask][:, None]
            real = tokens[mask][:, None]
    return Batch(real, hidden.float(), torch.randn(real.shape, generator=generator).to(real))


def head_loss(head: nn.Module, judge: Discriminator, batch: Batch, family: Family, joint: bool,
              flow_share: float, generator: torch.Generator) -> Tensor:  # fmt: skip
    """What the head learns from: to be judged no worse than the truth, and to stay a flow."""
    made = _draw(head, batch, family, joint)
    against = judge(batch.real, batch.hidden) - judge(made, batch.hidden)
    times = torch.rand(len(batch.real), generator=generator).to(batch.real)
    noisy, velocity = flow_target(batch.real, times[:, None, None], generator)
    rows = (noisy, batch.hidden) if joint else (noisy[:, 0], batch.hidden[:, 0])
    flow = head(rows[0], head.time(1000 * times), head.condition(rows[1])).float()
    anchor = (flow.view_as(velocity) - velocity).square().mean()
    return F.softplus(against).mean() + flow_share * anchor


def judge_loss(head: nn.Module, judge: Discriminator, batch: Batch, family: Family,
               joint: bool, generator: torch.Generator) -> Tensor:  # fmt: skip
    """What the discriminator learns from: the truth above what is drawn, both verdicts smooth."""
    with torch.no_grad():
        made = _draw(head, batch, family, joint)
    true, false = judge(batch.real, batch.hidden), judge(made, batch.hidden)
    shake = SHAKE * torch.randn(made.shape, generator=generator).to(made)
    steep = (judge(batch.real + shake, batch.hidden) - true).square().mean()
    steep = steep + (judge(made + shake, batch.hidden) - false).square().mean()
    return F.softplus(false - true).mean() + PENALTY / SHAKE**2 * steep


def _draw(head: nn.Module, batch: Batch, family: Family, joint: bool) -> Tensor:
    if joint:
        return drawn(head, batch.hidden, batch.noise, family.flow_steps, joint)
    rows = drawn(head, batch.hidden[:, 0], batch.noise[:, 0], family.flow_steps, joint)
    return rows[:, None]


def train(
    run: Run, data: LatentSet, name: str, start_from: Path, autoencoder: Path, seed: int,
    batch: int, lr: float, flow_share: float,
) -> None:  # fmt: skip
    torch.manual_seed(seed)
    device, family = pick_device(), families()[name]
    trainee = Trainee(family.build(), new_text_encoder())
    trainee.load_state_dict(averaged(start_from))
    trainee.requires_grad_(False)
    joint = name.endswith("joint")
    head = trainee.model.diffloss.net.requires_grad_(True)
    config = trainee.model.config
    judge = Discriminator(config.channels, config.width, config.grid)
    trainee.to(device)
    judge.to(device)
    judging = torch.optim.AdamW(judge.parameters(), lr=lr, betas=(0.0, 0.95))
    judge_file = run.folder / "discriminator.pt"
    if run.checkpoint.exists() and judge_file.exists():
        judge.load_state_dict(torch.load(judge_file, map_location=device, weights_only=True))
    captioner = Captioner(trainee.text)

    def loss_of(rng: Random, generator: torch.Generator) -> Tensor:
        chosen = [rng.randrange(len(data.scenes)) for _ in range(batch)]
        words = [
            "" if rng.random() < PROMPT_DROPOUT else caption(data.scenes[i], rng) for i in chosen
        ]
        with torch.no_grad():
            text = captioner(words)
        tokens, thumbnails = (part.to(device) for part in data.batch(chosen))
        made = prepare(trainee.model, joint, tokens, thumbnails, text, generator)
        judging.zero_grad(set_to_none=True)
        judge_loss(head, judge, made, family, joint, generator).backward()
        judging.step()
        if run.step % 100 == 0:
            torch.save(judge.state_dict(), judge_file)
        judge.requires_grad_(False)  # the head's turn: its gradient only passes through
        loss = head_loss(head, judge, made, family, joint, flow_share, generator)
        judge.requires_grad_(True)
        return loss

    fit(run, trainee, [head], loss_of, Sheets(family, autoencoder, data.scale), seed, batch, lr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variant", choices=("pocket-ar", "pocket-ar-joint"), required=True)
    parser.add_argument("--start-from", type=Path, help="default: runs/VARIANT")
    parser.add_argument("--latents", type=Path, default=Path("runs/latents.pt"))
    parser.add_argument("--autoencoder", type=Path, default=Path("runs/autoencoder"))
    parser.add_argument("--out", type=Path, help="default: runs/adversarial/VARIANT")
    parser.add_argument("--steps", type=int, default=3_000)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lr", type=float, default=2e-4)
    parser.add_argument("--flow-share", type=float, default=1.0)
    args = parser.parse_args()
    out = args.out or Path("runs/adversarial") / args.variant
    train(
        Run(out, args.steps, args.minutes * 60), LatentSet.load(args.latents), args.variant,
        args.start_from or Path("runs") / args.variant, args.autoencoder, args.seed, args.batch,
        args.lr, args.flow_share,
    )  # fmt: skip


if __name__ == "__main__":
    main()
