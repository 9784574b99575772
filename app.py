"""Nitro Canvas: type a prompt, and a picture is drawn step by step.

    python app.py                                 serve the page
    python app.py generate "a fox" --out fox.png  draw one picture
    python app.py batch prompts.txt --out DIR     draw many, interruptible
    python app.py grid "a fox" --x AXIS --y AXIS  settings against each other, on one sheet
    python app.py variants --json                 what can be drawn with, and whether it is here
    python app.py check --variant X --weights DIR verify downloaded weights

Settings become an engine, the engine a page; everything else is in `ui/`, `engine/`, `models/`.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.engine import Engine

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")  # progress goes to page and terminal


def main(arguments: list[str] | None = None) -> int:
    from ui.commands import batch, check, generate, grid, serve, variants

    parser = argparse.ArgumentParser(
        prog="app.py", description="Nitro Canvas: a playground that draws while you type."
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for command in (serve, generate, batch, grid, variants, check):
        name = command.__name__.rpartition(".")[2]
        help_text = (command.__doc__ or "").splitlines()[0]
        command.add_options(commands.add_parser(name, help=help_text, description=help_text))
    serve.add_options(parser)  # without a command: serve
    options = parser.parse_args(arguments)
    try:
        match options.command:
            case "generate":
                return generate.run(options, make_engine)
            case "batch":
                return batch.run(options, make_engine)
            case "grid":
                return grid.run(options, make_engine)
            case "variants":
                from models.catalogue import CATALOGUE
                from models.sources import Sources, weights_place

                sources = Sources.from_environment()
                return variants.run(options, CATALOGUE, lambda v: weights_place(v, sources))
            case "check":
                from models.check import check_weights

                return check.run(options, check_weights)
            case _:
                return serve.run(options, make_engine)
    except KeyboardInterrupt:
        return 130


def make_engine(
    variant_ids: list[str] | None = None, every_preview: bool = False, max_batch: int | None = None
) -> Engine:
    """The engine for this machine.

    Without ids: those of NITRO_VARIANTS ("all" for every one), else the embedded variants and,
    where NITRO_WEIGHTS says where weights come from, the published ones too (not those for
    research only). Nothing is downloaded unasked. `every_preview`: a preview of each step, whatever it costs. `max_batch`:
    pictures that share a step, if not as many as suit the device.
    """
    from engine.engine import Engine
    from engine.limits import EngineLimits
    from models.choice import ACCEPT, NotServed, choose_variants
    from models.loading import Loader
    from models.precision import weights_budget
    from models.sources import Sources

    sources = Sources.from_environment()
    if not variant_ids:
        wished = os.environ.get("NITRO_VARIANTS", "")
        variant_ids = [name.strip() for name in wished.split(",") if name.strip()]
    try:
        chosen = choose_variants(
            variant_ids,
            weights_given=bool(sources.weights),
            random=sources.random,
            accepted=os.environ.get(ACCEPT) == "accepted",
        )
    except NotServed as refused:
        raise SystemExit(str(refused)) from None
    loader = Loader(sources)
    memory = os.environ.get("NITRO_MEMORY_GB")
    limits = EngineLimits(
        max_batch=max_batch or (8 if loader.device.type == "cpu" else 32),
        memory_bytes=int(float(memory) * 1e9) if memory else weights_budget(loader.device),
        preview_share=1e6 if every_preview else EngineLimits.preview_share,
    )
    return Engine(loader.load, chosen, device=loader.device, limits=limits)


if __name__ == "__main__":
    sys.exit(main())
