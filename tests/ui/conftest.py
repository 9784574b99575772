"""One server for all tests of the page, and a browser for those that ask."""

from __future__ import annotations

import os
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pytest

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")

import app
from engine.engine import Engine
from tests.ui.live import Live
from tests.ui.world import PageWorld, start
from ui.guard import Guard, RateLimit

CHROMIUM_ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@dataclass
class Site:
    """A served page, and the engine behind it."""

    address: str
    engine: Engine

    @property
    def steps(self) -> int:
        """Taken since the start."""
        return self.engine.status().counters.steps

    def rests(self, seconds: float = 15) -> bool:
        """Whether soon nothing is drawn or waits; on an idle machine that is at once."""
        end = time.monotonic() + seconds
        while (status := self.engine.status()).waiting or status.running:
            if time.monotonic() > end:
                return False
            time.sleep(0.02)
        return True

    @property
    def asked(self) -> int:
        """Pictures asked for since the start."""
        return self.engine.status().counters.submitted


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def serving(engine: Engine, guard: Guard | None = None, **launch: Any) -> Iterator[Site]:
    """The whole page, Gradio's server included."""
    from ui.serve import serve

    server = serve(engine, port=free_port(), quiet=True, guard=guard or generous(), **launch)
    try:
        yield Site(server.address, engine)
    finally:
        server.close()


def generous() -> Guard:
    """For tests, which all come from one address."""
    return Guard(addresses=RateLimit(1000, 10_000), openings=RateLimit(1000, 10_000))


@pytest.fixture(scope="session")
def site() -> Iterator[Site]:
    with start(PageWorld()) as engine, serving(engine) as made:
        yield made


@pytest.fixture(scope="module")
def context(tmp_path_factory) -> Iterator:
    """A browser with a profile on disk, so that it compiles the page's scripts once only.

    Debian's Chromium where there is one, else Playwright's own. Closed after each module: while
    it runs, this thread has a running event loop.
    """
    playwright = pytest.importorskip("playwright.sync_api")
    path = os.environ.get("CHROMIUM") or shutil.which("chromium")
    with playwright.sync_playwright() as started:
        try:
            launched = started.chromium.launch_persistent_context(
                tmp_path_factory.getbasetemp() / "profile",
                executable_path=path,
                args=CHROMIUM_ARGUMENTS,
                viewport={"width": 1280, "height": 860},
            )
        except playwright.Error as error:
            if os.environ.get("CI"):
                raise  # there it is part of the machine; here somebody may do without
            pytest.skip(f"No browser can be started: {error}")
        yield launched
        launched.close()


@pytest.fixture
def page(context) -> Iterator:
    """A new tab that remembers nothing of earlier ones, but keeps its own over a reload."""
    made = context.new_page()
    made.add_init_script(
        "if (!sessionStorage.kept) { localStorage.clear(); sessionStorage.kept = 1; }"
    )
    yield made
    made.close()


@pytest.fixture
def live(page, site) -> Iterator[Live]:
    """A visitor's page, on which nothing may go wrong."""
    visit = Live(page, site)
    yield visit
    assert not visit.complaints
    assert visit.hosts == {urlsplit(site.address).netloc}


@pytest.fixture
def engines(monkeypatch):
    """Answers `app.make_engine` for batches; holds what was asked of it, and the worlds."""
    calls: list[tuple] = []

    def make(variant_ids=None, every_preview=False, max_batch=None):
        world = PageWorld(step_s=0.004)
        calls.append((variant_ids, max_batch, world))
        return start(world, variant_ids, wait=False, max_batch=max_batch or 4)

    monkeypatch.setattr(app, "make_engine", make)
    return calls
