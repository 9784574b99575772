"""Stage 5: the decoder for previews, which learns what the autoencoder's own would have shown.

Tokens are hidden at random, as they are while a picture is drawn: those that are hidden say nothing
about their neighbours, and are not judged.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from torch import Tensor

from models.precision import pick_device
from models.preview import PreviewDecoder
from training.latents import LatentSet, load_autoencoder
from training.loop import Run, warmup_cosine

PATCH = 16  # pixels a token


def hide(tokens: Tensor, generator: torch.Generator) -> Tensor:
    """bool [N, h, w]: half of the pictures whole, of the others a random share of the tokens."""
    count, _, height, width = tokens.shape
    share = torch.rand(count, 1, 1, generator=generator)
    whole = torch.rand(count, 1, 1, generator=generator) < 0.5
    return (torch.rand(count, height, width, generator=generator) < share) | whole


def preview_loss(
    network: PreviewDecoder, latents: Tensor, pixels: Tensor, generator: torch.Generator
) -> Tensor:
    """Mean squared error over the tokens that are shown."""
    shown = hide(latents, generator).to(latents.device)
    error = (network(latents, shown) - pixels).square().mean(1, keepdim=True)  # [N, 1, H, W]
    by_token = torch.nn.functional.avg_pool2d(error, network.patch)[:, 0]  # [N, h, w]
    return (by_token * shown).sum() / shown.sum().clamp(min=1)


@torch.no_grad()
def decoded(
    autoencoder: Path, data: LatentSet, indices: list[int], batch: int = 50
) -> tuple[Tensor, Tensor]:
    """Scaled latents [N, C, h, w] and what they decode to, [N, 3, H, W] in 0..1."""
    decoder = load_autoencoder(autoencoder).decoder
    side = round(data.tokens.shape[1] ** 0.5)
    latents, pixels = [], []
    for first in range(0, len(indices), batch):
        rows, _ = data.batch(indices[first : first + batch])
        latents.append(rows.mT.unflatten(2, (side, side)).contiguous())
        pixels.append((decoder(latents[-1] / data.scale) / 2 + 0.5).clamp(0, 1))
    return torch.cat(latents), torch.cat(pixels)


def train(run: Run, latents: Tensor, pixels: Tensor, seed: int, batch: int, lr: float) -> None:
    torch.manual_seed(seed)
    device = pick_device()
    network = PreviewDecoder(latents.shape[1], PATCH).to(device)
    optimizer = torch.optim.AdamW(network.parameters(), lr=lr)
    if saved := run.resume():
        network.load_state_dict(saved["average"])
        optimizer.load_state_dict(saved["optimizer"])
    losses: list[float] = []
    for step in run.ticks():
        generator = torch.Generator().manual_seed(seed * 1_000_003 + step)
        for group in optimizer.param_groups:
            group["lr"] = lr * warmup_cosine(int(run.progress * 1e6), 10**6, warmup=10**4)
        chosen = torch.randint(len(latents), (batch,), generator=generator)
        loss = preview_loss(
            network, latents[chosen].to(device), pixels[chosen].to(device), generator
        )
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if (step + 1) % 200 == 0:
            run.log(loss=round(sum(losses) / len(losses), 5))
            losses.clear()
        run.save(average=network.state_dict(), optimizer=optimizer.state_dict())
    run.save(force=True, average=network.state_dict(), optimizer=optimizer.state_dict())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--autoencoder", type=Path, default=Path("runs/autoencoder"))
    parser.add_argument("--latents", type=Path, default=Path("runs/latents.pt"))
    parser.add_argument("--out", type=Path, default=Path("runs/preview"))
    parser.add_argument("--pictures", type=int, default=3000)
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lr", type=float, default=3e-3)
    args = parser.parse_args()
    data = LatentSet.load(args.latents)
    indices = list(range(min(args.pictures, len(data.scenes))))
    latents, pixels = decoded(args.autoencoder, data, indices)
    run = Run(args.out, args.steps, args.minutes * 60)
    train(run, latents, pixels, args.seed, args.batch, args.lr)


if __name__ == "__main__":
    main()
