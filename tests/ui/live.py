"""A visitor in a real browser: opens the page, types with real keys, looks at the canvas."""

from __future__ import annotations

import json
from urllib.parse import urlsplit

from tests.ui.world import is_of

STAGE = ".nc-stage"
PROMPT = "#nc-prompt textarea"
# Chromium's notes, the second one about this test's own reading of pixels
QUIET = ("Autofocus processing was blocked", "Canvas2D: Multiple readback")


class Live:
    """A visitor's page, and what went wrong on it."""

    def __init__(self, page, site, draft: bool = False):
        """`draft`: as the page comes; without, a slow machine asks for no more than a quick one."""
        self.page, self.site, self.draft = page, site, draft
        self.complaints: list[str] = []
        self.hosts: set[str] = set()
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", self._request)
        self.open()

    def _console(self, message) -> None:
        bad = message.type in ("error", "warning")
        if bad and not message.text.startswith(QUIET):
            self.complaints.append(message.text)

    def _request(self, request) -> None:
        if not request.url.startswith(("blob:", "data:")):  # the page's own memory
            self.hosts.add(urlsplit(request.url).netloc)

    def open(self) -> None:
        self.page.goto(self.site.address)
        self.page.wait_for_selector(f"{STAGE}[data-ready=yes]", timeout=20_000)
        if not self.draft:
            self.evaluate("window.nitro.push({ draft: false })")

    def type(self, text: str, delay: float = 10) -> None:
        self.page.click(PROMPT)
        self.page.keyboard.type(text, delay=delay)

    def wait(self, state: str = "finished", shown: str | None = None) -> None:
        selector = f'{STAGE}[data-state="{state}"]'
        if shown is not None:
            selector += f"[data-shown={json.dumps(shown, ensure_ascii=False)}]"
        self.page.wait_for_selector(selector, timeout=10_000)

    def evaluate(self, script: str, argument=None):
        return self.page.evaluate(script, argument)

    def colour(self) -> tuple[float, ...]:
        """The canvas's mean colour."""
        return tuple(
            self.evaluate(
                "(() => { const c = document.querySelector('.nc-picture');"
                "const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
                "const sum = [0, 0, 0]; d.forEach((v, i) => { if (i % 4 < 3) sum[i % 4] += v; });"
                "return sum.map((v) => 4 * v / d.length); })()"
            )
        )

    def shows(self, prompt: str) -> bool:
        """Whether the canvas holds this prompt's finished picture."""
        return is_of(self.colour(), prompt)

    def time_the_last_key(self, prompt: str) -> None:
        """From now on, note the last key and the first painted frame of this prompt."""
        self.evaluate(
            "(prompt) => { const box = document.querySelector('#nc-prompt textarea');"
            "box.addEventListener('keydown', () => { window.lastKey = performance.now(); });"
            "new MutationObserver(() => { if (nitro.stage.root.dataset.shown === prompt)"
            "window.firstFrame ??= performance.now(); }).observe(nitro.stage.root,"
            "{ attributes: true, attributeFilter: ['data-shown'] }); }",
            prompt,
        )

    def last_key_to_first_frame(self) -> float:
        """Milliseconds."""
        return self.evaluate("window.firstFrame - window.lastKey")

    def overlay_pixels(self) -> int:
        return self.evaluate(
            "(() => { const c = document.querySelector('.nc-overlay');"
            "const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
            "let n = 0; for (let i = 3; i < d.length; i += 4) n += d[i] > 0; return n; })()"
        )

    def status(self) -> str:
        return self.page.inner_text(".nc-status")

    def set_slow(self, iterations: int = 60) -> None:
        self.evaluate(f"window.nitro.push({{ ar_iterations: {iterations} }})")
        self.page.wait_for_timeout(60)
