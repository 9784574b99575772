"""What commands say while they work, on a line of its own that is overwritten."""

from __future__ import annotations

import sys
from typing import Any


def say(text: str) -> None:
    """Replace what was said before; nothing where nobody watches."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def wait_until_ready(engine: Any) -> None:
    """Until the variants are loaded, saying what is being done: a download can take minutes."""
    said = ""
    while not engine.wait_ready(0.5):
        busy = [v.message for v in engine.status().variants if v.state in ("waiting", "loading")]
        message = busy[0] if busy else ""
        if message != said:
            say(message)
            said = message
