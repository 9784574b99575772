"""Options that several commands have."""

from __future__ import annotations

import argparse
from typing import Any


def add_sampling_options(parser: argparse.ArgumentParser) -> None:
    """How a picture is drawn; the names are those of `GenerationRequest`."""
    own = "default: the variant's own"
    parser.add_argument("--ar-iterations", type=int, help=f"rounds of committing tokens; {own}")
    parser.add_argument("--flow-steps", type=int, help=f"from noise to a token; {own}")
    parser.add_argument("--cfg-scale", type=float, help=f"pull of the prompt, 1 = off; {own}")
    parser.add_argument("--cfg-schedule", choices=("constant", "linear"), default="constant")
    parser.add_argument("--temperature", type=float, default=1.0, help="of the noise; default: 1")


def sampling(options: argparse.Namespace) -> dict[str, Any]:
    """The request's settings that `add_sampling_options` asks for; None = the variant's own."""
    names = ("ar_iterations", "flow_steps", "cfg_scale", "cfg_schedule", "temperature")
    return {name: getattr(options, name) for name in names}
