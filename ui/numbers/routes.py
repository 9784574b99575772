"""The routes of the Numbers page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ui.bodies import read_json
from ui.guard import Guard, Refusal
from ui.numbers.desk import Busy, NumbersDesk

POCKET_EVAL = Path(__file__).resolve().parents[2] / "assets" / "pocket" / "pocketeval.json"
NO_STORE = {"cache-control": "no-store", "x-content-type-options": "nosniff"}


class NumbersRoutes:
    """One object per server."""

    def __init__(self, engine: Any, guard: Guard, desk: NumbersDesk) -> None:
        self._engine, self._guard, self._desk = engine, guard, desk
        self._quality = json.loads(POCKET_EVAL.read_text("utf-8"))

    def routes(self) -> list[Route]:
        """To be put in front of the app's own."""
        checked = self._guard.checked
        return [
            Route("/numbers/all", checked(self.look), methods=["GET"]),
            Route("/numbers/measure", checked(self.measure), methods=["POST"]),
            Route("/numbers/stop", checked(self.stop), methods=["POST"]),
        ]

    async def look(self, request: Request) -> Response:
        """What is measured, what is being measured, and PocketEval's table."""
        return JSONResponse({**self._desk.look(), "quality": self._quality}, headers=NO_STORE)

    async def measure(self, request: Request) -> Response:
        """{"variants": [ids]}: begin."""
        owner = self._guard.sessions.owner(request)
        self._guard.pace(request, owner)
        if not self._desk.allowed:
            raise Refusal(403, "Whoever runs this server has switched measuring off.")
        body = await read_json(request)
        wanted = body.get("variants") if isinstance(body, dict) else None
        status = await run_in_threadpool(self._engine.status)  # it may wait for moving weights
        ready = [each.id for each in status.variants if each.state == "ready"]
        if not isinstance(wanted, list) or not wanted or set(map(str, wanted)) - set(ready):
            raise Refusal(
                400, f"Models that can be measured now: {', '.join(ready) or 'none yet'}."
            )
        try:
            self._desk.start(list(dict.fromkeys(wanted)))
        except Busy as error:
            raise Refusal(409, str(error)) from None
        return JSONResponse(self._desk.look(), headers=NO_STORE)

    async def stop(self, request: Request) -> Response:
        self._guard.sessions.owner(request)
        self._desk.stop()
        return JSONResponse(self._desk.look(), headers=NO_STORE)
