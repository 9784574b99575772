"""The second transport: a Gradio generator event, `/generate`.

It is the API for programs (`gradio_client`), and the page's way out where something between
browser and server breaks raw streams. A plain synchronous generator on purpose: that is the one
form every Gradio host runs, and closing it stops the picture.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import gradio as gr

from engine.events import Failed, Finished, Superseded
from engine.requests import GenerationRequest, InvalidRequest
from ui.errors import queue_refusal
from ui.frames import describe, jpeg
from ui.guard import Refusal, Sessions
from ui.results import ResultStore


class Fallback:
    """Holds what the event needs; `generate` is the event."""

    def __init__(self, engine: Any, sessions: Sessions, results: ResultStore):
        self._engine, self._sessions, self._results = engine, sessions, results

    def register(self) -> None:
        """Call inside `gr.Blocks`. Any number may wait in it: the engine does the queueing."""
        gr.api(self.bound(), api_name="generate", concurrency_limit=None)

    def bound(self) -> Any:
        def generate(
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
        ) -> Iterator[tuple[dict[str, Any], str]]:
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
            wanted = GenerationRequest.from_dict(values)
            yield from self._run(wanted, self._owner(request))

        return generate

    def _owner(self, request: gr.Request) -> str:
        """The page's owner id if it sent one; else a caller of its own per Gradio session."""
        try:
            return self._sessions.owner(request.request)  # type: ignore[arg-type]
        except Refusal:
            return f"api:{request.session_hash or id(request)}"

    def _run(self, wanted: GenerationRequest, owner: str) -> Iterator[tuple[dict[str, Any], str]]:
        try:
            job = self._engine.submit(wanted.resolved(), owner, "live")
        except InvalidRequest as error:
            raise gr.Error(str(error), print_exception=False) from None
        except Exception as error:
            if (refusal := queue_refusal(error)) is None:
                raise
            raise gr.Error(refusal.message, print_exception=False) from None
        ended = False
        try:
            for event in job.events():
                header, pixels, quality = describe(event)
                header["slot"] = "live"
                ended = isinstance(event, Finished | Superseded | Failed)
                if isinstance(event, Finished):
                    header["result"] = self._results.add(owner, event.image, event.settings)
                uri = ""
                if pixels is not None:
                    encoded = base64.b64encode(jpeg(pixels, quality)).decode()
                    uri = f"data:image/jpeg;base64,{encoded}"
                yield header, uri
        finally:
            if not ended:
                self._engine.cancel(job)
