"""Routes for whoever watches the server: it lives, it can draw, how it does.

They say nothing about visitors or their pictures, and ask for no session.
"""

from __future__ import annotations

from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from ui.guard import Guard
from ui.metrics import Metrics, MetricsMissing

NO_STORE = {"cache-control": "no-store", "x-content-type-options": "nosniff"}


class HealthRoutes:
    """One object per server. The metrics' registry is its own."""

    def __init__(self, engine: Any, guard: Guard) -> None:
        self._engine = engine
        self._metrics: Metrics | None = None
        self._missing = ""
        try:
            self._metrics = Metrics(engine, guard)
        except MetricsMissing as missing:
            self._missing = str(missing)

    def routes(self) -> list[Route]:
        """To be put in front of the app's own."""
        return [
            Route("/healthz", self.health, methods=["GET"]),
            Route("/readyz", self.ready, methods=["GET"]),
            Route("/metrics", self.metrics, methods=["GET"]),
        ]

    async def health(self, request: Request) -> Response:
        """The process lives. 503 once nothing would be drawn any more: start it again then."""
        if not self._engine.alive:
            return _words("the engine has stopped", 503)
        return _words("ok")

    async def ready(self, request: Request) -> Response:
        """Some variant can draw. 503 says what is being waited for: send nobody here yet."""
        if self._engine.ready:
            return _words("ready")
        if not self._engine.alive:
            return _words("not ready: the engine has stopped", 503)
        status = await run_in_threadpool(self._engine.status)
        states = "; ".join(f"{v.title}: {v.message}" for v in status.variants)
        return _words(f"not ready: no variant can draw yet. {states}", 503)

    async def metrics(self, request: Request) -> Response:
        """Prometheus' text format; 501 where the package for it is not installed."""
        if self._metrics is None:
            return _words(self._missing, 501)
        accept = request.headers.get("accept", "")
        body, content_type = await run_in_threadpool(self._metrics.render, accept)
        return Response(body, headers={**NO_STORE, "content-type": content_type})


def _words(text: str, status: int = 200) -> Response:
    return PlainTextResponse(text, status, headers=NO_STORE)
