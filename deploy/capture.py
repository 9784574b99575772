"""Record the README's animation: typing, going back and forking, repainting cells, as it happens.

python -m deploy.capture [--out assets/readme/live.webp]

The frames are screenshots of the page while it works, each shown as long as it took to the next.
"""

from __future__ import annotations

import argparse
import io
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from PIL import Image

from deploy.visit import visit

LONGEST_MS = 1500  # nothing stands still for longer


@dataclass
class Recorder:
    """Screenshots and when they were taken."""

    page: Any
    frames: list[Image.Image] = field(default_factory=list)
    times: list[float] = field(default_factory=list)

    def shoot(self) -> None:
        self.times.append(time.monotonic())
        data = self.page.screenshot(type="jpeg", quality=92)
        self.frames.append(Image.open(io.BytesIO(data)).convert("RGB"))

    def watch(self, seconds: float) -> None:
        """Go on recording for as long."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.shoot()

    def save(self, out: Path) -> None:
        gaps = [
            min(LONGEST_MS, round(1000 * (b - a)))
            for a, b in zip(self.times, self.times[1:], strict=False)
        ]
        out.parent.mkdir(parents=True, exist_ok=True)
        first, *others = self.frames
        first.save(
            out, save_all=True, append_images=others, duration=[*gaps, LONGEST_MS],
            loop=0, quality=72, method=4,
        )  # fmt: skip
        print(f"{out}: {len(self.frames)} frames, {out.stat().st_size / 1e6:.1f} MB")


def settle(record: Recorder) -> None:
    """Record until the picture is finished, and a moment longer."""
    while record.page.evaluate("Boolean(nitro.runs.current)"):
        record.shoot()
    record.watch(0.7)


def type_slowly(record: Recorder, text: str) -> None:
    for key in text:
        record.page.keyboard.type(key)
        record.shoot()


def perform(record: Recorder) -> None:
    page = record.page
    page.evaluate("nitro.push({ seed: 4, lock: true })")
    record.watch(0.6)
    page.click("#nc-prompt textarea")
    type_slowly(record, "a fox on a blue background")
    record.watch(0.5)
    settle(record)
    page.focus(".nc-scrub")
    for _ in range(9):
        page.keyboard.press("ArrowLeft")
        record.watch(0.12)
    for _ in range(2):
        page.keyboard.press("ArrowRight")
        record.watch(0.12)
    page.click(".nc-fork")
    record.watch(0.8)
    page.click("#nc-prompt textarea")
    page.keyboard.press("Control+A")
    type_slowly(record, "a tiger on a blue background")
    record.watch(0.5)
    settle(record)
    page.click("[data-choose=paint]")
    box = page.locator(".nc-mask").bounding_box()
    at = lambda x, y: (box["x"] + x * box["width"], box["y"] + y * box["height"])  # noqa: E731
    page.mouse.move(*at(0.3, 0.3))
    page.mouse.down()
    for n in range(8):
        page.mouse.move(*at(0.3 + 0.05 * n, 0.3 + 0.02 * (n % 3)), steps=2)
        record.shoot()
    page.mouse.up()
    record.watch(0.2)
    settle(record)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--out", type=Path, default=Path("assets/readme/live.webp"))
    options = parser.parse_args()
    with visit(1120, 800, scale=0.75) as page:
        record = Recorder(page)
        perform(record)
    record.save(options.out)


if __name__ == "__main__":
    main()
