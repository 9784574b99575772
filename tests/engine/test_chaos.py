"""Two hundred visitors' whims, one accident, and afterwards everything is as it was."""

from __future__ import annotations

import gc
import random
import threading
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from engine.engine import Engine
from engine.events import Failed, Finished, Started, Step, Superseded
from engine.job import Job
from engine.limits import EngineLimits
from engine.scheduler import QueueFull
from models.contracts import SampleSettings
from tests.engine.fakes import FakeSampler, FakeState, FakeWorld, colour_of, picture, request
from tests.engine.test_pool import wait_for

OWNERS = 8
ACTS = 200


class Watched(FakeSampler):
    """Knows which samples are still in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.alive: weakref.WeakSet[FakeState] = weakref.WeakSet()

    def start(self, settings: SampleSettings, prompt: Any, unconditional: Any) -> FakeState:
        state = super().start(settings, prompt, unconditional)
        self.alive.add(state)
        return state


class Visitor(threading.Thread):
    """Reads one job to its end and checks that every frame is its own."""

    def __init__(self, job: Job) -> None:
        super().__init__(daemon=True)
        self.job, self.last, self.wrong = job, None, list[str]()
        self.start()

    def run(self) -> None:
        prompt = self.job.request.prompt
        for event in self.job.events():
            if isinstance(event, Started | Finished) and event.settings["prompt"] != prompt:
                self.wrong.append(f"settings of {event.settings['prompt']!r}")
            if isinstance(event, Step) and event.preview is not None:
                assert event.committed is not None
                self._check(event.preview, event.committed > 0, prompt)
            if isinstance(event, Finished):
                self._check(event.image, np.ones((8, 8), bool), prompt)
            self.last = event

    def _check(
        self, pixels: np.ndarray[Any, Any], there: np.ndarray[Any, Any], prompt: str
    ) -> None:
        shown = pixels[8::16, 8::16][there].astype(float).mean(0)
        if there.sum() >= 8 and np.abs(shown - colour_of(prompt)).max() > 16:
            self.wrong.append(f"{shown} is not {colour_of(prompt)}")


def test_whims_and_one_accident_leave_no_trace(silent: None) -> None:
    threads_before = threading.active_count()
    world, chance = FakeWorld(), random.Random(7)
    world.sampler = sampler = Watched()
    limits = EngineLimits(preview_share=1000, queue_size=24, queue_per_owner=8, max_batch=4)
    accidents: list[int] = []

    def accident(states: Sequence[FakeState]) -> None:
        if len(sampler.batches) > 40 and not accidents:
            accidents.append(len(states))
            raise RuntimeError("a cosmic ray")

    engine = Engine(world.load, ["pocket-ar"], limits=limits)
    try:
        assert engine.wait_ready(10)
        sampler.before_step = accident
        visitors: list[Visitor] = []
        refused = 0
        for act in range(ACTS):
            owner = f"owner-{chance.randrange(OWNERS)}"
            what = chance.random()
            if what < 0.75 or not visitors:
                slot = f"slot-{chance.randrange(4)}"
                asked = request(f"{owner} wants {act}", seed=act, preview_every=1)
                try:
                    visitors.append(Visitor(engine.submit(asked, owner, slot)))
                except QueueFull:
                    refused += 1
            elif what < 0.9:
                engine.cancel(chance.choice(visitors).job)
            else:
                engine.cancel_owner(owner)
            if act % 10 == 0:  # let the device come along
                steps = engine.status().counters.steps
                wait_for(
                    lambda s=steps: (  # type: ignore[misc]
                        engine.status().counters.steps > s + 3
                        or engine.status().running + engine.status().waiting == 0
                    )
                )
        for visitor in visitors:
            visitor.join(20)
            assert not visitor.is_alive(), "a reader never got its end"
        assert all(isinstance(v.last, Finished | Superseded | Failed) for v in visitors)
        assert not [wrong for v in visitors for wrong in v.wrong]
        ends = [type(visitor.last) for visitor in visitors]
        assert accidents and ends.count(Finished) > 5 and ends.count(Superseded) > 20
        assert ends.count(Failed) <= 1, "the accident reached others"

        counters = engine.status().counters
        assert counters.finished + counters.failed == len(visitors) - ends.count(Superseded)
        assert counters.supersedes + counters.cancels == ends.count(Superseded)
        assert counters.refused == refused
        assert engine.status().waiting == engine.status().running == 0
        assert not engine._desk._scheduler._owners

        picture(engine.submit(request("still serving"), "me"))
        del visitors, visitor

        def nothing_left() -> bool:
            gc.collect()
            return not sampler.alive

        wait_for(nothing_left)
        assert threading.active_count() == threads_before + 1
    finally:
        engine.close()
    assert threading.active_count() == threads_before


def test_five_hundred_cancels_leave_no_sample_behind(silent: None) -> None:
    world = FakeWorld()
    world.sampler = sampler = Watched()
    cancelled: list[bool] = []
    jobs: list[Job] = []
    engine = Engine(world.load, ["pocket-ar"])
    try:
        assert engine.wait_ready(10)

        def change_mind(states: Sequence[FakeState]) -> None:
            if states[0].step == 2:
                cancelled.append(engine.cancel(jobs[-1]))

        sampler.before_step = change_mind
        for seed in range(500):
            jobs.append(engine.submit(request(seed=seed), "me"))
            while jobs[-1].next(10) is not None:
                pass
        assert cancelled == [True] * 500

        def nothing_left() -> bool:
            gc.collect()
            return not sampler.alive

        wait_for(nothing_left)
    finally:
        engine.close()
