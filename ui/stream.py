"""The canvas routes: one binary stream per page, finished pictures, hints and status.

Added to Gradio's own app, in front of its routes. Frames bypass Gradio because its image
component paints one in five of them at 80 ms round trip.

One POST carries one or more generations, each in its own slot. A reader that stops reading holds
at most one frame: every hand-over waits for the one before, and the engine keeps only the newest
step of a job. Leaving, aborting or stopping cancels what has not finished.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import anyio
from anyio.abc import ObjectSendStream
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from engine.events import Event, Failed, Finished, Superseded
from engine.requests import MAX_PROMPT_CHARACTERS, GenerationRequest, InvalidRequest
from ui.errors import queue_refusal
from ui.frames import describe, jpeg, pack
from ui.guard import RateLimit, Refusal, Sessions, check_origin, read_json
from ui.metadata import png
from ui.results import ResultStore
from ui.variants import describe_prompt, status

MAX_SLOTS = 16
MAX_SLOT_NAME = 40
NO_STORE = {"cache-control": "no-store", "x-content-type-options": "nosniff"}

Handler = Callable[[Request], Awaitable[Response]]


class CanvasRoutes:
    """The HTTP side of an engine. One object per served page."""

    def __init__(
        self,
        engine: Any,
        sessions: Sessions | None = None,
        results: ResultStore | None = None,
        rate: RateLimit | None = None,
        allowed_origins: frozenset[str] = frozenset(),
    ):
        self.engine = engine
        self.sessions = sessions or Sessions()
        self.results = results or ResultStore()
        self._rate = rate or RateLimit()
        self._hint_rate = RateLimit(per_second=20, burst=60)
        self._allowed_origins = allowed_origins
        self._boot = secrets.token_hex(8)  # lets an open page notice a restarted server
        self._encoders = ThreadPoolExecutor(2, thread_name_prefix="jpeg")

    def routes(self) -> list[Route]:
        return [
            Route("/canvas/session", self._guarded(self.session), methods=["POST"]),
            Route("/canvas/stream", self._guarded(self.stream), methods=["POST"]),
            Route("/canvas/result/{name}", self._guarded(self.result), methods=["GET"]),
            Route("/canvas/describe", self._guarded(self.describe), methods=["GET"]),
            Route("/canvas/status", self._guarded(self.status), methods=["GET"]),
            Route("/healthz", self.health, methods=["GET"]),
        ]

    def _guarded(self, handler: Handler) -> Handler:
        async def checked(request: Request) -> Response:
            try:
                check_origin(request, self._allowed_origins)
                return await handler(request)
            except Refusal as refusal:
                return refusal.response()

        return checked

    async def session(self, request: Request) -> Response:
        return JSONResponse({"session": self.sessions.issue()}, headers=NO_STORE)

    async def status(self, request: Request) -> Response:
        body = await run_in_threadpool(status, self.engine)
        return JSONResponse({"boot": self._boot, **body}, headers=NO_STORE)

    async def health(self, request: Request) -> Response:
        return PlainTextResponse("ok", headers=NO_STORE)

    async def describe(self, request: Request) -> Response:
        """What a variant makes of a prompt, while it is typed."""
        self._hint_rate.take(self.sessions.owner(request))
        prompt = request.query_params.get("prompt", "")[: MAX_PROMPT_CHARACTERS + 1]
        variant = request.query_params.get("variant", "")
        try:
            body = await run_in_threadpool(describe_prompt, self.engine, variant, prompt)
        except (InvalidRequest, KeyError) as error:
            raise Refusal(400, str(error.args[0])) from None
        return JSONResponse(body, headers=NO_STORE)

    async def result(self, request: Request) -> Response:
        name = request.path_params["name"].removesuffix(".png")
        result = self.results.get(name, self.sessions.owner(request))
        if result is None:
            raise Refusal(404, "This picture is not kept any more. Its settings draw it again.")
        body = await run_in_threadpool(png, result.image, result.settings)
        return Response(body, media_type="image/png", headers=NO_STORE)

    async def stream(self, request: Request) -> Response:
        owner = self.sessions.owner(request)
        wanted = _parse(await read_json(request))
        self._rate.take(owner)
        jobs: dict[str, Any] = {}
        try:
            for slot, generation in wanted:
                jobs[slot] = await run_in_threadpool(self.engine.submit, generation, owner, slot)
        except Exception as error:
            for job in jobs.values():
                self.engine.cancel(job)
            if isinstance(error, InvalidRequest):
                raise Refusal(400, str(error)) from None
            if (refusal := queue_refusal(error)) is not None:
                raise refusal from None
            raise
        return LiveStream(self.engine, jobs, partial(self._message, owner))

    async def _message(self, owner: str, slot: str, event: Event) -> bytes:
        """One event, encoded. Runs only for events that are about to be sent."""
        header, pixels, quality = describe(event)
        header["slot"] = slot
        body = b""
        if isinstance(event, Finished):
            header["result"] = self.results.add(owner, event.image, event.settings)
        if pixels is not None:
            loop = asyncio.get_running_loop()
            body = await loop.run_in_executor(self._encoders, jpeg, pixels, quality)
            header["width"], header["height"] = pixels.shape[1], pixels.shape[0]
        return pack(header, body)


class LiveStream(Response):
    """Sends every job's events until all have ended; cancels what is left when it ends early.

    Not a StreamingResponse: that notices a closed connection only when it next sends, and a
    waiting job sends nothing.
    """

    media_type = "application/octet-stream"

    def __init__(
        self,
        engine: Any,
        jobs: dict[str, Any],
        message: Callable[[str, Event], Awaitable[bytes]],
    ):
        super().__init__(headers={**NO_STORE, "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._engine, self._jobs, self._message = engine, jobs, message
        self._ended: set[str] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(_until_disconnect, receive, group.cancel_scope)
                await self._send_all(send)
                group.cancel_scope.cancel()
        except* OSError:
            pass  # the reader went away while being sent to
        finally:
            for slot, job in self._jobs.items():
                if slot not in self._ended:
                    self._engine.cancel(job)

    async def _send_all(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        # capacity 0: a follower hands its event over when the sender is free, not before
        sender, receiver = anyio.create_memory_object_stream[tuple[str, Event]](0)
        async with anyio.create_task_group() as group, receiver:
            async with sender:
                for slot, job in self._jobs.items():
                    group.start_soon(self._follow, slot, job, sender.clone())
            async for slot, event in receiver:
                if isinstance(event, Finished | Superseded | Failed):
                    self._ended.add(slot)
                body = await self._message(slot, event)
                await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _follow(
        self, slot: str, job: Any, sender: ObjectSendStream[tuple[str, Event]]
    ) -> None:
        async with sender:
            async for event in job.stream():
                await sender.send((slot, event))


async def _until_disconnect(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


def _parse(body: Any) -> list[tuple[str, GenerationRequest]]:
    """{"requests": [{"slot": "live", "request": {...}}]} to what the engine is asked for."""
    entries = body.get("requests") if isinstance(body, dict) else None
    if not isinstance(entries, list) or not entries:
        raise Refusal(400, 'The request has to be {"requests": [{"slot": ..., "request": ...}]}.')
    if len(entries) > MAX_SLOTS:
        raise Refusal(400, f"At most {MAX_SLOTS} pictures at once; this asks for {len(entries)}.")
    out: list[tuple[str, GenerationRequest]] = []
    for entry in entries:
        slot = entry.get("slot", "live") if isinstance(entry, dict) else None
        if not isinstance(slot, str) or not 0 < len(slot) <= MAX_SLOT_NAME:
            raise Refusal(400, f"A slot is a name of 1 to {MAX_SLOT_NAME} characters.")
        if any(slot == other for other, _ in out):
            raise Refusal(400, f"The slot {slot!r} is asked for twice.")
        try:
            out.append((slot, _request(entry.get("request"))))
        except InvalidRequest as error:
            raise Refusal(400, str(error), slot=slot) from None
    return out


def _request(values: Any) -> GenerationRequest:
    return GenerationRequest.from_dict(values).resolved()
