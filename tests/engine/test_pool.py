"""Loading, failing to load, and keeping within the memory budget."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence

import pytest
import torch

from engine.engine import Engine, Progress
from engine.events import Failed, Finished, Queued
from engine.limits import EngineLimits
from models.contracts import LoadedVariant
from tests.engine.fakes import FakeState, FakeWorld, end, picture, request, running

BOTH = ("pocket-ar", "pocket-ar-joint")
OWN, SHARED = 1024, 256


def wait_for(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    """For states that have no event of their own."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.002)


def state_of(engine: Engine, variant_id: str) -> str:
    return next(v.state for v in engine.status().variants if v.id == variant_id)


def test_a_variant_that_fails_to_load_leaves_the_others_serving() -> None:
    world = FakeWorld()
    world.failures["pocket-ar"] = FileNotFoundError("pocket-ar.safetensors is missing.")
    with running(world, BOTH) as engine:
        status = engine.status()
        assert status.ready == ("pocket-ar-joint",)
        assert "is missing" in status.variants[0].message
        failure = end(engine.submit(request(), "me"))
        assert isinstance(failure, Failed)
        assert "Pocket AR is not available: pocket-ar.safetensors is missing." in failure.message
        picture(engine.submit(request(variant="pocket-ar-joint"), "me"))


def test_weights_that_give_no_numbers_fail_at_start_not_at_a_visitor() -> None:
    world = FakeWorld()
    decode = world.autoencoder.decode
    world.autoencoder.decode = lambda latents: decode(latents * float("nan"))  # type: ignore
    with running(world) as engine:
        assert state_of(engine, "pocket-ar") == "failed"
        assert "not numbers" in engine.status().variants[0].message


def test_requests_wait_for_a_variant_that_is_loading() -> None:
    world = FakeWorld()
    gate = world.gates["pocket-ar-joint"] = threading.Event()
    engine = Engine(world.load, BOTH)
    try:
        late = engine.submit(request(variant="pocket-ar-joint"), "me", "late")
        assert isinstance(late.next(5), Queued)
        picture(engine.submit(request(), "me"))  # the first serves while the second loads
        wait_for(lambda: state_of(engine, "pocket-ar-joint") == "loading")
        assert [variant.grid for variant in engine.variants()] == [8, 8]
        assert engine.status().variants[1].variant is engine.variants()[1]
        assert not engine.wait_ready(timeout=0)
        assert engine.describe_prompt("pocket-ar-joint", "a cat").tokens is None
        gate.set()
        assert isinstance(end(late), Finished)
        assert engine.wait_ready(5)
    finally:
        gate.set()
        engine.close()


def test_others_are_served_while_a_variant_is_warmed() -> None:
    world = FakeWorld(step_work=6)
    gate = world.gates["pocket-ar"] = threading.Event()
    served: list[int] = []  # steps of others, at each piece of the warm-up

    def during_warm_up(states: Sequence[FakeState]) -> None:
        served.append(engine.status().counters.steps)

    def load(variant_id: str, progress: Progress) -> LoadedVariant:
        loaded = world.load(variant_id, progress)
        if variant_id == "pocket-ar":
            loaded.sampler.before_step = during_warm_up
        return loaded

    engine = Engine(load, BOTH[::-1])
    try:
        wait_for(lambda: state_of(engine, "pocket-ar-joint") == "ready")
        jobs = [
            engine.submit(
                request(variant="pocket-ar-joint", ar_iterations=64, seed=n), "me", f"{n}"
            )
            for n in range(40)
        ]
        gate.set()
        assert engine.wait_ready(5)
        assert all(isinstance(end(job), Finished) for job in jobs)
        assert len(set(served)) > 2, "no step of others between the pieces of the warm-up"
    finally:
        gate.set()
        engine.close()


def test_requests_that_wait_for_a_variant_hear_that_it_failed() -> None:
    world = FakeWorld()
    gate = world.gates["pocket-ar"] = threading.Event()
    world.failures["pocket-ar"] = RuntimeError("the file is damaged")
    engine = Engine(world.load, ["pocket-ar"])
    try:
        job = engine.submit(request(), "me")
        gate.set()
        failure = end(job)
        assert isinstance(failure, Failed) and "the file is damaged" in failure.message
    finally:
        gate.set()
        engine.close()


def test_warm_up_measures_and_progress_is_shown() -> None:
    world = FakeWorld()
    with running(world, BOTH) as engine:
        status = engine.status()
        assert set(status.step_ms) == set(status.decode_ms) == set(BOTH)
        assert all(v.progress == 1 and v.message == "Ready." for v in status.variants)


def test_memory_counts_shared_parts_once() -> None:
    with running(FakeWorld(), BOTH) as engine:
        memory = engine.status().memory
        assert (memory.own_bytes, memory.shared_bytes) == (2 * OWN, SHARED)


def test_beyond_the_budget_the_default_variant_stays_and_the_other_says_so() -> None:
    limits = EngineLimits(memory_bytes=OWN + SHARED)
    with running(FakeWorld(), BOTH, limits) as engine:
        first, second = engine.status().variants
        assert (first.state, second.state) == ("ready", "waiting")
        assert "Set aside" in second.message


def test_a_hundred_switches_keep_memory_flat_and_pictures_right() -> None:
    world = FakeWorld()
    limits = EngineLimits(memory_bytes=OWN + SHARED, results_cached=0)
    with running(world, BOTH, limits) as engine:
        wanted = picture(engine.submit(request(), "me"))
        choose = random.Random(1)
        for _ in range(100):
            variant = choose.choice(BOTH)
            image = picture(engine.submit(request(variant=variant, ar_iterations=12), "me"))
            assert (image == wanted).all()
            assert engine.status().memory.total_bytes <= OWN + SHARED
        assert len(world.loads) > 10, "nothing was ever switched"


def test_two_variants_under_a_budget_for_one_both_finish() -> None:
    limits = EngineLimits(memory_bytes=OWN + SHARED)
    with running(FakeWorld(), BOTH, limits) as engine:
        jobs = [
            engine.submit(request(variant=BOTH[i % 2], seed=i), f"owner-{i % 3}", f"{i}")
            for i in range(20)
        ]
        for job in jobs:
            assert isinstance(end(job), Finished)


def test_on_an_accelerator_variants_move_instead_of_being_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    moves: list[str] = []
    monkeypatch.setattr(
        "models.contracts.LoadedVariant.move", lambda self, device: moves.append(device.type)
    )
    world = FakeWorld()
    limits = EngineLimits(memory_bytes=OWN + SHARED)
    engine = Engine(world.load, BOTH, device=torch.device("meta"), limits=limits)
    try:
        assert engine.wait_ready(10)
        assert [v.on_device for v in engine.status().variants] == [True, False]
        picture(engine.submit(request(variant="pocket-ar-joint"), "me"))
        assert [v.on_device for v in engine.status().variants] == [False, True]
        assert moves == ["cpu", "cpu", "meta"]
        assert world.loads == list(BOTH), "nothing was read from disk again"
    finally:
        engine.close()


def test_closing_while_loading_leaves_no_thread() -> None:
    world = FakeWorld()
    gate = world.gates["pocket-ar"] = threading.Event()
    before = threading.active_count()
    engine = Engine(world.load, ["pocket-ar"])
    closer = threading.Thread(target=engine.close)
    closer.start()
    gate.set()
    closer.join(10)
    wait_for(lambda: threading.active_count() == before)
