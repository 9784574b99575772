"""What is measured while the engine draws, and that whoever looks holds nobody up."""

from __future__ import annotations

import threading
from bisect import bisect_left

import torch
from hypothesis import given
from hypothesis import strategies as st

from engine.engine import Engine
from engine.events import Failed
from engine.limits import EngineLimits
from engine.measures import BATCH_BOUNDS, Histogram
from tests.engine.fakes import FakeWorld, Hold, end, picture, request, running


@given(st.lists(st.floats(0, 100)))
def test_every_value_is_counted_under_the_first_bound_that_holds_it(values):
    histogram = Histogram((1.0, 2.0, 50.0))
    for value in values:
        histogram.add(value)
    seen = histogram.look()
    assert seen.count == len(values) and abs(seen.total - sum(values)) < 1e-6
    for n, bound in enumerate(seen.bounds):
        assert sum(seen.counts[: n + 1]) == sum(value <= bound for value in values)


def test_steps_and_batches_are_measured_by_variant() -> None:
    world, hold = FakeWorld(), Hold()
    with running(world, ("pocket-ar", "pocket-ar-joint")) as engine:
        world.samplers["pocket-ar"].before_step = hold
        jobs = [engine.submit(request(ar_iterations=3), "me", "0")]
        assert hold.reached.wait(5)
        jobs += [engine.submit(request(f"{n}", ar_iterations=3), "me", f"{n}") for n in (1, 2)]
        hold.release()
        for job in jobs:
            picture(job)
        measured = engine.measures()
    steps = world.samplers["pocket-ar"].batches
    assert measured.step_s["pocket-ar"].count == len(steps) == 4  # one alone, two of 3, one of 2
    sizes = measured.batch_size["pocket-ar"]
    assert sizes.total == 9 and sizes.counts[bisect_left(BATCH_BOUNDS, 3)] == 2
    assert measured.step_s["pocket-ar-joint"].count == 0
    assert measured.device_bytes is None  # on a CPU nobody counts


def test_readiness_and_measures_are_told_while_weights_move() -> None:
    """The pool's lock is held then, for seconds with large models."""
    with running(FakeWorld()) as engine:
        held, go = threading.Event(), threading.Event()

        def hold() -> None:
            with engine._pool._changed:
                held.set()
                go.wait(10)

        thread = threading.Thread(target=hold)
        thread.start()
        try:
            assert held.wait(5)
            answers: list = []
            asker = threading.Thread(
                target=lambda: answers.extend([engine.ready, engine.measures()])
            )
            asker.start()
            asker.join(5)
            assert answers and answers[0] is True
        finally:
            go.set()
            thread.join()


def test_nothing_is_ready_before_the_first_variant_or_after_the_end() -> None:
    world = FakeWorld()
    world.gates["pocket-ar"] = gate = threading.Event()
    engine = Engine(world.load, ["pocket-ar"])
    assert not engine.ready
    gate.set()
    assert engine.wait_ready(10) and engine.ready
    engine.close()
    assert not engine.ready


def test_failures_are_counted_by_kind_and_add_up(silent: None) -> None:
    world = FakeWorld()
    world.failures["nitro-ar-gan"] = ValueError("no weights")
    errors = {
        "memory": torch.OutOfMemoryError("CUDA out of memory"),
        "defect": ZeroDivisionError("oops"),
    }
    with running(world, ("pocket-ar", "nitro-ar-gan"), EngineLimits(results_cached=0)) as engine:
        kinds = {}
        for name, error in errors.items():

            def fail(states, error=error) -> None:
                raise error

            world.samplers["pocket-ar"].before_step = fail
            ending = end(engine.submit(request(name), "me"))
            assert isinstance(ending, Failed)
            kinds[name] = ending.kind
        world.samplers["pocket-ar"].before_step = lambda states: states[0].noise.fill_(torch.nan)
        kinds["broken"] = end(engine.submit(request("nan", ar_iterations=1), "me")).kind
        kinds["missing"] = end(engine.submit(request(variant="nitro-ar-gan"), "me")).kind
        counted = engine.status().counters
    assert kinds == {
        "memory": "out_of_memory",
        "defect": "error",
        "broken": "broken_picture",
        "missing": "unavailable",
    }
    assert (counted.failed, counted.failed_out_of_memory) == (4, 1)
    assert (counted.failed_broken_picture, counted.failed_unavailable) == (1, 1)
    assert counted.out_of_memory == 1 and counted.submitted == 4


def test_memory_that_ran_out_is_counted_though_nothing_failed(silent: None) -> None:
    world, hold = FakeWorld(), Hold()
    with running(world) as engine:
        sampler = world.samplers["pocket-ar"]
        sampler.before_step = hold
        jobs = [engine.submit(request("first", ar_iterations=2), "me", "0")]
        assert hold.reached.wait(5)
        jobs += [engine.submit(request(f"{n}"), "me", f"{n}") for n in range(1, 4)]

        def small_batches_only(states) -> None:
            if len(states) > 2:
                raise torch.OutOfMemoryError("CUDA out of memory")

        sampler.before_step = small_batches_only
        hold.release()
        for job in jobs:
            picture(job)
        counted = engine.status().counters
    assert counted.out_of_memory == 1 and counted.failed == 0 and counted.retried > 0
