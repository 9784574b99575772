"""Is there a better cheap preview? The linear map beside a small network of the same arithmetic.

    python -m benchmarks.previews [--pictures 2000] [--seconds 120]

Both turn a token and its eight neighbours into the token's patch of pixels. The map is the
product's, solved in one go; the network has one hidden layer, as wide as makes the multiply-adds
equal, and is trained for as long as is asked. Pictures are Pocket's world, encoded and decoded by
Pocket's autoencoder, so that both are measured against what the decoder would have shown.
"""

from __future__ import annotations

import argparse
import math
import time
from random import Random

import numpy as np
import torch
from torch import Tensor

from engine.linear import LinearPreview
from models.loading import Loader
from models.preview import PreviewDecoder
from models.sources import Sources
from training.preview import preview_loss
from training.world.render import render
from training.world.scenes import draw_scene

HELD_OUT = 200


def psnr(made: Tensor, true: Tensor) -> float:
    """Peak signal-to-noise ratio in dB, of values in 0..1."""
    return -10 * math.log10((made.clamp(0, 1) - true).square().mean().item())


@torch.no_grad()
def pairs(count: int) -> tuple[Tensor, Tensor]:
    """Latents [N, C, h, w] of scenes and what they decode to, [N, 3, H, W]."""
    autoencoder = Loader(Sources()).load("pocket-ar").autoencoder
    latents, pixels = [], []
    for first in range(0, count, 50):
        scenes = [draw_scene(Random(f"preview:{first + n}"), split="any") for n in range(50)]
        pictures = torch.from_numpy(np.stack([render(scene) for scene in scenes]))
        latents.append(autoencoder.encode(pictures.permute(0, 3, 1, 2)))
        pixels.append(autoencoder.decode(latents[-1]))
    return torch.cat(latents), torch.cat(pixels)


def fit(network: PreviewDecoder, latents: Tensor, pixels: Tensor, seconds: float) -> None:
    """The loss of `training.preview`, for a fixed time."""
    optimizer = torch.optim.AdamW(network.parameters())
    random, began = torch.Generator().manual_seed(0), time.monotonic()
    while (spent := time.monotonic() - began) < seconds:
        optimizer.param_groups[0]["lr"] = 3e-3 * (1 - spent / seconds) + 1e-5
        chosen = torch.randint(len(latents), (32,), generator=random)
        loss = preview_loss(network, latents[chosen], pixels[chosen], random)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def milliseconds(call: object, latents: Tensor) -> float:
    """Median of one picture."""
    times = []
    with torch.inference_mode():
        for _ in range(50):
            begin = time.perf_counter()
            call(latents[:1])  # type: ignore[operator]
            times.append(1000 * (time.perf_counter() - begin))
    return sorted(times)[len(times) // 2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--pictures", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=120)
    args = parser.parse_args()
    torch.manual_seed(0)
    latents, pixels = pairs(args.pictures + HELD_OUT)
    known, unseen = latents[:-HELD_OUT], latents[-HELD_OUT:]
    patch = pixels.shape[-1] // latents.shape[-1]
    linear = LinearPreview(latents.shape[1], patch, pixels.shape[-1], pixels.shape[-1])
    for first in range(0, 48, 16):  # as many pictures as the product learns from
        linear.learn(known[first : first + 16], pixels[first : first + 16])
    network = PreviewDecoder(latents.shape[1], patch)
    fit(network, known, pixels[:-HELD_OUT], args.seconds)
    with torch.inference_mode():
        for name, call in (("linear map", linear.render), ("small network", network)):
            quality = psnr(call(unseen), pixels[-HELD_OUT:])
            print(f"{name}: {quality:.2f} dB, {milliseconds(call, unseen):.2f} ms a picture")


if __name__ == "__main__":
    main()
