"""What a language model may do here: the tools of Gradio's own MCP server, where it is switched on.

Fewer and plainer than the API's endpoints: one call, one answer, pictures as pictures. All calls
reach the endpoints through one client of Gradio's, so each is an owner of its own here, or two
models' pictures would take each other's place; their pace they share.
"""

from __future__ import annotations

import base64
import importlib.util
import json
import secrets
from collections.abc import Callable
from typing import Any, TypeVar

import gradio as gr
from gradio.processing_utils import save_bytes_to_cache
from gradio.utils import get_upload_folder
from starlette.concurrency import run_in_threadpool

from engine.events import Failed, Finished, Superseded
from ui.api_many import draw_grid
from ui.fallback import Fallback
from ui.metadata import png
from ui.variants import cards

MISSING = (
    "The tools for language models need the package mcp, which is not installed here. Install it "
    'with `pip install "mcp>=1.21,<2"`, or start without --mcp (NITRO_MCP).'
)
MAX_CELLS = 16  # of a grid
KEPT_S = 3600  # a picture's file
_TOLD = ("id", "title", "summary", "resolution", "state", "message", "embedded", "licence")
_RANGES = ("ar_iterations", "flow_steps", "cfg_scale")

F = TypeVar("F", bound=Callable[..., Any])


def available() -> bool:
    """Whether the package is there."""
    return importlib.util.find_spec("mcp") is not None


def no_tool(function: F) -> F:
    """Keep an endpoint for programs out of the list of tools."""
    function._mcp_type = "endpoint"  # type: ignore[attr-defined]  # Gradio lists those of "tool"
    return function


def register(engine: Any, fallback: Fallback) -> None:
    """Call inside `gr.Blocks`, before endpoints of the same names: a tool is named as its function."""
    for tool in (_generate(fallback), _grid(engine, fallback), _variants(engine), _status(engine)):
        gr.api(tool, api_name=f"tool_{tool.__name__}", concurrency_limit=None)


def _generate(fallback: Fallback) -> Any:
    async def generate(
        prompt: str,
        request: gr.Request,
        variant: str = "pocket-ar",
        seed: int = 0,
        ar_iterations: int | None = None,
        flow_steps: int | None = None,
        cfg_scale: float | None = None,
    ) -> dict[str, Any]:
        """Draw a picture of a description and return it as PNG. The same seed and settings draw the same picture again.

        Args:
            prompt: what the picture shows, in plain English. The pocket variants know emoji-like scenes, such as "a fox on a blue background" or "three bananas on a purple background".
            variant: id of the model that draws; the tool `variants` lists them.
            seed: a whole number; another one gives another picture of the same description.
            ar_iterations: rounds in which the picture is filled in: fewer are quicker, more are cleaner. Leave it out for the model's default.
            flow_steps: steps from noise to each part of the picture. Leave it out for the model's default.
            cfg_scale: how closely the description is followed; 1 is not at all. Leave it out for the model's default.
        """
        values = {
            "prompt": prompt,
            "variant": variant,
            "seed": seed,
            "ar_iterations": ar_iterations,
            "flow_steps": flow_steps,
            "cfg_scale": cfg_scale,
            "preview_every": 0,
        }
        jobs, _ = await fallback.ask(request, [("tool", values)], _owner())
        (job,) = jobs.values()
        end = None
        try:
            async for event in job.stream():
                if isinstance(event, Finished | Failed | Superseded):
                    end = event
        finally:
            if end is None:
                fallback.cancel([job])
        if not isinstance(end, Finished):
            words = end.message if isinstance(end, Failed) else "The server stopped drawing."
            raise gr.Error(words, print_exception=False)
        return _file(await run_in_threadpool(png, end.image, end.settings), "picture.png")

    return generate


def _grid(engine: Any, fallback: Fallback) -> Any:
    async def grid(
        prompt: str,
        x: str,
        y: str,
        request: gr.Request,
        variant: str = "pocket-ar",
        seed: int = 0,
    ) -> dict[str, Any]:
        """Draw one description with settings against each other, on one labelled sheet, to see what a setting does. At most 16 pictures.

        Args:
            prompt: what the pictures show.
            x: the setting that changes from left to right, and its values: "ar_iterations: 2-14 step 4", "cfg_scale: 1, 3, 5", "seed: 0-3", "variant: pocket-ar, pocket-ar-joint" or "prompt: a fox | a cat".
            y: the setting that changes from top to bottom, written alike.
            variant: id of the model that draws; the tool `variants` lists them.
            seed: a whole number.
        """
        values = {"prompt": prompt, "variant": variant, "seed": seed}
        sheet = ""
        async for _, uri in draw_grid(
            engine, fallback, request, (x, y), values, MAX_CELLS, _owner()
        ):
            sheet = uri  # the last one is the sheet
        return _file(base64.b64decode(sheet.partition(",")[2]), "grid.png")

    return grid


def _variants(engine: Any) -> Any:
    def variants() -> str:
        """List the models that can draw here, as JSON: their ids, what they are, their picture's size in pixels, whether they are ready, and the range and default of each setting."""
        told = [{key: card[key] for key in (*_TOLD, *_RANGES)} for card in cards(engine)]
        return json.dumps(told, ensure_ascii=False)

    return variants


def _status(engine: Any) -> Any:
    def status() -> str:
        """Say as JSON how busy the server is: pictures that wait and that are being drawn now."""
        now = engine.status()
        return json.dumps({"waiting": now.waiting, "running": now.running})

    return status


def _owner() -> str:
    return f"tool:{secrets.token_hex(16)}"


def _file(data: bytes, name: str) -> dict[str, Any]:
    """A picture for Gradio, which hands it to the model and has an address for it."""
    path = save_bytes_to_cache(data, name, get_upload_folder())
    return {"path": path, "orig_name": name, "meta": {"_type": "gradio.FileData"}}
