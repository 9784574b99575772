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
from training.loop import Average, Run, autocast, averaged, warmup_cosine
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
# Half of what the autoencoder sees is the generators' world, the other half has more sizes and
# places, so that pictures a user draws or uploads come through as well.
WORLD = WorldConfig()
FREE_WORLD = WorldConfig(jitter=6, lattice=1, single_sizes=(64, 76, 92, 104), shade=24)
CROP, CELL = 64, 16


def crops(rng: Random, count: int, per_scene: int = 2) -> Tensor:
    """Random 64-px crops of random scenes, [count, 3, 64, 64] in -1..1.

    Crops of the generators' world are cut at latent cells, as the encoder will meet them.
    """
    out = np.empty((count, CROP, CROP, 3), dtype=np.float32)
    for index in range(count):
        if index % per_scene == 0:
            free = rng.random() < 0.5
            picture = render(draw_scene(rng, FREE_WORLD if free else WORLD))
        step = 1 if free else CELL
        top, left = (step * rng.randint(0, (128 - CROP) // step) for _ in range(2))
        out[index] = picture[top : top + CROP, left : left + CROP]
    return torch.from_numpy(out).permute(0, 3, 1, 2) * 2 - 1


def scenes(seed: int, count: int, world: WorldConfig) -> Tensor:
    """Whole unseen scenes, [count, 3, 128, 128] in -1..1."""
    rng = Random(seed)
    pictures = np.stack([render(draw_scene(rng, world)) for _ in range(count)])
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


def train(
    run: Run, seed: int, batch: int, noise: float, energy: float, lr: float,
    start_from: Path | None = None, only_decoder: bool = False,
) -> None:  # fmt: skip
    torch.manual_seed(seed)
    device = pick_device()
    model = AutoencoderDC(**CONFIG)
    if start_from is not None:
        model.load_state_dict(averaged(start_from))
    model.to(device, memory_format=torch.channels_last)
    if only_decoder:  # latents stay what they were, so the generators stay valid
        model.encoder.requires_grad_(False)
    average = Average(model, 0.999)
    learnt = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(learnt, lr=lr, betas=(0.9, 0.95), weight_decay=0.01)
    if saved := run.resume():
        model.load_state_dict(saved["model"])
        average.state = saved["average"]
        optimizer.load_state_dict(saved["optimizer"])
    held_out = {
        name: scenes(10**6, 48, world).to(device)
        for name, world in (("psnr", WORLD), ("psnr_free", FREE_WORLD))
    }

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
        torch.nn.utils.clip_grad_norm_(learnt, 1.0)
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
def evaluate(run: Run, average: Average, held_out: dict[str, Tensor]) -> None:
    model = AutoencoderDC(**CONFIG).to(next(iter(held_out.values())).device)
    model.load_state_dict(average.state)
    scores = {}
    for name, pictures in held_out.items():
        latent = model.encoder(pictures)
        made = model.decoder(latent)
        noise = torch.randn(latent.shape, generator=torch.Generator().manual_seed(0))
        shaken = model.decoder(latent + 0.2 * latent.std() * noise.to(latent))
        scores[name] = round(psnr(made, pictures), 2)
        scores[f"{name}_noise_02"] = round(psnr(shaken, pictures), 2)
        run.sheet(name, torch.cat([pictures[:16], made[:16]]) / 2 + 0.5)
    run.log(**scores)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/autoencoder"))
    parser.add_argument("--start-from", type=Path, help="run whose weights to begin with")
    parser.add_argument("--only-decoder", action="store_true", help="keep the latents as they are")
    parser.add_argument("--steps", type=int, default=40_000)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--noise", type=float, default=0.15, help="added to the latent")
    parser.add_argument("--energy", type=float, default=0.002, help="penalty on latent energy")
    parser.add_argument("--lr", type=float, default=2e-3)
    args = parser.parse_args()
    run = Run(args.out, args.steps, args.minutes * 60)
    train(
        run, args.seed, args.batch, args.noise, args.energy, args.lr, args.start_from,
        args.only_decoder,
    )  # fmt: skip


if __name__ == "__main__":
    main()
