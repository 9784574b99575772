"""Verify downloaded weights: names, shapes, values, one test picture."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ui.metadata import png


def add_options(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("--variant", required=True, help="see `variants`")
    parser.add_argument(
        "--weights", type=Path, help="folder with its files; without it, where the product looks"
    )
    parser.add_argument("--out", type=Path, help="write the test picture to this PNG")


def run(options: argparse.Namespace, check_weights: Callable[..., Any]) -> int:
    """`check_weights` answers with a report that has `ok`, a picture, and prints as words."""

    def progress(part: float, what: str) -> None:
        print(f"\r{100 * part:3.0f} %  {what:<60}", end="", file=sys.stderr, flush=True)

    try:
        report = check_weights(options.variant, options.weights, progress=progress)
    except KeyError as error:
        print(error.args[0])
        return 2
    print(file=sys.stderr)
    print(report)
    if options.out is not None and report.picture is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_bytes(png(report.picture, {"variant": options.variant}))
        print(f"The test picture is in {options.out}.")
    return 0 if report.ok else 1
