"""Named endpoints that make many pictures: `/grid` and `/batch`. See `ui.api`."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from typing import Any

import gradio as gr
from starlette.concurrency import run_in_threadpool

from engine.events import Failed, Finished, Pixels, Superseded
from engine.requests import GenerationRequest, InvalidRequest
from ui.batch.desk import BatchDesk, BatchLimit
from ui.batch.order import read_order
from ui.fallback import Fallback
from ui.grid.axes import parse_axis
from ui.grid.cells import Place, plan_grid
from ui.grid.sheet import sheet

MAX_GRID_CELLS = 64
_LOOK_S = 0.3


def grid_endpoint(fallback: Fallback) -> Any:
    """The function behind `/grid`."""

    async def grid(
        prompt: str,
        x: str,
        y: str,
        request: gr.Request,
        z: str = "",
        variant: str = "pocket-ar-joint",
        seed: int = 0,
    ) -> AsyncIterator[tuple[dict[str, Any], str]]:
        """Draw two or three settings against each other: an answer per cell, then the sheet.

        An axis is a setting and its values: "cfg_scale: 1-5 step 1", "seed: 0-3",
        "prompt: a fox | a cat", "variant: pocket-ar, pocket-ar-joint". Cells come as they are
        finished, as data URIs (JPEG) with their settings; the last answer has "event": "sheet"
        and a PNG with the axes' names and values.
        """
        base = GenerationRequest(prompt, variant, seed, preview_every=0, preview="off")
        try:
            axes = [parse_axis(text) for text in (x, y, z) if text.strip()]
            plan = plan_grid(axes, base)
            if len(plan.cells) > MAX_GRID_CELLS:
                raise InvalidRequest(
                    f"That makes {len(plan.cells)} pictures; at most {MAX_GRID_CELLS} in one grid "
                    "here. Shorten an axis."
                )
        except InvalidRequest as error:
            raise gr.Error(str(error), print_exception=False) from None
        names = [f"cell {n}" for n in range(len(plan.cells))]
        by_name = dict(zip(names, plan.cells, strict=True))
        wanted = [(name, cell.request.to_dict()) for name, cell in by_name.items()]
        jobs, owner = await fallback.ask(request, wanted)
        left, pictures = dict(jobs), dict[Place, Pixels]()
        try:
            for place, job in jobs.items():
                cell = by_name[place.slot]
                labels = {
                    axis.key: axis.values[n] for axis, n in zip(axes, cell.place, strict=True)
                }
                async for event in job.stream():
                    if not isinstance(event, Finished | Superseded | Failed):
                        continue
                    del left[place]
                    if isinstance(event, Finished):
                        pictures[cell.place] = event.image
                    header, uri = await fallback.answer(place, event, owner)
                    yield {**header, "cell": list(cell.place), "axes": labels}, uri
        finally:
            fallback.cancel(left.values())
        if pictures:
            png = base64.b64encode(await run_in_threadpool(sheet, plan, pictures)).decode()
            done = {"event": "sheet", "cells": len(pictures), "places": plan.size}
            yield done, f"data:image/png;base64,{png}"

    return grid


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
        ("a {red|blue} {cat|dog}") as the Batch page reads it. In the last answer "zip" is the
        address, under this server's, of the pictures with their metadata.jsonl. Who stops reading
        stops the batch.
        """
        order = {
            "prompts": prompts,
            "kind": kind,
            "variants": variants or ["pocket-ar-joint"],
            "seeds": seeds,
            "seed": seed,
            "format": format,
            "settings": settings or {},
        }
        try:
            owner = fallback.count(request)
            plan = await run_in_threadpool(read_order, order, desk.most_pictures)
            run = await run_in_threadpool(desk.start, owner, plan)
        except (ValueError, BatchLimit) as error:
            raise gr.Error(str(error), print_exception=False) from None
        try:
            while run.state == "running":
                yield run.status()
                await asyncio.sleep(_LOOK_S)
        finally:
            desk.stop(run)
        done = run.status()
        yield {**done, "zip": f"batch/{run.name}/pictures.zip" if done["done"] else ""}

    return batch
