"""Draw a picture, or several, into files."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.events import Failed, Finished, Pixels, Queued, Step, Superseded
from engine.requests import GenerationRequest, InvalidRequest, Variant, find_variant
from ui.commands.options import add_sampling_options, sampling
from ui.commands.terminal import say, wait_until_ready
from ui.guard import Refusal
from ui.metadata import png
from ui.uploads import decode

OWNER = "command-line"


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
    parser.add_argument(
        "--count", type=int, default=1, help="pictures, seeds counting up; files are OUT-SEED.png"
    )
    parser.add_argument("--image", type=Path, help="picture to start from, any format Pillow reads")
    parser.add_argument(
        "--mask", type=Path, help="picture whose white parts may change; default: all of --image"
    )
    parser.add_argument(
        "--strength", type=float, help="how much of --image may change, over 0 to 1"
    )


def run(options: argparse.Namespace, make_engine: Callable[..., Any]) -> int:
    """`make_engine` takes the variants to load, and whether every step is worth a preview."""
    try:
        if options.steps_out and options.count != 1:
            return _fail("--steps-out writes the steps of one picture; leave --count at 1.")
        image, free = _start(options)
        request = GenerationRequest(
            prompt=options.prompt,
            variant=options.variant,
            seed=options.seed,
            **sampling(options),
            preview_every=1 if options.steps_out else 0,
            preview="auto" if options.steps_out else "off",
            count=options.count,
            picture="" if image is None else "given",  # its name comes with the engine
            free=free,
            strength=options.strength,
        ).resolved()
    except (InvalidRequest, Refusal) as error:
        return _fail(str(error))
    engine = make_engine([request.variant], every_preview=options.steps_out is not None)
    try:
        if image is not None:
            request = replace(request, picture=engine.add_picture(image, OWNER))
        return _draw(engine, request, options.out, options.steps_out)
    finally:
        engine.close()


def _start(options: argparse.Namespace) -> tuple[Pixels | None, str]:
    """The picture to start from and its free cells. Raises `InvalidRequest` or `Refusal`."""
    if options.image is None:
        if options.mask is not None:
            raise InvalidRequest("--mask says what of a picture may change: give it with --image.")
        return None, ""
    variant = _variant(options.variant)
    image = decode(_read(options.image), variant.resolution).pixels
    if options.mask is None:
        return image, ""
    mask = decode(_read(options.mask), variant.resolution).pixels
    cell = variant.resolution // variant.grid
    white = mask.max(2).reshape(variant.grid, cell, variant.grid, cell).max((1, 3)) > 127
    return image, "".join("1" if each else "0" for each in white.flat)


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise InvalidRequest(f"{file} could not be read: {error.strerror}.") from None


def _variant(name: str) -> Variant:
    """A variant of the catalogue. Raises `InvalidRequest` for an unknown one."""
    try:
        return find_variant(name)
    except KeyError as error:
        raise InvalidRequest(error.args[0]) from None


def _draw(engine: Any, request: GenerationRequest, out: Path, steps_out: Path | None) -> int:
    wait_until_ready(engine)
    frames: list[tuple[int, Pixels]] = []  # written at the end: encoding here would lose steps
    many = request.count > 1
    for number, job in enumerate(engine.submit_many(request, OWNER), 1):
        end: Finished | None = None
        for event in job.events():
            if isinstance(event, Queued) and event.position:
                say(f"waiting, {event.position} before this one")
            elif isinstance(event, Step):
                of = f"picture {number}/{request.count}, " if many else ""
                say(f"{of}step {event.index}/{event.total}")
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
        file = out.with_stem(f"{out.stem}-{end.seed}") if many else out
        try:
            _write(end, file, frames, steps_out)
        except OSError as error:
            return _fail(f"The picture could not be written: {error}.")
        say("")
        print(f"{file}: seed {end.seed}, {end.steps} steps, {end.timings.total_ms:.0f} ms")
    if steps_out is not None:
        print(f"{steps_out}: {len(frames)} of {end.steps} steps' frames")
    return 0


def _write(
    end: Finished, out: Path, frames: list[tuple[int, Pixels]], steps_out: Path | None
) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_bytes(png(end.image, end.settings))
    if steps_out is None:
        return
    steps_out.mkdir(parents=True, exist_ok=True)
    # The last step's frame is the picture.
    frames[:] = [*(frame for frame in frames if frame[0] < end.steps), (end.steps, end.image)]
    for index, pixels in frames:
        name = steps_out / f"step-{index:03d}.png"
        name.write_bytes(png(pixels, {**end.settings, "step": index}))


def _fail(message: str) -> int:
    say("")
    print(message, file=sys.stderr)
    return 1
