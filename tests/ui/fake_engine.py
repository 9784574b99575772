"""An engine that draws coloured squares: the real one's API with nothing to load.

Pictures depend on the prompt and the seed alone, so a test can tell whose picture is shown.
"""

from __future__ import annotations

import asyncio
import hashlib
import queue
import threading
import time
from collections.abc import AsyncIterator, Iterator
from types import SimpleNamespace

import numpy as np

from engine.events import Event, Failed, Finished, Queued, Started, Step, Superseded, Timings
from engine.requests import GenerationRequest, InvalidRequest
from engine.scheduler import QueueFull
from engine.status import PromptInfo, VariantStatus
from models.catalogue import CATALOGUE, Variant, find_variant


def _status(variant: Variant, weights: str) -> VariantStatus:
    if variant.embedded:
        return VariantStatus(variant.id, variant.title, "ready", weights="pocket")
    if weights == "random":
        return VariantStatus(variant.id, variant.title, "ready", weights="random")
    message = f"{variant.title} has no weights here yet. Missing: {variant.weights_file}."
    return VariantStatus(variant.id, variant.title, "failed", message)


def colour(prompt: str, seed: int) -> tuple[int, int, int]:
    digest = hashlib.sha256(f"{prompt}|{seed}".encode()).digest()
    return digest[0], digest[1], digest[2]


class Job:
    def __init__(self, request: GenerationRequest, owner: str, slot: str):
        self.request, self.owner, self.slot = request, owner, slot
        self.cancelled: str | None = None
        self.submitted = time.perf_counter()
        self._events: queue.Queue[Event] = queue.Queue()

    def publish(self, event: Event) -> None:
        self._events.put(event)

    def events(self) -> Iterator[Event]:
        while True:
            event = self._events.get()
            yield event
            if isinstance(event, Finished | Superseded | Failed):
                return

    async def stream(self) -> AsyncIterator[Event]:
        while True:
            while self._events.empty():
                await asyncio.sleep(0.002)
            event = self._events.get()
            yield event
            if isinstance(event, Finished | Superseded | Failed):
                return


class FakeEngine:
    def __init__(self, step_s: float = 0.03, capacity: int = 64, weights: str = "pocket"):
        self.step_s, self.capacity = step_s, capacity
        self.steps_executed = 0
        self.submitted: list[GenerationRequest] = []
        self.cancels = 0
        self.statuses = [_status(variant, weights) for variant in CATALOGUE]
        self._jobs: list[Job] = []
        self._wake = threading.Condition()
        self._open = True
        threading.Thread(target=self._work, daemon=True).start()

    def variants(self) -> tuple[Variant, ...]:
        return CATALOGUE

    def status(self) -> SimpleNamespace:
        return SimpleNamespace(variants=tuple(self.statuses))

    def wait_ready(self, timeout: float | None = None) -> bool:
        return True

    def describe_prompt(self, variant_id: str, prompt: str) -> PromptInfo:
        find_variant(variant_id)
        words = prompt.split()
        known = {"a", "an", "fox", "owl", "on", "blue", "pink", "background", "left", "of", "the"}
        unknown = tuple(word for word in words if word.lower() not in known)
        return PromptInfo(len(words) + 1, 24, unknown)

    def submit(self, request: GenerationRequest, owner: str, slot: str = "live") -> Job:
        request = request.resolved()
        for entry in self.statuses:
            if entry.id == request.variant and entry.state == "failed":
                raise InvalidRequest(entry.message)
        job = Job(request, owner, slot)
        with self._wake:
            if len(self._jobs) >= self.capacity:
                raise QueueFull("The queue is full; about 4 s until a place is free.", 4.0)
            for other in self._jobs:
                if (other.owner, other.slot) == (owner, slot):
                    other.cancelled = other.cancelled or "newer"
            self.submitted.append(request)
            self._jobs.append(job)
            job.publish(Queued(len(self._jobs) - 1, 0.0))
            self._wake.notify()
        return job

    def cancel(self, job: Job) -> None:
        self.cancels += 1
        job.cancelled = job.cancelled or "cancelled"

    def cancel_owner(self, owner: str) -> None:
        for job in list(self._jobs):
            if job.owner == owner:
                self.cancel(job)

    def close(self) -> None:
        self._open = False
        with self._wake:
            self._wake.notify()

    def _work(self) -> None:
        while self._open:
            with self._wake:
                while not self._jobs and self._open:
                    self._wake.wait(0.5)
                jobs = list(self._jobs)
            for job in jobs:
                self._draw(job)
                with self._wake:
                    self._jobs.remove(job)

    def _draw(self, job: Job) -> None:
        request = job.request
        variant = find_variant(request.variant)
        total, side, grid = request.ar_iterations or 1, variant.resolution, variant.grid
        order = np.random.default_rng(request.seed).permutation(grid * grid)
        settings = request.to_dict()
        weights = next(s.weights for s in self.statuses if s.id == variant.id)
        job.publish(Started(settings, total, weights or "official"))
        target = np.full((side, side, 3), colour(request.prompt, request.seed), np.uint8)
        committed = np.zeros(grid * grid, np.int16)
        first = None
        for index in range(1, total + 1):
            if job.cancelled:
                job.publish(Superseded(job.cancelled))  # type: ignore[arg-type]
                return
            time.sleep(self.step_s)
            self.steps_executed += 1
            if "explode" in request.prompt:
                job.publish(Failed("The picture came out broken; nothing else is affected."))
                return
            lo, hi = (index - 1) * grid * grid // total, index * grid * grid // total
            committed[order[lo:hi]] = index
            cells = committed.reshape(grid, grid)
            ms = (time.perf_counter() - job.submitted) * 1000
            due = request.preview_every and index % request.preview_every == 0
            preview = None
            if due:
                first = first or ms
                mask = np.kron(cells > 0, np.ones((side // grid, side // grid), bool))
                preview = np.where(mask[..., None], target, np.uint8(128)).astype(np.uint8)
            job.publish(
                Step(
                    index,
                    total,
                    cells.copy(),
                    preview,
                    "decoder" if due else None,
                    Timings(0.0, first, ms),
                )
            )
        ms = (time.perf_counter() - job.submitted) * 1000
        job.publish(
            Finished(
                target,
                committed.reshape(grid, grid),
                request.seed,
                settings,
                total,
                Timings(0.0, first, ms),
            )
        )
