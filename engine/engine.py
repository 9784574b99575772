"""The engine: the one door between the page and the models.

    engine = Engine(load, ["pocket-ar"], device="cpu")
    job = engine.submit(GenerationRequest(prompt="a red apple"), owner="me")
    for event in job.events():
        ...

It knows nothing of HTTP. Every method may be called from any thread, and none waits for the
device except `wait_ready` and `close`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Self

import torch

from engine.clock import Clock
from engine.conditioning import Conditioning
from engine.desk import PLACE_MARK, Desk, EngineClosed
from engine.events import Failed, Pixels, Started, Timings
from engine.inputs import check_base
from engine.job import Job
from engine.limits import EngineLimits
from engine.measures import Measured, Measures
from engine.pictures import Pictures
from engine.pool import Load, Pool, Progress
from engine.previews import Previews
from engine.reporting import Reporter, finish_job
from engine.requests import GenerationRequest, InvalidRequest, clean_prompt
from engine.results import Result, Results
from engine.scheduler import QueueFull, Ticket
from engine.status import EngineStatus, PromptInfo
from engine.worker import Worker
from models.captions import prepared
from models.catalogue import Variant, find_variant

__all__ = ["Engine", "EngineClosed", "InvalidRequest", "Job", "Load", "Progress", "QueueFull"]


class Engine:
    """Loads and warms the given variants in order, at once, and serves until `close`.

    `load` reads one variant's weights; it is called in a thread of its own and may take minutes.
    """

    def __init__(
        self,
        load: Load,
        variant_ids: Sequence[str],
        *,
        device: torch.device | str = "cpu",
        limits: EngineLimits | None = None,
    ) -> None:
        if not variant_ids:
            raise ValueError("An engine needs at least one variant.")
        self._limits = limits = limits or EngineLimits()
        self._device = where = torch.device(device)
        self._clock = clock = Clock()
        self._desk = desk = Desk(limits)
        self._results = Results(limits)
        self._pictures = pictures = Pictures(limits)
        self._conditioning = Conditioning(limits)
        self._previews = previews = Previews(limits, clock)
        self._reporter = reporter = Reporter(
            desk, previews, self._results, pictures, clock, limits, where
        )
        variants = [find_variant(name) for name in dict.fromkeys(variant_ids)]
        self._measures = Measures(variant.id for variant in variants)
        self._pool = Pool(load, variants, where, limits.memory_bytes, desk.poke, self._on_dropped)
        self._worker = Worker(
            desk,
            self._pool,
            self._conditioning,
            previews,
            reporter,
            clock,
            self._measures,
            limits,
            where,
        )
        self._worker.start()
        self._pool.start_loading()

    # ---- pictures ----

    def submit(self, request: GenerationRequest, owner: str, slot: str = "live") -> Job:
        """Ask for a picture. A newer job of the same owner and slot takes an older one's place.

        Raises `InvalidRequest`, `QueueFull` (with `expected_wait_s`) or `EngineClosed`; all carry
        a message for the person. Anything later arrives as the job's events.
        """
        if request.count != 1:
            raise InvalidRequest("This way draws one picture; leave `count` at 1.")
        return self.submit_many(request, owner, slot)[0]

    def submit_many(self, request: GenerationRequest, owner: str, slot: str = "live") -> list[Job]:
        """Ask for `request.count` pictures: a job each, by rising seed, batched as there is room.

        Together they have the slot: a newer request in it takes the place of all of them. All are
        asked for or none; raises what `submit` raises.
        """
        request, jobs = request.resolved(), []
        try:
            for place, part in enumerate(request.pictures()):
                own = f"{slot}{PLACE_MARK}{place}" if place else slot
                jobs.append(self._submit(part, owner, own))
        except Exception:
            for job in jobs:
                self.cancel(job)
            raise
        self._desk.withdraw_beyond(owner, slot, request.count)
        return jobs

    def _submit(self, request: GenerationRequest, owner: str, slot: str) -> Job:
        if request.variant not in (known := [v.id for v in self._pool.variants()]):
            raise InvalidRequest(
                f"{request.variant} is not served here. Available: {', '.join(known)}."
            )
        base = self._pictures.get(owner, request.base) if request.base else None
        if request.base:
            check_base(request, base)
        job = Job(request=request, owner=owner, slot=slot)
        message = self._pool.failure(request.variant)
        if message is not None:
            title = find_variant(request.variant).title
            self._desk.count(submitted=1, failed=1, failed_unavailable=1)
            job.channel.put(Failed(f"{title} is not available: {message}", "unavailable"))
            return job
        result = self._results.get(request)
        if result is not None:
            self._desk.reuse(owner, slot)
            _reuse(job, result, self._pictures)
            return job
        again = self._results.at_another_size(request)
        steps = 0 if again else _expected_steps(request)
        step_s = self._step_s(request.variant)
        self._desk.submit(Ticket(job, steps, step_s, base=base, again=again))
        return job

    # ---- pictures to start from ----

    def add_picture(self, pixels: Pixels, owner: str) -> str:
        """Keep a square RGB picture, uint8 [S, S, 3], for its owner; the name for requests.

        It is bounded in count and bytes with the owner's finished pictures, least recently used
        first. Raises `ValueError` for another shape.
        """
        return self._pictures.upload(owner, pixels)

    def picture(self, name: str, owner: str) -> Pixels | None:
        """A kept picture's pixels, read-only; None if it is gone or somebody else's."""
        kept = self._pictures.get(owner, name)
        return kept.pixels if kept else None

    def cancel(self, job: Job) -> bool:
        """Stop a job within one step; its end is `Superseded("cancelled")`. False if it was over."""
        return self._desk.withdraw(job.id, job.owner, job.slot)

    def cancel_owner(self, owner: str) -> int:
        """Stop everything of one owner (who left, say); how many jobs that were."""
        return self._desk.withdraw_owner(owner)

    # ---- looking ----

    @property
    def alive(self) -> bool:
        """Whether pictures can be drawn: the worker runs. For health checks."""
        return self._worker.alive

    @property
    def ready(self) -> bool:
        """Whether some variant can draw at this moment. Waits for nothing, not even for a lock."""
        return self.alive and bool(self._pool.ready())

    @property
    def device_name(self) -> str:
        """The device in a person's words."""
        if self._device.type == "cuda":
            return str(torch.cuda.get_device_name(self._device))
        return f"{self._device.type.upper()}, {os.cpu_count()} cores, {torch.get_num_threads()} threads"

    def variants(self) -> tuple[Variant, ...]:
        """The catalogue's entries this engine serves, ready or not, in the configured order.

        Their states are in `status().variants`, in the same order.
        """
        return self._pool.variants()

    def describe_prompt(self, variant_id: str, prompt: str) -> PromptInfo:
        """How the variant reads a prompt, for a token counter. Empty until it is loaded.

        Raises `InvalidRequest` for an unknown variant or a prompt that would be refused.
        """
        if variant_id not in [v.id for v in self._pool.variants()]:
            raise InvalidRequest(f"There is no variant {variant_id!r} here.")
        loaded = self._pool.get(variant_id)
        if loaded is None:
            return PromptInfo()
        return self._conditioning.describe(
            loaded, prepared(clean_prompt(prompt), loaded.variant.caption)
        )

    def status(self) -> EngineStatus:
        waiting, running, counters = self._desk.look()
        return EngineStatus(
            variants=self._pool.status(),
            waiting=waiting,
            running=running,
            max_batch=self._worker.max_batch,
            memory=self._pool.memory(),
            counters=counters,
            step_ms=Clock.milliseconds(self._clock.step),
            decode_ms=Clock.milliseconds(self._clock.decode),
            closed=self._desk.closed,
        )

    def measures(self) -> Measured:
        """How long steps have taken and how full batches were, since the start."""
        return self._measures.look()

    def wait_ready(self, timeout: float | None = None) -> bool:
        """Until every variant is ready, failed or set aside; false if the time was up before."""
        return self._pool.wait_settled(timeout)

    def close(self, timeout: float = 10.0) -> None:
        """End all jobs with `Superseded("closed")` and stop the threads. May be called twice."""
        self._desk.close()
        self._worker.join(timeout)
        self._pool.close(timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- inside ----

    def _on_dropped(self, variant_id: str) -> None:
        self._worker.dropped(variant_id)

    def _step_s(self, variant_id: str) -> float:
        return self._clock.step[variant_id].or_guess()


def _expected_steps(request: GenerationRequest) -> int:
    """An estimate for the queue; the sampler's own count replaces it when the job begins."""
    variant = find_variant(request.variant)
    steps = variant.steps(request.ar_iterations or 1, request.flow_steps or 1)
    return max(1, steps - request.fork_step)


def _reuse(job: Job, result: Result, pictures: Pictures) -> None:
    """The events of a picture that was made before."""
    settings = job.request.to_dict()
    job.channel.put(Started(settings, result.steps, result.weights, result.notes))
    took = 1000 * (time.perf_counter() - job.submitted)
    job.channel.put(finish_job(job, result, Timings(total_ms=took), pictures))
