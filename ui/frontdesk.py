"""Asking the engine for pictures, from an event loop and with its refusals as HTTP's."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from engine.engine import EngineClosed, QueueFull
from engine.events import Pixels
from engine.requests import GenerationRequest, InvalidRequest
from ui.frames import jpeg
from ui.guard import Refusal


class Place(NamedTuple):
    """Where a picture belongs: the slot that was asked, and its place among the slot's pictures."""

    slot: str
    place: int = 0  # from 0
    count: int = 1


class FrontDesk:
    """One for all transports. Its threads are its own: no crowd elsewhere can use them up."""

    def __init__(self, engine: Any):
        self._engine = engine
        self._submitter = ThreadPoolExecutor(1, thread_name_prefix="submit")  # first come, first in
        self._encoders = ThreadPoolExecutor(2, thread_name_prefix="jpeg")

    async def submit(
        self, owner: str, wanted: Sequence[tuple[str, GenerationRequest]]
    ) -> dict[Place, Any]:
        """Jobs by place: all of them or, with a `Refusal`, none.

        In a thread, for the engine may be moving a variant's weights just then; in one thread, for
        a page's newer request must not be overtaken by its older one. Who leaves while it waits
        leaves no job behind.
        """
        loop = asyncio.get_running_loop()
        call = loop.run_in_executor(self._submitter, self._submit, owner, wanted)
        try:
            return await asyncio.shield(call)
        except asyncio.CancelledError:
            call.add_done_callback(self._abandon)
            raise

    async def jpeg(self, pixels: Pixels, quality: int) -> bytes:
        """Encoded in a thread."""
        return await asyncio.get_running_loop().run_in_executor(
            self._encoders, jpeg, pixels, quality
        )

    def cancel(self, job: Any) -> None:
        """Nobody waits for this picture any more."""
        self._engine.cancel(job)

    def _submit(
        self, owner: str, wanted: Sequence[tuple[str, GenerationRequest]]
    ) -> dict[Place, Any]:
        jobs: dict[Place, Any] = {}
        try:
            for slot, request in wanted:
                if request.count == 1:
                    jobs[Place(slot)] = self._engine.submit(request, owner, slot)
                    continue
                made = self._engine.submit_many(request, owner, slot)
                jobs |= {Place(slot, n, len(made)): job for n, job in enumerate(made)}
        except Exception as error:
            for job in jobs.values():
                self._engine.cancel(job)
            raise _refusal(error) or error from None
        return jobs

    def _abandon(self, call: asyncio.Future[dict[Place, Any]]) -> None:
        if not call.cancelled() and call.exception() is None:
            for job in call.result().values():
                self._engine.cancel(job)


def _refusal(error: Exception) -> Refusal | None:
    """A full queue with its expected wait, a closing server; None for what is no refusal."""
    if isinstance(error, InvalidRequest):
        return Refusal(400, str(error))
    if isinstance(error, QueueFull):
        return Refusal(503, str(error), retry_after=max(1.0, error.expected_wait_s))
    if isinstance(error, EngineClosed):
        return Refusal(503, str(error), retry_after=2.0)
    return None
