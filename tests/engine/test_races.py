"""Stale results, late cancels, repeated requests: named after what people complained about."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest

from engine.engine import EngineClosed
from engine.events import Finished, Started, Step, Superseded
from engine.job import Job
from engine.limits import EngineLimits
from engine.requests import InvalidRequest
from engine.scheduler import QueueFull
from tests.engine.fakes import FakeState, FakeWorld, Hold, end, picture, request, running


def test_typing_fast_ends_with_the_whole_sentence() -> None:
    world, sentence = FakeWorld(), "a fox on a blue hill"
    with running(world) as engine:
        jobs = [
            engine.submit(request(sentence[:length]), "typist")
            for length in range(1, len(sentence) + 1)
        ]
        last = end(jobs[-1])
        assert isinstance(last, Finished)
        assert last.settings["prompt"] == sentence
        for job in jobs[:-1]:
            assert isinstance(end(job), Finished | Superseded)
        assert engine.status().running == engine.status().waiting == 0


def test_a_superseded_picture_stops_at_the_next_step() -> None:
    world = FakeWorld()
    jobs: list[Job] = []

    with running(world) as engine:

        def type_on(states: Sequence[FakeState]) -> None:
            if states[0].step == 3 and len(jobs) == 1:
                jobs.append(engine.submit(request("a new prompt"), "me"))

        world.sampler.before_step = type_on
        jobs.append(engine.submit(request("an old prompt"), "me"))
        assert end(jobs[0]) == Superseded("newer")
        assert isinstance(end(jobs[1]), Finished)
        steps = world.sampler.batches
        assert len(steps) == 4 + 12, "the old picture took a step after it was superseded"
        assert engine.status().counters.supersedes == 1


@pytest.mark.parametrize("by_owner", [False, True])
def test_cancel_frees_the_device_within_one_step(by_owner: bool) -> None:
    world, hold = FakeWorld(), Hold()
    with running(world) as engine:
        world.sampler.before_step = hold
        job = engine.submit(request(), "me")
        assert hold.reached.wait(10)
        if by_owner:
            assert engine.cancel_owner("me") == 1
        else:
            assert engine.cancel(job)
        assert end(job) == Superseded("cancelled"), "the reader need not wait for the device"
        assert engine.status().running == 0
        hold.release()
        picture(engine.submit(request("something else"), "me"))
        assert len(world.sampler.batches) == 1 + 12
        assert not engine.cancel(job), "it was over"
        assert engine.status().counters.cancels == 1


def test_switched_off_means_no_more_steps() -> None:
    world = FakeWorld()
    with running(world) as engine:
        picture(engine.submit(request(), "me"))
        engine.cancel_owner("me")
        before = engine.status().counters.steps
        picture(engine.submit(request("another's"), "another"))
        assert engine.status().counters.steps == before + 12


def test_unchanged_inputs_cost_nothing() -> None:
    world = FakeWorld()
    with running(world) as engine:
        first = picture(engine.submit(request(), "me"))
        steps = engine.status().counters.steps
        again = engine.submit(request(preview_every=4, preview="off"), "another", "elsewhere")
        events = list(again.events())
        assert [type(event) for event in events] == [Started, Finished]
        assert isinstance(events[1], Finished)
        assert (events[1].image == first).all()
        assert events[1].settings["preview_every"] == 4, "settings are those that were asked for"
        assert engine.status().counters.steps == steps
        assert engine.status().counters.reused == 1
        with pytest.raises(ValueError, match="read-only"):
            events[1].image[0, 0, 0] = 1
        picture(engine.submit(request(seed=1), "me"))
        assert engine.status().counters.steps == 2 * steps, "another seed is another picture"


def test_a_known_picture_takes_the_place_of_a_running_one() -> None:
    world, hold = FakeWorld(), Hold()
    with running(world) as engine:
        picture(engine.submit(request("known"), "me"))
        world.sampler.before_step = hold
        unwanted = engine.submit(request("unwanted"), "me")
        assert hold.reached.wait(10)
        picture(engine.submit(request("known"), "me"))
        assert end(unwanted) == Superseded("newer")
        hold.release()


def test_repeating_a_request_in_progress_keeps_its_progress() -> None:
    world = FakeWorld()
    jobs: list[Job] = []
    with running(world) as engine:

        def press_again(states: Sequence[FakeState]) -> None:
            if states[0].step == 6 and len(jobs) == 1:
                jobs.append(engine.submit(request(preview="off"), "me"))

        world.sampler.before_step = press_again
        jobs.append(engine.submit(request(), "me"))
        assert end(jobs[0]) == Superseded("newer")
        events = list(jobs[1].events())
        assert isinstance(events[-1], Finished)
        assert any(isinstance(event, Started) for event in events)
        assert len(world.sampler.batches) == 12
        assert engine.status().counters.adopted == 1


def test_results_kept_are_bounded() -> None:
    world = FakeWorld()
    each = 128 * 128 * 3 + 128 + 4 * 64 * 4 + 128  # pixels and grid, latent and grid
    limits = EngineLimits(results_bytes=3 * each)
    with running(world, limits=limits) as engine:
        for seed in range(6):
            picture(engine.submit(request(seed=seed, preview="off"), "me"))
        steps = engine.status().counters.steps
        for seed in (3, 4, 5):
            picture(engine.submit(request(seed=seed), "me"))
        assert engine.status().counters.steps == steps
        picture(engine.submit(request(seed=0), "me"))
        assert engine.status().counters.steps == steps + 12


def test_slots_of_one_owner_run_side_by_side() -> None:
    world = FakeWorld()
    with running(world, ["pocket-ar", "pocket-ar-joint"]) as engine:
        left = engine.submit(request(), "me", "left")
        right = engine.submit(request(variant="pocket-ar-joint"), "me", "right")
        assert isinstance(end(left), Finished)
        assert isinstance(end(right), Finished)


def test_a_full_queue_says_so_at_once() -> None:
    world, hold = FakeWorld(), Hold()
    with running(world, limits=EngineLimits(queue_size=4, queue_per_owner=2)) as engine:
        world.sampler.before_step = hold
        jobs = [engine.submit(request(seed=i), f"owner-{i // 2}", f"{i}") for i in range(4)]
        with pytest.raises(QueueFull) as refusal:
            engine.submit(request("one too many"), "late")
        assert refusal.value.expected_wait_s > 0
        assert "try again" in str(refusal.value)
        engine.submit(request("taking an own slot"), "owner-0", "0")
        assert end(jobs[0]) == Superseded("newer")
        hold.release()
        for job in jobs[1:]:
            assert isinstance(end(job), Finished)
        assert engine.status().counters.refused == 1


def test_an_invalid_request_leaves_the_running_one_alone() -> None:
    world = FakeWorld()
    with running(world) as engine:
        job = engine.submit(request(), "me")
        with pytest.raises(InvalidRequest):
            engine.submit(request(""), "me")
        with pytest.raises(InvalidRequest, match="not served here"):
            engine.submit(request(variant="nitro-ar-gan"), "me")
        assert isinstance(end(job), Finished)


def test_async_readers_get_every_end() -> None:
    world = FakeWorld()

    async def read(job: Job) -> object:
        return [event async for event in job.stream()][-1]

    async def everybody(jobs: list[Job]) -> list[object]:
        return await asyncio.wait_for(asyncio.gather(*(read(job) for job in jobs)), 20)

    with running(world) as engine:
        jobs = [engine.submit(request(seed=i), "me", f"{i}") for i in range(20)]
        ends = asyncio.run(everybody(jobs))
    assert all(isinstance(last, Finished) for last in ends)
    assert [last.seed for last in ends if isinstance(last, Finished)] == list(range(20))


def test_a_reader_that_never_reads_slows_nobody() -> None:
    world = FakeWorld()
    with running(world) as engine:
        deaf = engine.submit(request(ar_iterations=64), "deaf")
        for seed in range(8):
            picture(engine.submit(request(seed=seed, ar_iterations=64), "other"))
        assert deaf.done, "the picture was finished without being read"
        assert deaf.dropped_steps == 63
        assert sum(event is not None for event in deaf.channel._lanes) <= 4
        steps = [event for event in deaf.events() if isinstance(event, Step)]
        assert [step.index for step in steps] == [64]
        assert engine.status().counters.previews_dropped >= 63


def test_tokenisers_are_never_borrowed_twice() -> None:
    world = FakeWorld()
    errors: list[BaseException] = []
    with running(world) as engine:

        def count(name: int) -> None:
            try:
                for index in range(50):
                    prompt = f"fox number {index} of {name}"
                    assert engine.describe_prompt("pocket-ar", prompt).tokens == 5
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=count, args=(name,)) for name in range(8)]
        for thread in threads:
            thread.start()
        jobs = [engine.submit(request(f"prompt {i}"), "me", f"{i}") for i in range(30)]
        for thread in threads:
            thread.join()
        for job in jobs:
            assert isinstance(end(job), Finished)
    assert not errors


def test_hints_name_what_the_model_does_not_read() -> None:
    world = FakeWorld()
    with running(world) as engine:
        prompt = "a fox " + "very " * 20
        info = engine.describe_prompt("pocket-ar", prompt)
        assert (info.tokens, info.limit, info.unknown, info.truncated) == (22, 16, ("fox",), True)
        job = engine.submit(request(prompt), "me")
        started = next(event for event in job.events() if isinstance(event, Started))
        assert any("22 tokens" in note for note in started.notes)
        assert any("fox" in note for note in started.notes)


def test_closing_ends_every_job() -> None:
    world, hold = FakeWorld(), Hold()
    with running(world) as engine:
        world.sampler.before_step = hold
        jobs = [engine.submit(request(seed=i), "me", f"{i}") for i in range(12)]
        assert hold.reached.wait(10)
        closer = threading.Thread(target=engine.close)
        closer.start()
        assert [end(job) for job in jobs] == [Superseded("closed")] * 12
        hold.release()
        closer.join(10)
        assert not closer.is_alive()
        with pytest.raises(EngineClosed):
            engine.submit(request(), "me")


def test_one_thread_owns_the_device() -> None:
    world = FakeWorld()
    with running(world) as engine:
        picture(engine.submit(request(), "me"))
    assert world.sampler.threads == {"engine-worker"}
