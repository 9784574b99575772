"""Stage 5: Pocket's binary autoencoder, a picture of the world in 64 tokens of 16 bits.

A bit is drawn with its probability while training (Bernoulli), and the gradient passes through as
if the probability itself had been handed on: the decoder gets used to bits that fell wrong, which a
generator's mistakes will look like, and the encoder learns to be sure where it matters.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from random import Random

import numpy as np
import torch
from torch import Tensor, nn

from models.instella.config import POCKET_TOKENIZER
from models.instella.tokenizer import BinaryTokenizer
from models.precision import pick_device
from training.autoencoder import WORLD, psnr, reconstruction_loss, scenes
from training.loop import Average, Run, attention, autocast, averaged, warmup_cosine
from training.muon import MuonAdamW
from training.world.render import render
from training.world.scenes import Scene, draw_scene

SIDE = 128  # pixels, of the world's scenes
SHARPER = 2.0  # how much surer bits are while the decoder alone is trained
BY_ADAM = {"latent_tokens", "mask_tokens", "patch_embedder", "to_pixel", "quantizer"}


def initialise(model: BinaryTokenizer) -> None:
    """Blocks start as the identity, tokens as small noise, bits as fair coins."""
    for name, parameter in model.named_parameters():
        if name.endswith(("o_proj.weight", "down_proj.weight")):
            nn.init.zeros_(parameter)
        elif name.endswith(("latent_tokens", "mask_tokens", "quantizer.embed")):
            nn.init.normal_(parameter, std=0.3)


def drawn(logits: Tensor, generator: torch.Generator) -> Tensor:
    """Bits 0/1 by their probabilities, with the probabilities' gradient."""
    share = logits.float().sigmoid()
    bits = (torch.rand(share.shape, generator=generator).to(share) < share).float()
    return bits + share - share.detach()


def pictures(rng: Random, count: int) -> Tensor:
    """Scenes of the world, [count, 3, 128, 128] in -1..1."""
    return as_batch([draw_scene(rng, WORLD) for _ in range(count)])


def as_batch(scenes: Sequence[Scene]) -> Tensor:
    """Pictures of scenes, [n, 3, 128, 128] in -1..1."""
    made = np.stack([render(scene) for scene in scenes])
    return torch.from_numpy(made).permute(0, 3, 1, 2) * 2 - 1


def train(
    run: Run, seed: int, batch: int, lr: float, start_from: Path | None, compiled: bool = False,
    only_decoder: bool = False,
) -> None:  # fmt: skip
    torch.manual_seed(seed)
    device = pick_device()
    model = BinaryTokenizer(POCKET_TOKENIZER)
    initialise(model)
    if start_from is not None:
        model.load_state_dict(averaged(start_from))
    model.to(device)
    if only_decoder:  # bits stay what they were, so the generators stay valid
        model.encoder.requires_grad_(False)
        model.quantizer.proj.requires_grad_(False)
    sharper = SHARPER if only_decoder else 1.0
    average, optimizer = Average(model, 0.999), MuonAdamW([model], lr, BY_ADAM)
    if saved := run.resume():
        model.load_state_dict(saved["model"])
        average.state = saved["average"]
        optimizer.load_state_dict(saved["optimizer"])
    if compiled:  # in place, so names and checkpoints stay the same
        model.encoder.compile(dynamic=False)
        model.decoder.compile(dynamic=False)
    held_out = scenes(10**6, 48, WORLD).to(device)
    side = SIDE // POCKET_TOKENIZER.patch

    def states() -> dict[str, object]:
        return {
            "model": model.state_dict(),
            "average": average.state,
            "optimizer": optimizer.state_dict(),
        }

    for step in run.ticks():
        rng = Random(f"{seed}:{step}")
        generator = torch.Generator().manual_seed(rng.getrandbits(48))
        target = pictures(rng, batch).to(device)
        for group in optimizer.param_groups:
            group["lr"] = lr * warmup_cosine(int(run.progress * 1e6), 10**6, warmup=2 * 10**4)
        with autocast(device), attention(device):
            made = model.decode(drawn(sharper * model.logits(target), generator), side, side)
        loss = reconstruction_loss(made.float(), target)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        average.update(model, step)
        if step % 100 == 0:
            run.log(loss=round(loss.item(), 4), samples=(step + 1) * batch)
        if step % 1000 == 999:
            evaluate(run, average, held_out)
        run.save(**states())
    run.save(force=True, **states())
    evaluate(run, average, held_out)


@torch.no_grad()
def evaluate(run: Run, average: Average, held_out: Tensor) -> None:
    """PSNR of unseen scenes through their bits, and how sure the bits are."""
    model = BinaryTokenizer(POCKET_TOKENIZER).to(held_out.device)
    model.load_state_dict(average.state)
    side = SIDE // POCKET_TOKENIZER.patch
    logits = model.logits(held_out)
    made = model.decode((logits > 0).float(), side, side)
    sure = (logits.sigmoid() - 0.5).abs().mean().item() * 2
    ones = (logits > 0).float().mean().item()
    run.log(psnr=round(psnr(made, held_out), 2), sure=round(sure, 3), ones=round(ones, 3))
    run.sheet("psnr", torch.cat([held_out[:16], made[:16]]) / 2 + 0.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/tokenizer"))
    parser.add_argument("--start-from", type=Path, help="run whose weights to begin with")
    parser.add_argument("--steps", type=int, default=40_000)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--batch", type=int, default=24)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--only-decoder", action="store_true", help="keep the bits as they are")
    parser.add_argument("--compile", action="store_true", help="fuse operations: quicker after two "
        "minutes (needs a C++ compiler)")  # fmt: skip
    args = parser.parse_args()
    run = Run(args.out, args.steps, args.minutes * 60)
    train(run, args.seed, args.batch, args.lr, args.start_from, args.compile,
          args.only_decoder)  # fmt: skip


if __name__ == "__main__":
    main()
