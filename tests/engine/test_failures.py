"""What goes wrong with one picture stays with it, and the worker serves on."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from engine import worker
from engine.events import Failed, Finished
from engine.failures import explain, is_out_of_memory
from models.contracts import BrokenPicture
from tests.engine.fakes import FakeState, FakeWorld, Hold, end, picture, request, running

POISON = 666


def poison(states: Sequence[FakeState]) -> None:
    """A request that breaks every step it takes part in, from its fourth on."""
    if any(state.settings.seed == POISON and state.step >= 3 for state in states):
        raise RuntimeError("index out of bounds")


def test_a_poisoned_request_does_not_hurt_its_batch_mates() -> None:
    seeds = [1, 2, POISON, 3]
    with running(FakeWorld()) as engine:
        clean = {s: picture(engine.submit(request(seed=s), "me")) for s in seeds}
    world, hold = FakeWorld(), Hold()
    with running(world) as engine:
        world.sampler.before_step = hold
        first = engine.submit(request("first"), "first")
        assert hold.reached.wait(10)
        jobs = {seed: engine.submit(request(seed=seed), f"owner-{seed}") for seed in seeds}
        world.sampler.before_step = poison
        hold.release()
        assert isinstance(end(first), Finished)
        failure = end(jobs[POISON])
        assert isinstance(failure, Failed)
        assert "index out of bounds" in failure.message and "not affected" in failure.message
        for seed in (1, 2, 3):
            assert (picture(jobs[seed]) == clean[seed]).all()
        assert max(map(len, world.sampler.batches)) >= 4, "they never met"
        assert engine.status().counters.failed == 1
        picture(engine.submit(request("afterwards"), "me"))


def test_out_of_memory_makes_batches_smaller_and_loses_nothing() -> None:
    world, hold = FakeWorld(), Hold()

    def short(states: Sequence[FakeState]) -> None:
        if len(states) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")

    with running(world) as engine:
        world.sampler.before_step = hold
        jobs = [engine.submit(request(seed=0), "me", "0")]
        assert hold.reached.wait(10)
        jobs += [engine.submit(request(seed=i), "me", f"{i}") for i in range(1, 6)]
        world.sampler.before_step = short
        hold.release()
        for job in jobs:
            assert isinstance(end(job), Finished)
        assert engine.status().max_batch <= 3
        assert engine.status().counters.failed == 0


def test_the_batch_limit_rises_again_after_a_tight_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "_STEPS_TO_REGAIN", 3)
    world, hold, tight = FakeWorld(), Hold(), [True]

    def short(states: Sequence[FakeState]) -> None:
        if tight and len(states) > 2:
            tight.clear()
            raise torch.OutOfMemoryError("CUDA out of memory.")

    with running(world) as engine:
        usual = engine.status().max_batch
        world.sampler.before_step = hold
        jobs = [engine.submit(request(seed=0, ar_iterations=64), "me", "0")]
        assert hold.reached.wait(10)
        jobs += [
            engine.submit(request(seed=i, ar_iterations=64), "me", f"{i}") for i in range(1, 10)
        ]
        world.sampler.before_step = short
        hold.release()
        for job in jobs:
            assert isinstance(end(job), Finished)
        assert not tight and engine.status().max_batch == usual


def test_out_of_memory_alone_is_explained() -> None:
    world = FakeWorld()

    def short(states: Sequence[FakeState]) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    with running(world) as engine:
        world.sampler.before_step = short
        failure = end(engine.submit(request(), "me"))
        assert isinstance(failure, Failed)
        assert "memory" in failure.message and "try again" in failure.message
        assert "CUDA" not in failure.message, "the message is for a person"
        world.sampler.before_step = lambda states: None
        picture(engine.submit(request(), "me"))


def test_a_broken_picture_is_never_a_black_tile() -> None:
    world, hold = FakeWorld(), Hold()

    def break_last(states: Sequence[FakeState]) -> None:
        for state in states:
            if state.settings.seed == POISON:
                state.noise.fill_(float("nan"))

    with running(world) as engine:
        world.sampler.before_step = hold
        first = engine.submit(request(seed=1), "a")
        assert hold.reached.wait(10)
        broken = engine.submit(request(seed=POISON), "b")
        mate = engine.submit(request(seed=2), "c")
        world.sampler.before_step = break_last
        hold.release()
        failure = end(broken)
        assert isinstance(failure, Failed) and "not numbers" in failure.message
        assert "another seed" in failure.message
        assert isinstance(end(first), Finished)
        assert isinstance(end(mate), Finished)


def test_a_prompt_that_cannot_be_read_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    world = FakeWorld()
    with running(world) as engine:
        encode = world.text.encode

        def fussy(prompts: Sequence[str]) -> torch.Tensor:
            if "bad" in prompts[0]:
                raise UnicodeError("cannot read this")
            return encode(prompts)

        monkeypatch.setattr(world.text, "encode", fussy)
        bad = engine.submit(request("bad"), "a")
        good = engine.submit(request("good"), "b")
        failure = end(bad)
        assert isinstance(failure, Failed) and "cannot read this" in failure.message
        assert isinstance(end(good), Finished)


def test_a_failing_preview_does_not_fail_the_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    world = FakeWorld(step_work=10)
    with running(world) as engine:
        tried = []

        def fail(*_: object) -> list[object]:
            tried.append(1)
            raise RuntimeError("no preview today")

        monkeypatch.setattr(engine._previews, "make", fail)
        assert isinstance(end(engine.submit(request(), "me")), Finished)
        assert tried


def test_a_defect_of_the_engine_fails_its_batch_and_the_worker_lives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = FakeWorld()
    with running(world) as engine:
        with monkeypatch.context() as patch:

            def broken(*_: object) -> None:
                raise ZeroDivisionError

            patch.setattr(engine._reporter, "steps", broken)
            assert isinstance(end(engine.submit(request(), "me")), Failed)
        assert isinstance(end(engine.submit(request(), "me")), Finished)


@pytest.mark.parametrize(
    ("error", "short"),
    [
        (torch.OutOfMemoryError("x"), True),
        (MemoryError(), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried 9 bytes"), True),
        (RuntimeError("MPS backend out of memory"), True),
        (RuntimeError("shape mismatch"), False),
        (BrokenPicture("Not a number."), False),
        (ValueError("out of memory lane"), False),
    ],
)
def test_out_of_memory_is_recognised(error: Exception, short: bool) -> None:
    assert is_out_of_memory(error) is short
    assert explain(error, "Pocket AR").endswith(".")
