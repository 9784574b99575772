"""List the variants and whether their weights are here."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any


def add_options(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("--json", action="store_true", help="for programs")


def run(
    options: argparse.Namespace, catalogue: Sequence[Any], weights_place: Callable[[Any], str]
) -> int:
    """`weights_place` says of a variant where its weights would come from, loading nothing."""
    entries = [{**asdict(v), "weights": weights_place(v)} for v in catalogue]
    if options.json:
        print(json.dumps({"variants": entries}, indent=2, ensure_ascii=False))
        return 0
    width = max(len(entry["id"]) for entry in entries)
    for entry in entries:
        print(f"{entry['id']:{width}}  {entry['weights']}")
        print(f"{'':{width}}  {entry['summary']}")
    return 0
