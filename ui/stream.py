"""The canvas routes: one binary stream per page, finished pictures, hints and status.

Added to Gradio's own app, in front of its routes. Frames bypass Gradio because its image
component paints one in five of them at 80 ms round trip.

One POST carries one or more requests, each in its own slot and for one or more pictures. A reader that stops reading holds
at most one frame: every hand-over waits for the one before, and the engine keeps only the newest
step of a job. Leaving, aborting or stopping cancels what has not finished.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import anyio
from anyio.abc import ObjectSendStream
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from engine.events import Event, Failed, Finished, Superseded
from engine.requests import MAX_COUNT, MAX_PROMPT_CHARACTERS, GenerationRequest, InvalidRequest
from ui.bodies import read_json
from ui.frames import describe, pack
from ui.frontdesk import FrontDesk, Place
from ui.guard import Guard, Refusal
from ui.metadata import png
from ui.results import ResultStore
from ui.variants import describe_prompt, loading_words, status

MAX_SLOTS = 16
SLOT_NAME = re.compile(r"[\w .:-]{1,40}")
HEARTBEAT_S = 10.0
NO_STORE = {"cache-control": "no-store", "x-content-type-options": "nosniff"}


class CanvasRoutes:
    """The HTTP side of an engine. One object per served page."""

    def __init__(
        self,
        engine: Any,
        guard: Guard | None = None,
        results: ResultStore | None = None,
        desk: FrontDesk | None = None,
        heartbeat_s: float = HEARTBEAT_S,
    ):
        self.engine = engine
        self.guard = guard or Guard()
        self.results = results or ResultStore()
        self._desk = desk or FrontDesk(engine)
        self._heartbeat_s = heartbeat_s
        self._boot = secrets.token_hex(8)  # lets an open page notice a restarted server

    def routes(self) -> list[Route]:
        """To be put in front of the app's own."""
        return [
            Route("/canvas/session", self.guard.checked(self.session), methods=["POST"]),
            Route("/canvas/stream", self.guard.checked(self.stream), methods=["POST"]),
            Route("/canvas/result/{name}", self.guard.checked(self.result), methods=["GET"]),
            Route("/canvas/describe", self.guard.checked(self.describe), methods=["GET"]),
            Route("/canvas/status", self.guard.checked(self.status), methods=["GET"]),
        ]

    async def session(self, request: Request) -> Response:
        """A new session for a page that was just opened."""
        return JSONResponse({"session": self.guard.open_session(request)}, headers=NO_STORE)

    async def status(self, request: Request) -> Response:
        """The variants' cards, and which run of the server this is."""
        body = await run_in_threadpool(status, self.engine)
        return JSONResponse({"boot": self._boot, **body}, headers=NO_STORE)

    async def describe(self, request: Request) -> Response:
        """What a variant makes of a prompt, while it is typed."""
        self.guard.hints.take(self.guard.sessions.owner(request))
        prompt = request.query_params.get("prompt", "")[: MAX_PROMPT_CHARACTERS + 1]
        variant = request.query_params.get("variant", "")
        try:
            body = await run_in_threadpool(describe_prompt, self.engine, variant, prompt)
        except InvalidRequest as error:
            raise Refusal(400, str(error)) from None
        return JSONResponse(body, headers=NO_STORE)

    async def result(self, request: Request) -> Response:
        """A finished picture as PNG, for its owner."""
        owner = self.guard.sessions.owner(request)
        self.guard.pages.take(owner)
        result = self.results.get(request.path_params["name"].removesuffix(".png"), owner)
        if result is None:
            raise Refusal(404, "This picture is not kept any more. Its settings draw it again.")
        body = await run_in_threadpool(png, result.image, result.settings)
        return Response(body, media_type="image/png", headers=NO_STORE)

    async def stream(self, request: Request) -> Response:
        """Draw what the body asks for; the answer is the binary stream."""
        owner = self.guard.sessions.owner(request)
        wanted = _parse(await read_json(request))
        self.guard.pace(request, owner, sum(each.count for _, each in wanted))
        jobs = await self._desk.submit(owner, wanted)
        return LiveStream(
            jobs, partial(self._message, owner), self._waiting, self._desk.cancel, self._heartbeat_s
        )

    async def _message(self, owner: str, place: Place, event: Event) -> bytes:
        """One event, encoded. Runs only for events that are about to be sent."""
        header, pixels, quality = describe(event)
        header |= place._asdict()
        body = b""
        if isinstance(event, Finished):
            header["result"] = self.results.add(owner, event.image, event.settings)
        if pixels is not None:
            body = await self._desk.jpeg(pixels, quality)
            header["width"], header["height"] = pixels.shape[1], pixels.shape[0]
        return pack(header, body)

    async def _waiting(self, place: Place, job: Any) -> bytes:
        """A sign of life: what the picture waits for, if that is its variant."""
        words = await run_in_threadpool(loading_words, self.engine, job.request.variant)
        return pack({**place._asdict(), "event": "waiting", "message": words})


class LiveStream(Response):
    """Sends every job's events until all have ended; cancels what is left when it ends early.

    Not a StreamingResponse: that notices a closed connection only when it next sends, and a
    waiting job sends nothing. When nothing has happened for a while it says so: proxies cut
    connections that are silent for a minute.
    """

    media_type = "application/octet-stream"

    def __init__(
        self,
        jobs: dict[Place, Any],
        message: Callable[[Place, Event], Awaitable[bytes]],
        waiting: Callable[[Place, Any], Awaitable[bytes]],
        cancel: Callable[[Any], None],
        heartbeat_s: float,
    ):
        super().__init__(headers={**NO_STORE, "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._jobs, self._message, self._waiting = jobs, message, waiting
        self._cancel, self._heartbeat_s = cancel, heartbeat_s
        self._ended: set[Place] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(_until_disconnect, receive, group.cancel_scope)
                await self._send_all(send)
                group.cancel_scope.cancel()
        except* OSError:
            pass  # the reader went away while being sent to
        finally:
            for place, job in self._jobs.items():
                if place not in self._ended:
                    self._cancel(job)

    async def _send_all(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        # capacity 0: a follower hands its event over when the sender is free, not before
        sender, receiver = anyio.create_memory_object_stream[tuple[Place, Event]](0)
        async with anyio.create_task_group() as group, receiver:
            async with sender:
                for place, job in self._jobs.items():
                    group.start_soon(self._follow, place, job, sender.clone())
            while len(self._ended) < len(self._jobs):
                arrived: tuple[Place, Event] | None = None
                with anyio.move_on_after(self._heartbeat_s):
                    arrived = await receiver.receive()
                if arrived is None:
                    open_jobs = [each for each in self._jobs.items() if each[0] not in self._ended]
                    body = b"".join([await self._waiting(*each) for each in open_jobs])
                else:
                    place, event = arrived
                    if isinstance(event, Finished | Superseded | Failed):
                        self._ended.add(place)
                    body = await self._message(place, event)
                await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _follow(
        self, place: Place, job: Any, sender: ObjectSendStream[tuple[Place, Event]]
    ) -> None:
        async with sender:
            async for event in job.stream():
                await sender.send((place, event))


async def _until_disconnect(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


def _parse(body: Any) -> list[tuple[str, GenerationRequest]]:
    """{"requests": [{"slot": "live", "request": {...}}]} to what the engine is asked for.

    A request's keys are the fields of `GenerationRequest`.
    """
    entries = body.get("requests") if isinstance(body, dict) else None
    if not isinstance(entries, list) or not entries:
        raise Refusal(400, 'The request has to be {"requests": [{"slot": ..., "request": ...}]}.')
    if len(entries) > MAX_SLOTS:
        raise Refusal(400, f"At most {MAX_SLOTS} slots at once; this asks for {len(entries)}.")
    out: list[tuple[str, GenerationRequest]] = []
    for entry in entries:
        slot = entry.get("slot", "live") if isinstance(entry, dict) else None
        if not isinstance(slot, str) or not SLOT_NAME.fullmatch(slot):
            raise Refusal(
                400, "A slot is a name of 1 to 40 letters, digits, spaces and any of _ . : -"
            )
        if any(slot == other for other, _ in out):
            raise Refusal(400, f"The slot {slot!r} is asked for twice.")
        try:
            out.append((slot, _request(entry.get("request"))))
        except InvalidRequest as error:
            raise Refusal(400, str(error), slot=slot) from None
    pictures = sum(request.count for _, request in out)
    if pictures > MAX_COUNT:
        raise Refusal(400, f"At most {MAX_COUNT} pictures at once; this asks for {pictures}.")
    return out


def _request(values: Any) -> GenerationRequest:
    return GenerationRequest.from_dict(values).resolved()
