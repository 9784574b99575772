"""Stage 6: scenes as rows of binary tokens, and what pocket-instella learns from them.

    python -m training.bits --tokenizer runs/tokenizer --out runs/bits.pt

The result is a training set like that of `latents`; a bit is a channel there. The generators learn
binary cross-entropy: of the next token's bits, or of which bits of a noised row are wrong.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import torch
from torch import Tensor
from torch.nn import functional as F

from models.instella.autoregressive import BitAR
from models.instella.config import POCKET_TOKENIZER
from models.instella.diffusion import BitDiffusion
from models.instella.noise import noised
from models.instella.tokenizer import BinaryTokenizer
from models.precision import pick_device
from training.loop import autocast, averaged
from training.tokenizer import SIDE, as_batch
from training.world.scenes import WorldConfig, draw_scene

MOST_WRONG = 0.08  # share of the bits before a token that may be wrong while training


def load_tokenizer(run: Path) -> BinaryTokenizer:
    """The averaged tokenizer of a training run."""
    model = BinaryTokenizer(POCKET_TOKENIZER)
    model.load_state_dict(averaged(run))
    return model.eval().requires_grad_(False)


def tokenizer_decoder(run: Path) -> Callable[[Tensor], Tensor]:
    """Bits [N, bits, tokens, 1] to pictures in -1..1."""
    model, side = load_tokenizer(run), SIDE // POCKET_TOKENIZER.patch
    return lambda bits: model.decode(bits[:, :, :, 0].mT, side, side)


def ar_loss(model: BitAR, bits: Tensor, text: Tensor, generator: torch.Generator) -> Tensor:
    """Cross-entropy of every token [B, tokens, bits] given those before it.

    Some bits of what comes before are flipped, up to `MOST_WRONG` of a row: when drawing, the
    model reads its own mistakes too.
    """
    share = MOST_WRONG * torch.rand(len(bits), 1, 1, generator=generator)
    wrong = torch.rand(bits.shape, generator=generator) < share
    before = (bits - wrong.to(bits)).abs()[:, :-1]
    logits = model(before, model.remember_batch(text))
    return F.binary_cross_entropy_with_logits(logits.float(), bits)


def flip_loss(
    model: BitDiffusion, bits: Tensor, text: Tensor, generator: torch.Generator
) -> Tensor:
    """Cross-entropy of which bits are wrong, at a time that is the logistic of a normal number."""
    times = torch.sigmoid(torch.randn(len(bits), generator=generator)).to(bits)
    chance = noised(bits, times[:, None, None])
    z = (torch.rand(bits.shape, generator=generator).to(bits) < chance).float()
    logits = model(z, model.modulation(times), model.remember_batch(text))
    return F.binary_cross_entropy_with_logits(logits.float(), (z != bits).float())


@torch.no_grad()
def build(tokenizer: Path, out: Path, count: int, seed: int, config: WorldConfig) -> None:
    """Draw and encode scenes, `count` of them."""
    device = pick_device()
    model = load_tokenizer(tokenizer).to(device)
    rows, scenes, batch, started = [], [], 64, time.monotonic()
    for first in range(0, count, batch):
        drawn = [
            draw_scene(Random(f"{seed}:{first + k}"), config)
            for k in range(min(batch, count - first))
        ]
        with autocast(device):
            logits = model.logits(as_batch(drawn).to(device))
        rows.append((logits > 0).half().cpu())
        scenes += [dataclasses.asdict(scene) for scene in drawn]
        if first // batch % 50 == 0:
            rate = len(scenes) / (time.monotonic() - started)
            print(f"bits {len(scenes)}/{count}, {rate:.0f} a second", flush=True)
    tokens = torch.cat(rows)
    out.parent.mkdir(parents=True, exist_ok=True)
    nothing = torch.zeros(count, tokens.shape[2], dtype=torch.half)  # no global token here
    torch.save(
        {"tokens": tokens, "thumbnails": nothing, "scale": 1.0, "scenes": json.dumps(scenes)}, out
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokenizer", type=Path, default=Path("runs/tokenizer"))
    parser.add_argument("--out", type=Path, default=Path("runs/bits.pt"))
    parser.add_argument("--count", type=int, default=60_000)
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--weights", type=float, nargs=6, default=WorldConfig.weights)
    args = parser.parse_args()
    build(args.tokenizer, args.out, args.count, args.seed, WorldConfig(weights=tuple(args.weights)))


if __name__ == "__main__":
    main()
