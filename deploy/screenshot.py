"""Take the README's picture of the page: a real server, a real browser, a real prompt.

python -m deploy.screenshot [--out assets/readme/page.png] [--dark] [--width 1280]
"""

from __future__ import annotations

import argparse
import os
import shutil
from pathlib import Path

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")


def main() -> None:
    from playwright.sync_api import sync_playwright

    from app import make_engine
    from ui.serve import serve

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--out", type=Path, default=Path("assets/readme/page.png"))
    parser.add_argument("--prompt", default="a fox on a blue background")
    parser.add_argument("--dark", action="store_true")
    parser.add_argument("--width", type=int, default=1280)
    parser.add_argument("--height", type=int, default=800)
    options = parser.parse_args()
    engine = make_engine()
    engine.wait_ready(120)
    server = serve(engine, port=None, quiet=True)
    with sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path=os.environ.get("CHROMIUM") or shutil.which("chromium"),
            args=["--no-sandbox", "--disable-gpu"],
        )
        page = browser.new_page(
            viewport={"width": options.width, "height": options.height},
            color_scheme="dark" if options.dark else "light",
            device_scale_factor=1.5,
        )
        page.goto(server.address)
        page.wait_for_selector(".nc-stage[data-ready=yes]")
        page.click("#nc-prompt textarea")
        page.keyboard.type(options.prompt, delay=30)
        page.wait_for_selector(f'.nc-stage[data-state=finished][data-shown="{options.prompt}"]')
        page.wait_for_timeout(600)
        options.out.parent.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=options.out)
        browser.close()
    server.close()
    engine.close()


if __name__ == "__main__":
    main()
