"""Same seed, other company, same picture; and company there really is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from engine.job import Job
from engine.limits import EngineLimits
from tests.engine.fakes import FakeState, FakeWorld, Hold, picture, request, running


def test_pictures_at_different_progress_share_a_step_and_stay_the_same() -> None:
    prompts = [f"prompt {index}" for index in range(5)]
    alone = []
    for index, prompt in enumerate(prompts):
        with running(FakeWorld()) as engine:
            alone.append(picture(engine.submit(request(prompt, seed=index), "me")))

    world = FakeWorld()
    jobs: list[Job] = []
    with running(world) as engine:

        def arrive(states: Sequence[FakeState]) -> None:
            step = max(state.step for state in states)
            if step % 2 == 0 and len(jobs) < len(prompts):
                prompt, seed = prompts[len(jobs)], len(jobs)
                jobs.append(engine.submit(request(prompt, seed=seed), f"owner-{seed}"))

        world.sampler.before_step = arrive
        jobs.append(engine.submit(request(prompts[0], seed=0), "owner-0"))
        first = picture(jobs[0])
        together = [first, *(picture(job) for job in jobs[1:])]
    assert len(together) == len(prompts)
    mixed = [batch for batch in world.sampler.batches if len(set(batch)) > 1]
    assert mixed and max(map(len, mixed)) >= 4, world.sampler.batches
    for lone, shared in zip(alone, together, strict=True):
        assert np.array_equal(lone, shared)


def test_a_flood_shares_every_step_with_a_typist() -> None:
    world, hold = FakeWorld(), Hold()
    with running(world, limits=EngineLimits(max_batch=4)) as engine:
        world.sampler.before_step = hold
        flood = [engine.submit(request(seed=i), "flood", f"{i}") for i in range(64)]
        assert hold.reached.wait(10)
        typist = engine.submit(request("typed"), "typist")
        at_typing = len(world.sampler.batches)
        done_at: list[int] = []

        def watch(states: Sequence[FakeState]) -> None:
            if typist.done and not done_at:
                done_at.append(len(world.sampler.batches))

        world.sampler.before_step = watch
        hold.release()
        for job in flood:
            picture(job)
        assert done_at and done_at[0] - at_typing <= 14
        assert max(map(len, world.sampler.batches)) == 4
        assert len(world.sampler.batches) <= 65 * 12 / 4 + 24, "batches were not kept full"


def test_other_geometry_does_not_share() -> None:
    world, hold = FakeWorld(), Hold()
    seen: list[set[int]] = []
    with running(world) as engine:
        world.sampler.before_step = hold
        one = engine.submit(request(flow_steps=3), "a")
        assert hold.reached.wait(10)
        two = engine.submit(request(flow_steps=5), "b")
        world.sampler.before_step = lambda states: seen.append(
            {state.settings.flow_steps for state in states}
        )
        hold.release()
        picture(one)
        picture(two)
    assert seen and all(len(kinds) == 1 for kinds in seen)


def test_prompts_are_read_once() -> None:
    world = FakeWorld()
    with running(world) as engine:
        for seed in range(5):
            picture(engine.submit(request("the same", seed=seed), "me"))
        assert world.text.encoded == ["the same"]
        assert world.sampler.contexts == 1
        assert world.sampler.started == 5


def test_prompts_kept_are_bounded_but_the_empty_one_stays() -> None:
    world = FakeWorld()
    limits = EngineLimits(prompts_cached=4, contexts_cached=2)
    with running(world, limits=limits) as engine:
        for index in range(10):
            picture(engine.submit(request(f"prompt {index}"), "me"))
        conditioning = engine._conditioning
        assert len(conditioning._rows) == 4
        assert len(conditioning._contexts) == 2
        assert "" not in world.text.encoded, "the empty prompt was read at warm-up"
        picture(engine.submit(request("prompt 0", seed=1), "me"))
        assert world.text.encoded.count("prompt 0") == 2


def test_variants_with_one_encoder_share_its_rows() -> None:
    world = FakeWorld()
    with running(world, ["pocket-ar", "pocket-ar-joint"]) as engine:
        picture(engine.submit(request("shared"), "me"))
        picture(engine.submit(request("shared", variant="pocket-ar-joint"), "me"))
        assert world.text.encoded == ["shared"]


def test_the_worker_runs_without_gradients() -> None:
    world = FakeWorld()
    modes: list[bool] = []
    with running(world) as engine:
        world.sampler.before_step = lambda states: modes.append(torch.is_inference_mode_enabled())
        picture(engine.submit(request(), "me"))
    assert modes and all(modes)
