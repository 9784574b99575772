"""The page in a real browser, on a server of its own: what the README's pictures are taken from."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")


@contextmanager
def visit(width: int, height: int, dark: bool = False, scale: float = 1.5) -> Iterator[Any]:
    """Playwright's page, ready to be typed on."""
    from playwright.sync_api import sync_playwright

    from app import make_engine
    from ui.serve import serve

    engine = make_engine()
    engine.wait_ready(120)
    server = serve(engine, port=None, quiet=True)
    try:
        with sync_playwright() as started:
            browser = started.chromium.launch(
                executable_path=os.environ.get("CHROMIUM") or shutil.which("chromium"),
                args=["--no-sandbox", "--disable-gpu"],
            )
            page = browser.new_page(
                viewport={"width": width, "height": height},
                color_scheme="dark" if dark else "light",
                device_scale_factor=scale,
            )
            page.goto(server.address)
            page.wait_for_selector(".nc-stage[data-ready=yes]")
            yield page
            browser.close()
    finally:
        server.close()
        engine.close()


def draw(page: Any, prompt: str, delay_ms: float = 30) -> None:
    """Type a prompt in place of the one that is there, and wait for its picture."""
    page.click("#nc-prompt textarea")
    page.keyboard.press("Control+A")
    page.keyboard.type(prompt, delay=delay_ms)
    page.wait_for_selector(f'.nc-stage[data-state=finished][data-shown="{prompt}"]')
