"""Stage 1: the autoencoder, 16x spatial compression, 32 channels (8 x 8 tokens a picture).

Trained on crops of scenes of the whole world. A penalty on the latent's energy together with noise
added to it works like a variational bottleneck with a fixed variance: channels carry only what the
decoder needs, neighbouring latents decode to similar pictures, and a generator's small mistakes
stay small.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from random import Random

import numpy as np
import torch
from diffusers import AutoencoderDC
from torch import Tensor

from models.precision import pick_device
from training.loop import Average, Run, autocast, warmup_cosine
from training.world.render import render
from training.world.scenes import WorldConfig, draw_scene

CONFIG = {
    "in_channels": 3,
    "latent_channels": 32,
    "encoder_block_types": "ResBlock",
    "decoder_block_types": "ResBlock",
    "encoder_block_out_channels": (32, 32, 64, 128, 128),
    "decoder_block_out_channels": (32, 32, 64, 128, 128),
    # No layers at full resolution: on a CPU the first convolution at half resolution pays off.
    "encoder_layers_per_block": (0, 1, 1, 1, 1),
    "decoder_layers_per_block": (0, 2, 2, 2, 2),
    "encoder_qkv_multiscales": ((), (), (), (), ()),
    "decoder_qkv_multiscales": ((), (), (), (), ()),
    "upsample_block_type": "interpolate",
    "downsample_block_type": "pixel_unshuffle",
    "decoder_norm_types": "rms_norm",
    "decoder_act_fns": "silu",
}
# The autoencoder sees more sizes and places than the generators, so that the world can widen.
WORLD = WorldConfig(jitter=12, lattice=1, single_sizes=(72, 84, 96, 108), shade=24)
CROP = 64


def crops(rng: Random, count: int, per_scene: int = 2) -> Tensor:
    """Random 64-px crops of random scenes, [count, 3, 64, 64] in -1..1."""
    out = np.empty((count, CROP, CROP, 3), dtype=np.float32)
    for index in range(count):
        if index % per_scene == 0:
            picture = render(draw_scene(rng, WORLD))
        top, left = rng.randint(0, 128 - CROP), rng.randint(0, 128 - CROP)
        out[index] = picture[top : top + CROP, left : left + CROP]
    return torch.from_numpy(out).permute(0, 3, 1, 2) * 2 - 1


def scenes(seed: int, count: int) -> Tensor:
    """Whole unseen scenes, [count, 3, 128, 128] in -1..1."""
    rng = Random(seed)
    pictures = np.stack([render(draw_scene(rng, WORLD)) for _ in range(count)])
    return torch.from_numpy(pictures).permute(0, 3, 1, 2) * 2 - 1


def reconstruction_loss(made: Tensor, target: Tensor) -> Tensor:
    """L1 + MSE + L1 of the horizontal and vertical differences (edges)."""
    error = made - target
    edges = (error[..., 1:] - error[..., :-1]).abs().mean()
    edges = edges + (error[..., 1:, :] - error[..., :-1, :]).abs().mean()
    return error.abs().mean() + 2 * error.square().mean() + edges


def psnr(made: Tensor, target: Tensor) -> float:
    """Mean peak signal-to-noise ratio in dB of pictures in -1..1."""
    mse = ((made.clamp(-1, 1) - target) / 2).square().flatten(1).mean(1)
    return float((-10 * mse.log10()).mean())


def train(run: Run, seed: int, batch: int, noise: float, energy: float, lr: float) -> None:
    torch.manual_seed(seed)
    device = pick_device()
    model = AutoencoderDC(**CONFIG).to(device, memory_format=torch.channels_last)
    average = Average(model, 0.999)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, betas=(0.9, 0.95), weight_decay=0.01)
    if saved := run.resume():
        model.load_state_dict(saved["model"])
        average.state = saved["average"]
        optimizer.load_state_dict(saved["optimizer"])
    held_out = scenes(seed=10**6, count=32).to(device)

    for step in run.ticks():
        # Every step draws from its own generator, so a resumed run continues the same stream.
        rng = Random(f"{seed}:{step}")
        target = crops(rng, batch).to(device, memory_format=torch.channels_last)
        generator = torch.Generator().manual_seed(rng.getrandbits(48))
        for group in optimizer.param_groups:
            group["lr"] = lr * warmup_cosine(int(run.progress * 1e6), 10**6, warmup=10**4)
        with autocast(device):
            latent = model.encoder(target)
            shake = torch.randn(latent.shape, generator=generator).to(latent)
            made = model.decoder(latent + noise * shake)
        loss = reconstruction_loss(made.float(), target)
        loss = loss + energy * latent.float().square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        average.update(model, step)
        if step % 200 == 0:
            run.log(loss=round(loss.item(), 4), latent_std=round(latent.float().std().item(), 3))
        if step % 2000 == 1999:
            evaluate(run, average, held_out)
        run.save(model=model.state_dict(), average=average.state, optimizer=optimizer.state_dict())
    run.save(
        force=True,
        model=model.state_dict(),
        average=average.state,
        optimizer=optimizer.state_dict(),
    )
    evaluate(run, average, held_out)


@torch.no_grad()
def evaluate(run: Run, average: Average, held_out: Tensor) -> None:
    model = AutoencoderDC(**CONFIG).to(held_out.device)
    model.load_state_dict(average.state)
    latent = model.encoder(held_out)
    made = model.decoder(latent)
    shaken = model.decoder(latent + 0.2 * latent.std() * torch.randn_like(latent))
    run.log(psnr=round(psnr(made, held_out), 2), psnr_noise_02=round(psnr(shaken, held_out), 2))
    run.sheet("reconstructions", torch.cat([held_out[:16], made[:16]]) / 2 + 0.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/autoencoder"))
    parser.add_argument("--steps", type=int, default=40_000)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--noise", type=float, default=0.15, help="added to the latent")
    parser.add_argument("--energy", type=float, default=0.002, help="penalty on latent energy")
    parser.add_argument("--lr", type=float, default=2e-3)
    args = parser.parse_args()
    run = Run(args.out, args.steps, args.minutes * 60)
    train(run, args.seed, args.batch, args.noise, args.energy, args.lr)


if __name__ == "__main__":
    main()
