"""Page and routes on one server: Gradio's own, because Spaces hooks into its `launch`."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import gradio as gr
from fastapi import FastAPI

from ui import page as live
from ui.api import Api
from ui.batch.desk import BatchDesk
from ui.batch.routes import BatchRoutes
from ui.fallback import Fallback
from ui.frontdesk import FrontDesk
from ui.guard import Guard
from ui.health import HealthRoutes
from ui.numbers.desk import NumbersDesk, measuring_allowed
from ui.numbers.routes import NumbersRoutes
from ui.results import ResultStore
from ui.stream import CanvasRoutes
from ui.theme import theme
from ui.uploads import UploadRoutes
from ui.votes.routes import VoteRoutes
from ui.votes.store import VoteStore, default_file

STYLES = ("page.css", "batch.css", "vote.css", "numbers.css")


class Server:
    """A running page. `address` is where, `block` waits until it is stopped."""

    def __init__(self, page: gr.Blocks, app: FastAPI, address: str, batches: BatchDesk):
        self._page, self.app, self.address, self._batches = page, app, address, batches

    def block(self) -> None:
        """Return when the server is stopped."""
        self._page.block_thread()

    def close(self) -> None:
        """Stop serving. The engine is not closed."""
        self._batches.close()
        self._page.close(verbose=False)


def serve(
    engine: Any,
    host: str = "127.0.0.1",
    port: int | None = 7860,
    share: bool = False,
    quiet: bool = False,
    guard: Guard | None = None,
    votes: Path | None = None,
    most_pictures: int = 500,
    mcp: bool = False,
) -> Server:
    """Serve an engine. Returns at once; variants may still be loading, the page follows them.

    `votes` is the file blind votes are kept in; NITRO_VOTES if none is given. `most_pictures` is
    how many one batch may have. `mcp` switches on the tools for language models, at
    `gradio_api/mcp`, which need the package mcp.
    """
    guard, results, desk = guard or Guard(), ResultStore(), FrontDesk(engine)
    routes = CanvasRoutes(engine, guard, results, desk).routes()
    routes += UploadRoutes(engine, guard).routes()
    routes += VoteRoutes(engine, guard, desk, VoteStore(votes or default_file())).routes()
    batches = BatchDesk(engine, Path(tempfile.mkdtemp(prefix="nitro-batches-")), most_pictures)
    routes += BatchRoutes(engine, guard, batches).routes()
    numbers = NumbersDesk(engine, measuring_allowed())
    routes += NumbersRoutes(engine, guard, numbers).routes()
    routes += HealthRoutes(engine, guard).routes()
    page = live.build(engine, Api(engine, Fallback(guard, results, desk), batches, mcp))
    page.queue(default_concurrency_limit=None)
    app, address, _ = page.launch(
        server_name=host,
        server_port=port,
        share=share,
        quiet=quiet,
        prevent_thread_lock=True,
        theme=theme(),
        css_paths=[live.WEB / name for name in STYLES],
        head=live.head(engine),
        footer_links=["api"],
        ssr_mode=False,
        mcp_server=mcp,
        enable_monitoring=False,
        max_file_size="8mb",
        favicon_path=live.WEB / "favicon.svg",
    )
    # in front: Gradio has a route for every single-segment address
    app.router.routes[0:0] = routes
    return Server(page, app, address, batches)
