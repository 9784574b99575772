"""What the figures in `models.costs` are counted with, and the table to paste there.

    python -m benchmarks.flop_parts [--variants pocket-ar,...]

A picture's arithmetic grows with its AR iterations, its flow steps and their product. Counting it
at four settings gives the four coefficients.
"""

from __future__ import annotations

import argparse
from typing import Any

import torch

from benchmarks.flop_bits import POCKET_WORDS, WORDS, bits_decode
from benchmarks.flop_stages import META, gflop
from benchmarks.flops import latent_decode
from models.catalogue import CATALOGUE, Variant, find_variant
from models.contracts import SampleSettings
from models.costs import Cost
from models.instella.autoregressive import BitAR
from models.instella.diffusion import BitDiffusion
from models.loading import NITRO_TOKENS, POCKET_TOKENS, build, sampler_of


class Drawing:
    """A variant at full size without weights."""

    def __init__(self, variant: Variant) -> None:
        self.variant = variant
        with META:
            model = build(variant.id).eval().requires_grad_(False)
        model.to(META)  # position tables are built for real
        self.sampler: Any = sampler_of(model)
        if isinstance(model, BitDiffusion | BitAR):
            words = POCKET_WORDS if variant.embedded else WORDS
            self.text = torch.empty(words, model.config.text_width, device=META)
        else:
            rows = POCKET_TOKENS if variant.text_encoder == "pocket" else NITRO_TOKENS
            self.text = torch.empty(rows, model.config.text_width, device=META)

    def gflop(self, iterations: int, steps: int) -> float:
        """Of the generator, both branches of guidance, nothing kept from earlier pictures."""
        settings = SampleSettings(0, iterations, steps, cfg_scale=2.0)
        prompt, empty = (self.sampler.prompt_context(self.text) for _ in range(2))

        def draw() -> None:
            state = self.sampler.start(settings, prompt, empty)
            for _ in range(self.sampler.num_steps(state)):
                self.sampler.advance([state])

        return gflop(draw)

    def decode(self) -> float:
        return (bits_decode if self.variant.tokens else latent_decode)(self.variant)


def coefficients(variant: Variant) -> Cost:
    """Solved from four pictures, or fewer where a setting has no choice."""
    drawing = Drawing(variant)
    i0, i1 = (4, 8) if variant.ar_iterations.high > 1 else (1, 1)
    s0, s1 = (2, 4) if variant.flow_steps.high > 1 else (1, 1)
    a = drawing.gflop(i0, s0) / 2
    b = drawing.gflop(i0, s1) / 2 if s1 > s0 else a
    c = drawing.gflop(i1, s0) / 2 if i1 > i0 else a
    d = drawing.gflop(i1, s1) / 2 if s1 > s0 and i1 > i0 else b + c - a
    di, ds = i1 - i0 or 1, s1 - s0 or 1
    both = (d - c - b + a) / (di * ds)
    per_iteration, per_step = (c - a) / di - both * s0, (b - a) / ds - both * i0
    base = a - per_iteration * i0 - per_step * s0 - both * i0 * s0
    # What is left of rounding where a part does not depend on a setting.
    tidy = [0.0 if abs(x) < 1e-6 * a else x for x in (base, per_iteration, per_step, both)]
    return Cost(*(float(f"{x:.5g}") for x in (*tidy, drawing.decode())))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--variants", default=",".join(v.id for v in CATALOGUE))
    for name in parser.parse_args().variants.split(","):
        print(f'        "{name}": {coefficients(find_variant(name))!r},', flush=True)


if __name__ == "__main__":
    main()
