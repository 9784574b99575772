"""Many pictures of one request: seeds counting up, batched, and no privilege over one picture."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from engine.engine import Engine
from engine.events import Finished, Superseded
from engine.limits import EngineLimits
from engine.requests import MAX_SEED, InvalidRequest
from engine.scheduler import QueueFull
from tests.engine.fakes import FakeState, FakeWorld, Hold, end, picture, request, running


def seeds(engine: Engine, count: int, seed: int = 0) -> list[int]:
    ends = [end(job) for job in engine.submit_many(request(seed=seed, count=count), "me")]
    assert all(isinstance(last, Finished) for last in ends)
    assert all(last.settings["count"] == 1 for last in ends), "its settings draw this one again"
    return [last.seed for last in ends]


def test_seeds_count_up_and_go_on_from_the_start_after_the_last() -> None:
    with running(FakeWorld()) as engine:
        assert seeds(engine, 5, seed=7) == [7, 8, 9, 10, 11]
        assert seeds(engine, 3, seed=MAX_SEED - 1) == [MAX_SEED - 1, MAX_SEED, 0]


def test_each_is_the_picture_its_seed_draws_alone_and_they_share_steps() -> None:
    world = FakeWorld()
    with running(world, limits=EngineLimits(results_cached=0)) as engine:
        together = [picture(job) for job in engine.submit_many(request(count=6), "me")]
        assert max(map(len, world.sampler.batches)) >= 5
        for seed, made in enumerate(together):
            assert np.array_equal(picture(engine.submit(request(seed=seed), "me")), made)


def test_sixty_four_pictures_do_not_keep_a_typist_waiting() -> None:
    world, hold = FakeWorld(), Hold()
    with running(world, limits=EngineLimits(max_batch=4)) as engine:
        world.sampler.before_step = hold
        many = engine.submit_many(request(count=64), "collector")
        assert hold.reached.wait(10)
        typist = engine.submit(request("typed"), "typist")
        begun, done = len(world.sampler.batches), list[int]()

        def watch(states: Sequence[FakeState]) -> None:
            if typist.done and not done:
                done.append(len(world.sampler.batches))

        world.sampler.before_step = watch
        hold.release()
        assert len([picture(job) for job in many]) == 64
        assert done and done[0] - begun <= 14, "more than its own steps and the one under way"


def test_a_newer_request_takes_the_place_of_all_of_them() -> None:
    world, hold = FakeWorld(), Hold()
    with running(world) as engine:
        world.sampler.before_step = hold
        older = engine.submit_many(request("older", count=6), "me")
        other = engine.submit_many(request("other", count=2), "me", "other")
        assert hold.reached.wait(10)
        newer = engine.submit_many(request("newer", count=3), "me")
        newest = engine.submit(request("newest"), "me")
        hold.release()
        assert [end(job) for job in older] == [Superseded("newer")] * 6
        assert [end(job) for job in newer] == [Superseded("newer")] * 3
        assert isinstance(end(newest), Finished)
        assert all(isinstance(end(job), Finished) for job in other), "another slot's stay"


def test_all_are_asked_for_or_none() -> None:
    world, hold = FakeWorld(), Hold()
    with running(world, limits=EngineLimits(queue_per_owner=4)) as engine:
        world.sampler.before_step = hold
        engine.submit(request("under way"), "me", "other")
        assert hold.reached.wait(10)
        with pytest.raises(QueueFull):
            engine.submit_many(request(count=5), "me")
        status = engine.status()
        assert status.waiting + status.running == 1
        hold.release()


def test_cancelling_the_owner_ends_all() -> None:
    world, hold = FakeWorld(), Hold()
    with running(world) as engine:
        world.sampler.before_step = hold
        jobs = engine.submit_many(request(count=20), "me")
        assert hold.reached.wait(10)
        assert engine.cancel_owner("me") == 20
        hold.release()
        assert [end(job) for job in jobs] == [Superseded("cancelled")] * 20


def test_one_picture_is_asked_for_one_at_a_time() -> None:
    with running(FakeWorld()) as engine, pytest.raises(InvalidRequest, match="count"):
        engine.submit(request(count=2), "me")
