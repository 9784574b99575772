"""The routes of the Batch page. A run's name is unguessable and is all that is needed to look at
it, to stop it and to fetch it: so a reloaded page finds its run again."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

from PIL import Image
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from ui.batch.desk import BatchDesk, BatchLimit, Run
from ui.batch.order import expected_seconds, read_order
from ui.batch.plan import Plan
from ui.bodies import read_body
from ui.guard import Guard, Refusal

MAX_ORDER_BYTES = 4 << 20
NO_STORE = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
_THUMB = 96
_TOO_BIG = "The prompts are larger than 4 MiB. Make several batches of them."


class BatchRoutes:
    """One object per server."""

    def __init__(self, engine: Any, guard: Guard, desk: BatchDesk) -> None:
        self._engine, self._guard, self._desk = engine, guard, desk

    def routes(self) -> list[Route]:
        """To be put in front of the app's own."""
        checked = self._guard.checked
        return [
            Route("/batch/plan", checked(self.plan), methods=["POST"]),
            Route("/batch/start", checked(self.start), methods=["POST"]),
            Route("/batch/{run}", checked(self.look), methods=["GET"]),
            Route("/batch/{run}/stop", checked(self.stop), methods=["POST"]),
            Route("/batch/{run}/resume", checked(self.resume), methods=["POST"]),
            Route("/batch/{run}/thumbnail/{file}", checked(self.thumbnail), methods=["GET"]),
            Route("/batch/{run}/pictures.zip", checked(self.zip), methods=["GET"]),
        ]

    async def plan(self, request: Request) -> Response:
        """An order to what it would be: how many pictures, how long."""
        owner = self._guard.sessions.owner(request)
        self._guard.hints.take(owner)
        plan = await self._ordered(request)
        seconds = await run_in_threadpool(expected_seconds, plan, self._engine)
        most = self._desk.most_pictures
        body = {
            "pictures": len(plan),
            "prompts": len(plan.entries),
            "expected_s": seconds,
            "most": most,
        }
        return JSONResponse(body, headers=NO_STORE)

    async def start(self, request: Request) -> Response:
        """An order to a run."""
        owner = self._guard.sessions.owner(request)
        self._guard.pace(request, owner)
        plan = await self._ordered(request)
        try:
            place = self._guard.address(request)
            run = await run_in_threadpool(self._desk.start, owner, plan, place)
        except BatchLimit as error:
            raise Refusal(429, str(error)) from None
        return JSONResponse(run.status(), headers=NO_STORE)

    async def look(self, request: Request) -> Response:
        return JSONResponse(self._run(request).status(), headers=NO_STORE)

    async def stop(self, request: Request) -> Response:
        run = self._run(request)
        self._desk.stop(run)
        return JSONResponse(run.status(), headers=NO_STORE)

    async def resume(self, request: Request) -> Response:
        """Go on with a run that was stopped, or try again what failed."""
        run = self._run(request)
        try:
            await run_in_threadpool(self._desk.go_on, run)
        except BatchLimit as error:
            raise Refusal(429, str(error)) from None
        return JSONResponse(run.status(), headers=NO_STORE)

    async def thumbnail(self, request: Request) -> Response:
        """A small JPEG of one of the run's pictures."""
        run, name = self._run(request), request.path_params["file"]
        if run.plan.index_of(name) is None:
            raise Refusal(404, "There is no such picture in this batch.")
        try:
            body = await run_in_threadpool(_thumbnail, run.folder / name)
        except OSError:
            raise Refusal(404, "This picture is not there (yet).") from None
        headers = {"cache-control": "private, max-age=3600", "x-content-type-options": "nosniff"}
        return Response(body, headers=headers, media_type="image/jpeg")

    async def zip(self, request: Request) -> Response:
        """The pictures there are by now, with their metadata."""
        run = self._run(request)
        if run.state == "running":
            raise Refusal(409, "The batch is still being drawn. Stop it or wait for its end.")
        if not run.done:
            raise Refusal(409, "No picture is there yet.")
        try:
            file = await run_in_threadpool(self._desk.zip, run)
        except OSError as error:
            raise Refusal(503, f"The zip could not be written: {error.strerror}.") from None
        return FileResponse(file, filename="nitro-batch.zip", headers=NO_STORE)

    async def _ordered(self, request: Request) -> Plan:
        body = await read_body(request, MAX_ORDER_BYTES, _TOO_BIG)
        try:
            order = json.loads(body.decode())
        except (ValueError, RecursionError):
            raise Refusal(400, "The order is not valid JSON.") from None
        if not isinstance(order, dict):
            raise Refusal(400, "The order has to be a JSON object.")
        return await run_in_threadpool(self._read, order)

    def _read(self, order: dict[str, Any]) -> Plan:
        try:
            plan = read_order(order, self._desk.most_pictures)
            self._desk.check(plan)
            served = [variant.id for variant in self._engine.variants()]
            missing = [name for name in plan.variants if name not in served]
            if missing:
                raise Refusal(
                    400, f"{missing[0]} is not served here. Available: {', '.join(served)}."
                )
        except ValueError as error:  # every reader and checker raises a kind of it
            raise Refusal(400, str(error)) from None
        return plan

    def _run(self, request: Request) -> Run:
        run = self._desk.get(request.path_params["run"])
        if run is None:
            raise Refusal(404, "This batch is not kept any more; start it again.")
        return run


def _thumbnail(file: Path) -> bytes:
    with Image.open(file) as image:
        small = image.convert("RGB")
        small.thumbnail((_THUMB, _THUMB))
        out = io.BytesIO()
        small.save(out, "JPEG", quality=85)
    return out.getvalue()
