"""Draw two or three settings against each other into one sheet."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from engine.events import Failed, Finished, Pixels
from engine.requests import GenerationRequest, InvalidRequest
from ui.commands.options import add_sampling_options, sampling
from ui.commands.terminal import say, wait_until_ready
from ui.grid.axes import TITLES, parse_axis
from ui.grid.cells import Grid, Place, plan_grid, steps
from ui.grid.sheet import sheet


def add_options(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument(
        "prompt", nargs="?", default="", help="what to draw in every cell, unless that is an axis"
    )
    for name, place in (("x", "across"), ("y", "down"), ("z", "from table to table")):
        parser.add_argument(
            f"--{name}",
            required=name != "z",
            metavar="AXIS",
            help=f'{place}: "ar_iterations: 4-20 step 4", "prompt: a fox | a cat"; '
            f"one of {', '.join(TITLES)}",
        )
    parser.add_argument("--out", type=Path, default=Path("grid.png"), help="PNG (grid.png)")
    parser.add_argument("--variant", default="pocket-ar", help="see `variants`")
    parser.add_argument("--seed", type=int, default=0, help="default: 0")
    add_sampling_options(parser)


def run(options: argparse.Namespace, make_engine: Callable[..., Any]) -> int:
    """0: every cell that is possible was drawn; 1: some were not; 2: refused."""
    base = GenerationRequest(
        options.prompt,
        options.variant,
        options.seed,
        **sampling(options),
        preview_every=0,
        preview="off",
    )
    try:
        axes = [parse_axis(text) for text in (options.x, options.y, options.z) if text]
        grid = plan_grid(axes, base)
    except InvalidRequest as error:
        print(error, file=sys.stderr)
        return 2
    engine = make_engine(sorted({cell.request.variant for cell in grid.cells}))
    pictures: dict[Place, Pixels] = {}
    try:
        wait_until_ready(engine)
        measured = engine.status().step_ms
        grid = plan_grid(axes, base, lambda r: steps(r) * measured.get(r.variant, 1.0))
        _draw(engine, grid, pictures)
    except KeyboardInterrupt:
        say("")
        print("Stopped; what is drawn goes into the sheet.", file=sys.stderr)
    finally:
        engine.close()
    if not pictures:
        print("No cell was drawn, so there is no sheet.", file=sys.stderr)
        return 1
    try:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_bytes(sheet(grid, pictures))
    except OSError as error:
        print(f"The sheet could not be written: {error}.", file=sys.stderr)
        return 1
    print(f"{options.out}: {len(pictures)} of {grid.size} cells")
    return 0 if len(pictures) == len(grid.cells) else 1


def _draw(engine: Any, grid: Grid, pictures: dict[Place, Pixels]) -> None:
    """Every cell at once, for the engine to batch; the cheapest are first in its line."""
    jobs = [engine.submit(cell.request, "grid", str(n)) for n, cell in enumerate(grid.cells)]
    for cell, job in zip(grid.cells, jobs, strict=True):
        for event in job.events():
            if isinstance(event, Finished):
                pictures[cell.place] = event.image
                say(f"{len(pictures)} of {len(jobs)}")
            elif isinstance(event, Failed):
                say("")
                words = ", ".join(
                    f"{axis.title} {axis.labels()[n]}"
                    for axis, n in zip(grid.axes, cell.place, strict=True)
                )
                print(f"{words}: {event.message}", file=sys.stderr)
    say("")
