"""The second transport: a Gradio generator event, `/generate`.

It is the API for programs (`gradio_client`), and the page's way out where something between
browser and server breaks raw streams. An asynchronous generator: however many wait in it, no
thread waits with them. Closing it stops the picture.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import gradio as gr
from starlette.requests import Request

from engine.events import Event, Failed, Finished, Superseded
from engine.requests import GenerationRequest
from ui.bodies import MAX_BODY_BYTES, check_size
from ui.frames import describe
from ui.frontdesk import FrontDesk, Place
from ui.guard import Guard, Refusal
from ui.results import ResultStore


class Fallback:
    """Holds what the event needs; guarded as the canvas routes are."""

    def __init__(self, guard: Guard, results: ResultStore, desk: FrontDesk):
        self._guard, self._results, self._desk = guard, results, desk

    def bound(self) -> Any:
        """The event as a plain function, whose signature and docstring are the API's."""

        async def generate(
            prompt: str,
            request: gr.Request,
            variant: str = "pocket-ar",
            seed: int = 0,
            ar_iterations: int | None = None,
            flow_steps: int | None = None,
            cfg_scale: float | None = None,
            cfg_schedule: str = "constant",
            temperature: float = 1.0,
            preview_every: int = 1,
            caption: str | None = None,
            count: int = 1,
            picture: str = "",
            strength: float | None = None,
            free: str = "",
            context: int = 0,
            fork_of: str = "",
            fork_step: int = 0,
            size: int = 0,
        ) -> AsyncIterator[tuple[dict[str, Any], str]]:
            """Draw a picture, one answer per step: its state, and the picture as a data URI.

            None for a setting means its default. The last answer has "event":
            "finished", the settings that draw the picture again, and its name as "picture": the
            same caller may start from it (`picture`, with `free` cells and `strength`) or resume
            it (`fork_of`, `fork_step`). Of `count` pictures the answers come one after another.
            """
            values = {
                "prompt": prompt,
                "variant": variant,
                "seed": seed,
                "ar_iterations": ar_iterations,
                "flow_steps": flow_steps,
                "cfg_scale": cfg_scale,
                "cfg_schedule": cfg_schedule,
                "temperature": temperature,
                "preview_every": preview_every,
                "caption": caption,
                "count": count,
                "picture": picture,
                "strength": strength,
                "free": free,
                "context": context,
                "fork_of": fork_of,
                "fork_step": fork_step,
                "size": size,
            }
            given = {name: value for name, value in values.items() if value is not None}
            jobs, owner = await self.ask(request, [("live", given)])
            async for answer in self._answers(jobs, owner):
                yield answer

        return generate

    def admit(self, request: gr.Request, body: int = MAX_BODY_BYTES) -> tuple[Request, str]:
        """The page's owner id if it sent one; else a caller of its own per Gradio session.

        Raises `Refusal`, for a body beyond `body` bytes too.
        """
        http: Request = request.request  # type: ignore[assignment]
        self._guard.check_origin(http)
        check_size(http, body)
        try:
            return http, self._guard.sessions.owner(http)
        except Refusal:
            return http, f"api:{request.session_hash or secrets.token_hex(16)}"

    async def ask(
        self, request: gr.Request, wanted: list[tuple[str, dict[str, Any]]], owner: str = ""
    ) -> tuple[dict[Place, Any], str]:
        """Jobs for requests by slot, and their owner, if it is not given. `gr.Error` in words."""
        with self.in_words():
            http, caller = self.admit(request)
            asked = [
                (slot, GenerationRequest.from_dict(values).resolved()) for slot, values in wanted
            ]
            self._guard.pace(http, caller, sum(each.count for _, each in asked))
            return await self._desk.submit(owner or caller, asked), owner or caller

    def count(self, request: gr.Request, body: int = MAX_BODY_BYTES) -> tuple[str, str]:
        """Who asks and from which address, counted as one picture. Raises `Refusal`."""
        http, owner = self.admit(request, body)
        self._guard.pace(http, owner)
        return owner, self._guard.address(http)

    @contextmanager
    def in_words(self) -> Iterator[None]:
        """Refusals, which are counted, and whatever was asked wrongly become `gr.Error`."""
        try:
            yield
        except (Refusal, ValueError) as error:  # every reader and checker raises a kind of it
            if isinstance(error, Refusal):
                self._guard.count(error)
            raise gr.Error(str(error), print_exception=False) from None

    def cancel(self, jobs: Iterable[Any]) -> None:
        """Stop what has not finished."""
        for job in jobs:
            self._desk.cancel(job)

    async def _answers(
        self, jobs: dict[Place, Any], owner: str
    ) -> AsyncIterator[tuple[dict[str, Any], str]]:
        """Every job's events, job after job; what is left is cancelled when nobody reads on."""
        left = dict(jobs)
        try:
            for place, job in jobs.items():
                async for event in job.stream():
                    if isinstance(event, Finished | Superseded | Failed):
                        del left[place]
                    yield await self.answer(place, event, owner)
        finally:
            self.cancel(left.values())

    async def answer(self, place: Place, event: Event, owner: str) -> tuple[dict[str, Any], str]:
        header, pixels, quality = describe(event)
        header |= place._asdict()
        if isinstance(event, Finished):
            header["result"] = self._results.add(owner, event.image, event.settings)
        if pixels is None:
            return header, ""
        encoded = base64.b64encode(await self._desk.jpeg(pixels, quality)).decode()
        return header, f"data:image/jpeg;base64,{encoded}"
