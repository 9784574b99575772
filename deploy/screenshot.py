"""Take the README's picture of the page: a real server, a real browser, a real prompt.

python -m deploy.screenshot [--out assets/readme/page.png] [--dark] [--width 1280]
"""

from __future__ import annotations

import argparse
from pathlib import Path

from deploy.visit import draw, visit


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--out", type=Path, default=Path("assets/readme/page.png"))
    parser.add_argument("--prompt", default="a fox on a blue background")
    parser.add_argument("--dark", action="store_true")
    parser.add_argument("--width", type=int, default=1280)
    parser.add_argument("--height", type=int, default=860)
    options = parser.parse_args()
    with visit(options.width, options.height, options.dark) as page:
        draw(page, options.prompt)
        page.wait_for_timeout(600)
        options.out.parent.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=options.out)


if __name__ == "__main__":
    main()
