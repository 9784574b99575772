"""The events of several jobs as one stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from engine.events import Event
from ui.frontdesk import Place


async def merged(jobs: dict[Place, Any]) -> AsyncIterator[tuple[Place, Event]]:
    """All jobs' events as they come. No task group: its scope must not be left open by a yield."""
    streams = {place: job.stream() for place, job in jobs.items()}
    waiting = {asyncio.ensure_future(anext(each)): place for place, each in streams.items()}
    try:
        while waiting:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                place = waiting.pop(task)
                try:
                    event = task.result()
                except StopAsyncIteration:
                    continue
                yield place, event
                waiting[asyncio.ensure_future(anext(streams[place]))] = place
    finally:
        for task in waiting:
            task.cancel()
