"""Verify downloaded weights: names, shapes, values, one test picture."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--variant", required=True, help="see `variants`")
    parser.add_argument("--weights", type=Path, required=True, help="folder with its files")


def run(options: argparse.Namespace, check_weights: Callable[[str, Path], Any]) -> int:
    """`check_weights` answers with a report that has `ok` and prints as words."""
    report = check_weights(options.variant, options.weights)
    print(report)
    return 0 if report.ok else 1
