"""`app.py` with a model that costs nothing, as a process of its own, to be killed:

python -m tests.ui.batch_child SECONDS_PER_STEP batch prompts.txt --out DIR
"""

from __future__ import annotations

import sys
from typing import Any

import app
from tests.ui.world import PageWorld, start

MAX_BATCH = 2


def main(step_s: str, *arguments: str) -> int:
    def make(variant_ids: Any = None, every_preview: bool = False, max_batch: Any = None) -> Any:
        world = PageWorld(float(step_s))
        return start(world, variant_ids, wait=False, max_batch=max_batch or MAX_BATCH)

    app.make_engine = make
    return app.main(list(arguments))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
