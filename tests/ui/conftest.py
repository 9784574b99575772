"""One server with the fake engine for all tests of the page, and a browser for those that ask."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")

from tests.ui.fake_engine import FakeEngine

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
    address: str
    engine: FakeEngine


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="session")
def site() -> Iterator[Site]:
    from ui.serve import serve

    engine = FakeEngine()
    server = serve(engine, port=free_port(), quiet=True)
    yield Site(server.address, engine)
    server.close()
    engine.close()


@pytest.fixture(scope="module")
def browser():
    """Debian's Chromium where there is one, else Playwright's own.

    Closed after each module: while it runs, this thread has a running event loop.
    """
    playwright = pytest.importorskip("playwright.sync_api")
    path = os.environ.get("CHROMIUM") or shutil.which("chromium")
    with playwright.sync_playwright() as started:
        try:
            launched = started.chromium.launch(executable_path=path, args=CHROMIUM_ARGUMENTS)
        except playwright.Error as error:
            pytest.skip(f"No browser can be started: {error}")
        yield launched
        launched.close()
