"""All published variants beside other people's few-step models, on this machine.

    python -m benchmarks.compare [--only nitro-e-dist,SD-Turbo] [--runs 3] [--json]

Random weights at full size: nothing is downloaded. A picture is everything after the prompt's
embedding: backbone, heads, guidance, decoding, at each model's usual steps. One process draws all of
them, in turn, so that a drifting machine hits all alike; times are medians.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.peers import PEERS
from models.catalogue import CATALOGUE
from models.contracts import SampleSettings
from models.loading import Loader
from models.sources import Sources


@dataclass(frozen=True)
class Row:
    """One model's line of the table. `calls`: forward passes of the backbone, guidance batched."""

    name: str
    pixels: int
    parameters_m: float  # of the backbone with its heads
    calls: int
    gflop: float
    latency_ms: float


def _variant(
    name: str, device: torch.device
) -> tuple[int, nn.Module, nn.Module, Callable[[], object]]:
    """Side in pixels, the whole model, the module whose calls are counted, and a picture."""
    loaded = Loader(Sources(weights="random"), device).load(name)
    variant, sampler = loaded.variant, loaded.sampler
    rows = loaded.text.encode(["a fox on a blue background", ""])
    empty = sampler.prompt_context(rows[1])  # of the process, so its first pass is kept
    settings = SampleSettings(
        0, variant.ar_iterations.default, variant.flow_steps.default, variant.cfg_scale
    )

    @torch.inference_mode()
    def draw() -> object:
        state = sampler.start(settings, sampler.prompt_context(rows[0]), empty)
        for _ in range(sampler.num_steps(state)):
            sampler.advance([state])
        return loaded.autoencoder.decode(sampler.latent(state)[None])

    (model,) = loaded.own
    # All of a pass goes through the middle group; its first block stands for the pass.
    block = "transformer_blocks.0.attn.o_proj" if variant.tokens else "block_groups.1.0"
    return variant.resolution, model, model.get_submodule(block), draw


def _peer(
    name: str, device: torch.device
) -> tuple[int, nn.Module, nn.Module, Callable[[], object]]:
    peer = PEERS[name]()
    peer.backbone.to(device)
    peer.decoder.to(device)
    return 512, peer.backbone, peer.backbone, peer.draw


def measure(name: str, runs: int, device: torch.device) -> Row:
    """Build, warm up, count one picture, then time."""
    make = _peer if name in PEERS else _variant
    pixels, model, counted, draw = make(name, device)
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    draw()
    hook = counted.register_forward_hook(count)
    with FlopCounterMode(display=False) as counter:
        draw()
    hook.remove()
    seconds = []
    for _ in range(runs):
        begin = time.perf_counter()
        draw()
        if device.type == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begin)
    parameters = sum(parameter.numel() for parameter in model.parameters()) / 1e6
    gflop = counter.get_total_flops() / 1e9
    row = Row(
        name, pixels, round(parameters), calls, round(gflop), 1000 * statistics.median(seconds)
    )
    gc.collect()
    return row


def table(rows: list[Row]) -> str:
    """Markdown, quickest first."""
    lines = [
        "| model | px | backbone, M | backbone calls | GFLOP | latency |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for row in sorted(rows, key=lambda row: row.latency_ms):
        lines.append(
            f"| {row.name} | {row.pixels} | {row.parameters_m:.0f} | {row.calls} | {row.gflop:,.0f} "
            f"| {row.latency_ms / 1000:.2f} s |"
        )
    return "\n".join(lines)


def main() -> None:
    published = [variant.id for variant in CATALOGUE if not variant.embedded]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--only", help="names of variants and peers, separated by commas")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    device = Loader(Sources()).device
    names = args.only.split(",") if args.only else [*published, *PEERS]
    if unknown := sorted(set(names) - {variant.id for variant in CATALOGUE} - set(PEERS)):
        parser.error(f"unknown: {', '.join(unknown)}. Known: {', '.join([*published, *PEERS])}")
    rows = []
    for name in names:
        rows.append(measure(name, args.runs, device))
        print(f"{name}: {rows[-1].latency_ms / 1000:.2f} s", flush=True)
    print(json.dumps([asdict(row) for row in rows], indent=2) if args.json else table(rows))


if __name__ == "__main__":
    main()
