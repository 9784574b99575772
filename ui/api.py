"""Named endpoints for programs beside `/generate`: `/compare`, `/variants`, `/status`;
`/grid` and `/batch` are in `ui.api_many`.

Whoever calls them is guarded and paced like a page. Their signatures and docstrings are the API's.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import gradio as gr

from engine.events import Failed, Finished, Superseded
from ui import mcp_tools
from ui.api_many import batch_endpoint, grid_endpoint
from ui.batch.desk import BatchDesk
from ui.fallback import Fallback
from ui.merged import merged
from ui.stream import MAX_SLOTS
from ui.variants import cards


class Api:
    """Registers the endpoints. `fallback` admits callers and encodes answers."""

    def __init__(
        self, engine: Any, fallback: Fallback, batches: BatchDesk, tools: bool = False
    ) -> None:
        """`tools`: register those for language models too."""
        self._engine, self._fallback, self._batches = engine, fallback, batches
        self._tools = tools

    def register(self) -> None:
        """Call inside `gr.Blocks`. Any number may wait in one that draws: the engine queues."""
        if self._tools:
            mcp_tools.register(self._engine, self._fallback)
        drawing = {
            "generate": self._fallback.bound(),
            "compare": self.compare(),
            "grid": grid_endpoint(self._engine, self._fallback),
            "batch": batch_endpoint(self._batches, self._fallback),
        }
        for name, function in drawing.items():
            gr.api(mcp_tools.no_tool(function), api_name=name, concurrency_limit=None)
        for name, function in {"variants": self.variants(), "status": self.status()}.items():
            gr.api(mcp_tools.no_tool(function), api_name=name)

    def variants(self) -> Any:
        engine = self._engine

        def variants() -> list[dict[str, Any]]:
            """What can be drawn with: a card per variant, with its ranges, state and licence."""
            return cards(engine)

        return variants

    def status(self) -> Any:
        engine = self._engine

        def status() -> dict[str, Any]:
            """Pictures that wait and run now, and counts since the start."""
            now = engine.status()
            return {
                "waiting": now.waiting,
                "running": now.running,
                "max_batch": now.max_batch,
                "submitted": now.counters.submitted,
                "steps": now.counters.steps,
            }

        return status

    def compare(self) -> Any:
        fallback = self._fallback

        async def compare(
            prompt: str, panes: list[dict[str, Any]], request: gr.Request, seed: int = 0
        ) -> AsyncIterator[tuple[dict[str, Any], str]]:
            """Draw one prompt and seed in several panes side by side, one answer per step.

            A pane is a dictionary of settings, for example {"variant": "pocket-ar-joint"} or
            {"variant": "pocket-ar", "ar_iterations": 6}; one with its own "seed" keeps it. Answers
            of all panes come as they are drawn; "slot" says which pane ("pane 1" is the first).
            """
            if not isinstance(panes, list) or not 1 <= len(panes) <= MAX_SLOTS:
                raise gr.Error(
                    f"Give a list of 1 to {MAX_SLOTS} panes, each a dictionary of settings.",
                    print_exception=False,
                )
            if not all(isinstance(pane, dict) for pane in panes):
                raise gr.Error("A pane is a dictionary of settings.", print_exception=False)
            wanted = [
                (f"pane {n}", {"prompt": prompt, "seed": seed, **pane})
                for n, pane in enumerate(panes, 1)
            ]
            jobs, owner = await fallback.ask(request, wanted)
            open_jobs = dict(jobs)
            try:
                async for place, event in merged(jobs):
                    if isinstance(event, Finished | Superseded | Failed):
                        del open_jobs[place]
                    yield await fallback.answer(place, event, owner)
            finally:
                fallback.cancel(open_jobs.values())

        return compare
