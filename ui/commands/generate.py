"""Draw one picture into a file."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from engine.events import Failed, Finished, Pixels, Queued, Step, Superseded
from engine.requests import GenerationRequest, InvalidRequest
from ui.commands.options import add_sampling_options, sampling
from ui.commands.terminal import say, wait_until_ready
from ui.metadata import png


def add_options(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("prompt", help="what to draw")
    parser.add_argument(
        "--out", type=Path, default=Path("picture.png"), help="PNG to write (picture.png)"
    )
    parser.add_argument("--steps-out", type=Path, metavar="DIR", help="write every step's frame")
    parser.add_argument("--variant", default="pocket-ar", help="see `variants`")
    parser.add_argument("--seed", type=int, default=0, help="default: 0")
    add_sampling_options(parser)


def run(options: argparse.Namespace, make_engine: Callable[..., Any]) -> int:
    """`make_engine` takes the variants to load, and whether every step is worth a preview."""
    try:
        request = GenerationRequest(
            prompt=options.prompt,
            variant=options.variant,
            seed=options.seed,
            **sampling(options),
            preview_every=1 if options.steps_out else 0,
            preview="auto" if options.steps_out else "off",
        ).resolved()
    except InvalidRequest as error:
        return _fail(str(error))
    engine = make_engine([request.variant], every_preview=options.steps_out is not None)
    try:
        return _draw(engine, request, options.out, options.steps_out)
    finally:
        engine.close()


def _draw(engine: Any, request: GenerationRequest, out: Path, steps_out: Path | None) -> int:
    wait_until_ready(engine)
    frames: list[tuple[int, Pixels]] = []  # written at the end: encoding here would lose steps
    end: Finished | None = None
    for event in engine.submit(request, "command-line").events():
        if isinstance(event, Queued) and event.position:
            say(f"waiting, {event.position} before this one")
        elif isinstance(event, Step):
            say(f"step {event.index}/{event.total}")
            if event.preview is not None:
                frames.append((event.index, event.preview))
        elif isinstance(event, Failed):
            return _fail(event.message)
        elif isinstance(event, Superseded):
            return _fail("The picture was stopped.")
        elif isinstance(event, Finished):
            end = event
    if end is None:
        return _fail("The picture did not finish.")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_bytes(png(end.image, end.settings))
        if steps_out is not None:
            steps_out.mkdir(parents=True, exist_ok=True)
            frames = [frame for frame in frames if frame[0] < end.steps]
            frames.append((end.steps, end.image))  # the last step's frame is the picture
            for index, pixels in frames:
                name = steps_out / f"step-{index:03d}.png"
                name.write_bytes(png(pixels, {**end.settings, "step": index}))
    except OSError as error:
        return _fail(f"The picture could not be written: {error}.")
    say("")
    print(f"{out}: seed {end.seed}, {end.steps} steps, {end.timings.total_ms:.0f} ms")
    if steps_out is not None:
        print(f"{steps_out}: {len(frames)} of {end.steps} steps' frames")
    return 0


def _fail(message: str) -> int:
    say("")
    print(message, file=sys.stderr)
    return 1
