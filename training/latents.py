"""Stage 2: scenes of the world, encoded once and kept, as the generators' training set.

Each entry is a scene's latent, the latent of its 16-px thumbnail (the global token's target) and
the scene itself, from which every epoch draws a new caption.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np
import torch
from diffusers import AutoencoderDC
from torch import Tensor
from torch.nn import functional as F

from models.precision import pick_device
from training.autoencoder import CONFIG
from training.loop import autocast, averaged
from training.world.render import render
from training.world.scenes import Item, Scene, WorldConfig, draw_scene


def load_autoencoder(run: Path) -> AutoencoderDC:
    """The averaged autoencoder of a training run."""
    model = AutoencoderDC(**CONFIG)
    model.load_state_dict(averaged(run))
    return model.eval()


def latent_decoder(run: Path) -> Callable[[Tensor], Tensor]:
    """Latents [N, C, h, w], in the autoencoder's own scale, to pictures in -1..1."""
    return load_autoencoder(run).decoder


@torch.no_grad()
def encode(model: AutoencoderDC, pictures: Tensor) -> tuple[Tensor, Tensor]:
    """Pictures [N, 3, H, W] in 0..1 to token rows [N, T, C] and thumbnail tokens [N, C]."""
    pixels = (pictures * 2 - 1).to(memory_format=torch.channels_last)
    small = F.interpolate(pixels, size=(16, 16), mode="area")
    with autocast(pixels.device):
        latent, thumbnail = model.encoder(pixels), model.encoder(small)
    return latent.flatten(2).mT.float(), thumbnail.flatten(1).float()


def build(autoencoder: Path, out: Path, count: int, seed: int, config: WorldConfig) -> None:
    checkpoint = autoencoder / "checkpoint.pt"
    if out.exists() and out.stat().st_mtime > checkpoint.stat().st_mtime:
        stored = LatentSet.load(out)
        if len(stored.scenes) == count:
            print(f"latents: {count} scenes are there already", flush=True)
            return
    device = pick_device()
    model = load_autoencoder(autoencoder).to(device, memory_format=torch.channels_last)
    rows, thumbnails, scenes = [], [], []
    started, batch = time.monotonic(), 64
    for first in range(0, count, batch):
        drawn = [
            draw_scene(Random(f"{seed}:{first + k}"), config)
            for k in range(min(batch, count - first))
        ]
        pictures = torch.from_numpy(np.stack([render(scene) for scene in drawn]))
        latent, thumbnail = encode(model, pictures.permute(0, 3, 1, 2).to(device))
        rows.append(latent.half().cpu())
        thumbnails.append(thumbnail.half().cpu())
        scenes += [dataclasses.asdict(scene) for scene in drawn]
        if first // batch % 50 == 0:
            rate = len(scenes) / (time.monotonic() - started)
            print(f"latents {len(scenes)}/{count}, {rate:.0f} a second", flush=True)
    tokens = torch.cat(rows)
    scale = 1 / tokens.float().std().item()
    out.parent.mkdir(parents=True, exist_ok=True)
    torch.save(
        {
            "tokens": tokens,
            "thumbnails": torch.cat(thumbnails),
            "scale": scale,
            "scenes": json.dumps(scenes),
        },
        out,
    )
    print(f"latents: {count} scenes, scaling factor {scale:.4f}", flush=True)


@dataclasses.dataclass
class LatentSet:
    """The stored training set; tokens are scaled to unit variance when read."""

    tokens: Tensor  # fp16 [N, T, C]
    thumbnails: Tensor  # fp16 [N, C]
    scale: float
    scenes: list[Scene]

    @classmethod
    def load(cls, file: Path) -> LatentSet:
        stored = torch.load(file, weights_only=True)
        scenes = [
            Scene(**{**entry, "items": tuple(Item(**item) for item in entry["items"])})
            for entry in json.loads(stored["scenes"])
        ]
        return cls(stored["tokens"], stored["thumbnails"], stored["scale"], scenes)

    def batch(self, indices: list[int]) -> tuple[Tensor, Tensor]:
        """Scaled tokens [B, T, C] and thumbnail tokens [B, C]."""
        return self.tokens[indices].float() * self.scale, (
            self.thumbnails[indices].float() * self.scale
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--autoencoder", type=Path, default=Path("runs/autoencoder"))
    parser.add_argument("--out", type=Path, default=Path("runs/latents.pt"))
    parser.add_argument("--count", type=int, default=60_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--weights", type=float, nargs=6, default=WorldConfig.weights)
    parser.add_argument("--jitter", type=int, default=WorldConfig.jitter)
    args = parser.parse_args()
    config = WorldConfig(weights=tuple(args.weights), jitter=args.jitter)
    build(args.autoencoder, args.out, args.count, args.seed, config)


if __name__ == "__main__":
    main()
