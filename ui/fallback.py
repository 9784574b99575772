"""The second transport: a Gradio generator event, `/generate`.

It is the API for programs (`gradio_client`), and the page's way out where something between
browser and server breaks raw streams. An asynchronous generator: however many wait in it, no
thread waits with them. Closing it stops the picture.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from typing import Any

import gradio as gr
from starlette.requests import Request

from engine.events import Failed, Finished, Superseded
from engine.requests import GenerationRequest, InvalidRequest
from ui.frames import describe
from ui.frontdesk import FrontDesk
from ui.guard import Guard, Refusal, check_size
from ui.results import ResultStore


class Fallback:
    """Holds what the event needs; guarded as the canvas routes are."""

    def __init__(self, guard: Guard, results: ResultStore, desk: FrontDesk):
        self._guard, self._results, self._desk = guard, results, desk

    def register(self) -> None:
        """Call inside `gr.Blocks`. Any number may wait in it: the engine does the queueing."""
        gr.api(self.bound(), api_name="generate", concurrency_limit=None)

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
        ) -> AsyncIterator[tuple[dict[str, Any], str]]:
            """Draw a picture, one answer per step: its state, and the picture as a data URI.

            None for a setting means the variant's default. The last answer has "event":
            "finished" and the settings that draw the picture again.
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
            }
            try:
                owner = self._admit(request)
                wanted = GenerationRequest.from_dict(values).resolved()
                jobs = await self._desk.submit(owner, [("live", wanted)])
            except (Refusal, InvalidRequest) as error:
                raise gr.Error(str(error), print_exception=False) from None
            async for answer in self._answers(jobs["live"], owner):
                yield answer

        return generate

    def _admit(self, request: gr.Request) -> str:
        """The page's owner id if it sent one; else a caller of its own per Gradio session."""
        http: Request = request.request  # type: ignore[assignment]
        self._guard.check_origin(http)
        check_size(http)
        try:
            owner = self._guard.sessions.owner(http)
        except Refusal:
            owner = f"api:{request.session_hash or id(request)}"
        self._guard.pace(http, owner)
        return owner

    async def _answers(self, job: Any, owner: str) -> AsyncIterator[tuple[dict[str, Any], str]]:
        ended = False
        try:
            async for event in job.stream():
                header, pixels, quality = describe(event)
                header["slot"] = "live"
                ended = isinstance(event, Finished | Superseded | Failed)
                if isinstance(event, Finished):
                    header["result"] = self._results.add(owner, event.image, event.settings)
                uri = ""
                if pixels is not None:
                    encoded = base64.b64encode(await self._desk.jpeg(pixels, quality)).decode()
                    uri = f"data:image/jpeg;base64,{encoded}"
                yield header, uri
        finally:
            if not ended:
                self._desk.cancel(job)
