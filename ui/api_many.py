"""Named endpoints that make many pictures: `/grid` and `/batch`. See `ui.api`."""

from __future__ import annotations

import asyncio
import base64
import secrets
from collections.abc import AsyncIterator
from typing import Any

import gradio as gr
from starlette.concurrency import run_in_threadpool

from engine.events import Failed, Finished, Pixels, Superseded
from engine.requests import MAX_COUNT, GenerationRequest, InvalidRequest
from ui.batch.desk import BatchDesk, Run
from ui.batch.order import read_order
from ui.batch.plan import Plan
from ui.batch.routes import MAX_ORDER_BYTES
from ui.fallback import Fallback
from ui.grid.axes import parse_axis
from ui.grid.cells import Cell, Grid, Place, plan_grid, steps
from ui.grid.sheet import layout, sheet, shrunk
from ui.merged import merged

MAX_GRID_CELLS = MAX_COUNT  # as many as any other call may ask for
MAX_SHEET = 4096  # pixels a side
_MAX_AXIS = 20_000  # characters
_LOOK_S = 0.3


def grid_endpoint(engine: Any, fallback: Fallback) -> Any:
    """The function behind `/grid`."""

    async def grid(
        prompt: str,
        x: str,
        y: str,
        request: gr.Request,
        z: str = "",
        variant: str = "pocket-ar",
        seed: int = 0,
        ar_iterations: int | None = None,
        flow_steps: int | None = None,
        cfg_scale: float | None = None,
        cfg_schedule: str = "constant",
        temperature: float = 1.0,
        size: int = 0,
    ) -> AsyncIterator[tuple[dict[str, Any], str]]:
        """Draw two or three settings against each other: an answer per cell, then the sheet.

        An axis is a setting and its values: "cfg_scale: 1-5 step 1", "seed: 0-3",
        "prompt: a fox | a cat", "variant: pocket-ar, pocket-ar-joint". Cells come as they are
        finished, the cheapest first, as data URIs (JPEG) with their settings and their values on
        the "axes"; the last answer has "event": "sheet" and a PNG with the axes' names and values.
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
            "size": size,
        }
        async for answer in draw_grid(engine, fallback, request, (x, y, z), values):
            yield answer

    return grid


async def draw_grid(
    engine: Any,
    fallback: Fallback,
    request: gr.Request,
    axes: tuple[str, ...],
    values: dict[str, Any],
    most: int = MAX_GRID_CELLS,
    owner: str = "",
) -> AsyncIterator[tuple[dict[str, Any], str]]:
    """Answers as `/grid` gives them. Raises `gr.Error` in words."""
    with fallback.in_words():
        plan = read_grid(engine, axes, values, most)
    name = secrets.token_hex(6)  # of two calls of one caller neither takes the other's place
    cells = {f"grid {name} {n}": cell for n, cell in enumerate(plan.cells)}
    wanted = [(slot, cell.request.to_dict()) for slot, cell in cells.items()]
    jobs, owner = await fallback.ask(request, wanted, owner)
    left, pictures = dict(jobs), dict[Place, Pixels]()
    side = layout(plan, MAX_SHEET).cell
    try:
        async for place, event in merged(jobs):
            if not isinstance(event, Finished | Superseded | Failed):
                continue
            del left[place]
            cell = cells[place.slot]
            if isinstance(event, Finished):
                pictures[cell.place] = shrunk(event.image, side)
            header, uri = await fallback.answer(place, event, owner)
            header |= {"cell": list(cell.place), "axes": _values(plan, cell)}
            yield {**header, "done": len(jobs) - len(left), "cells": len(jobs)}, uri
    finally:
        fallback.cancel(left.values())
    if not pictures:
        raise gr.Error("No cell could be drawn, so there is no sheet.", print_exception=False)
    png = base64.b64encode(await run_in_threadpool(sheet, plan, pictures, MAX_SHEET)).decode()
    end = {"event": "sheet", "cells": len(pictures), "places": plan.size}
    yield end, f"data:image/png;base64,{png}"


def read_grid(engine: Any, axes: tuple[str, ...], values: dict[str, Any], most: int) -> Grid:
    """The cells, cheapest first as far as is measured. Raises `InvalidRequest` in words."""
    if not all(isinstance(text, str) and len(text) <= _MAX_AXIS for text in axes):
        raise InvalidRequest('An axis is a text, as "seed: 0-3".')
    measured = engine.status().step_ms
    plan = plan_grid(
        [parse_axis(text) for text in axes if text.strip()],
        GenerationRequest(**values, preview_every=0, preview="off"),
        lambda request: steps(request) * measured.get(request.variant, 1.0),
    )
    if len(plan.cells) > most:
        raise InvalidRequest(
            f"That makes {len(plan.cells)} pictures; at most {most} in one grid here. Shorten an "
            "axis."
        )
    return plan


def _values(grid: Grid, cell: Cell) -> dict[str, Any]:
    return {axis.key: axis.values[n] for axis, n in zip(grid.axes, cell.place, strict=True)}


def batch_endpoint(desk: BatchDesk, fallback: Fallback) -> Any:
    """The function behind `/batch`."""

    async def batch(
        prompts: str,
        request: gr.Request,
        kind: str = "text",
        variants: list[str] | None = None,
        seeds: int = 1,
        seed: int = 0,
        format: str = "png",
        settings: dict[str, Any] | None = None,
    ) -> AsyncIterator[dict[str, Any]]:
        """Draw many prompts: an answer now and then with how far it is, the last with the zip.

        `prompts` is text: a prompt a line, or with `kind` "csv", "jsonl" or "template"
        ("a {red|blue} {cat|dog}") as the Batch page reads it; `settings` hold for all, as
        {"cfg_scale": 2}. Each answer has "done" of "total", "rate" (pictures a second) and
        "left_s"; in the last one "zip" is the address, under this server's, of the pictures with
        their metadata.jsonl. Who stops reading stops the batch.
        """
        order = {
            "prompts": prompts,
            "kind": kind,
            "variants": variants or ["pocket-ar"],
            "seeds": seeds,
            "seed": seed,
            "format": format,
            "settings": settings or {},
        }
        with fallback.in_words():
            owner, place = fallback.count(request, MAX_ORDER_BYTES)
            plan = await run_in_threadpool(read_order, order, desk.most_pictures)
            run = await _started(desk, owner, plan, place)
        try:
            while run.state == "running":
                yield run.status()
                await asyncio.sleep(_LOOK_S)
        finally:
            desk.stop(run)
        done = run.status()
        yield {**done, "zip": f"batch/{run.name}/pictures.zip" if done["done"] else ""}

    return batch


async def _started(desk: BatchDesk, owner: str, plan: Plan, place: str) -> Run:
    """A run at work; none that lives on when its caller goes away in this very moment."""
    call = asyncio.get_running_loop().run_in_executor(None, desk.start, owner, plan, place)
    try:
        return await asyncio.shield(call)
    except asyncio.CancelledError:
        call.add_done_callback(
            lambda over: None if over.cancelled() or over.exception() else desk.stop(over.result())
        )
        raise
