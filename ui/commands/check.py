"""Verify downloaded weights: names, shapes, values, one test picture."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--variant", required=True, help="see `variants`")
    parser.add_argument(
        "--weights", type=Path, help="folder with its files; without it, where the product looks"
    )


def run(options: argparse.Namespace, check_weights: Callable[[str, Path | None], Any]) -> int:
    """`check_weights` answers with a report that has `ok` and prints as words."""
    try:
        report = check_weights(options.variant, options.weights)
    except KeyError as error:
        print(error.args[0])
        return 2
    print(report)
    return 0 if report.ok else 1
