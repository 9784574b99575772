"""The product with the weights it ships: Pocket through the real loader and the real engine."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest

from engine.engine import Engine
from engine.events import Event, Failed, Finished, Started, Step, Superseded
from engine.limits import EngineLimits
from engine.requests import GenerationRequest
from models.loading import Loader
from models.sources import Sources

VARIANTS = ("pocket-ar", "pocket-ar-joint", "pocket-e-dist")
FOX = GenerationRequest("a fox on a blue background", seed=3)


def make_engine() -> Engine:
    loader = Loader(Sources())
    limits = EngineLimits(results_cached=0)  # every picture is drawn, none is remembered
    engine = Engine(loader.load, VARIANTS, device=loader.device, limits=limits)
    assert engine.wait_ready(60)
    assert {entry.state for entry in engine.status().variants} == {"ready"}
    return engine


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with make_engine() as made:
        yield made


def draw(engine: Engine, request: GenerationRequest, owner: str = "me") -> Finished:
    return finished(list(engine.submit(request, owner).events()))


def finished(events: list[Event]) -> Finished:
    end = events[-1]
    assert isinstance(end, Finished), end
    return end


def same(a: Finished, b: Finished) -> bool:
    """Equal to one step of 255: a latent off by 1e-4 moves a pixel by less."""
    return int(np.abs(a.image.astype(int) - b.image.astype(int)).max()) <= 1


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("company", [1, 3, 7])
def test_same_seed_same_picture_in_company(engine: Engine, variant: str, company: int) -> None:
    request = GenerationRequest("an owl on a green background", variant, seed=11)
    alone = draw(engine, request)
    mates = [
        engine.submit(
            GenerationRequest(f"{n + 2} cats", variant, seed=n, cfg_scale=1.5 + n), f"{n}"
        )
        for n in range(company)
    ]
    together = draw(engine, request)
    for mate in mates:
        finished(list(mate.events()))
    assert same(alone, together)


@pytest.mark.parametrize("variant", VARIANTS)
def test_same_seed_same_picture_without_previews(engine: Engine, variant: str) -> None:
    with_previews = GenerationRequest("a cat", variant, seed=5)
    without = GenerationRequest("a cat", variant, seed=5, preview_every=0)
    assert same(draw(engine, with_previews), draw(engine, without))


def test_same_seed_same_picture_after_a_superseded_run(engine: Engine) -> None:
    expected = draw(engine, FOX)
    older = engine.submit(GenerationRequest("a very long wait", ar_iterations=64), "me")
    next(e for e in older.events() if isinstance(e, Step))
    newer = draw(engine, FOX)
    assert isinstance(list(older.events())[-1], Superseded)
    assert same(expected, newer)


def test_every_step_commits_more_and_the_last_commits_all(engine: Engine) -> None:
    events = list(engine.submit(FOX, "steps").events())
    assert isinstance(events[-1], Finished) and any(isinstance(e, Started) for e in events)
    counts = [int((e.committed > 0).sum()) for e in events if isinstance(e, Step)]
    assert counts == sorted(counts) and counts[-1] <= 64
    assert (events[-1].committed > 0).all()


def test_unknown_words_are_told(engine: Engine) -> None:
    facts = engine.describe_prompt("pocket-ar", "a fox with a zeppelin")
    assert facts.unknown == ("zeppelin",) and facts.tokens == 6


def test_previews_take_at_most_a_tenth(engine: Engine) -> None:
    ends = [draw(engine, GenerationRequest("a cat", seed=seed)) for seed in range(12)]
    preview = sum(end.timings.preview_ms for end in ends)
    assert 0 < preview <= 0.1 * sum(end.timings.device_ms + end.timings.preview_ms for end in ends)


def test_whims_leave_the_worker_serving(engine: Engine) -> None:
    chance, jobs = random.Random(1), []
    for act in range(60):
        variant, owner = chance.choice(VARIANTS), f"owner {chance.randrange(4)}"
        jobs.append(engine.submit(GenerationRequest(f"{act + 1} dogs", variant), owner))
        if chance.random() < 0.3:
            engine.cancel(chance.choice(jobs))
    ends = [list(job.events())[-1] for job in jobs]
    assert not any(isinstance(end, Failed) for end in ends)
    assert any(isinstance(end, Superseded) for end in ends)
    for job, end in zip(jobs, ends, strict=True):
        if isinstance(end, Finished):
            assert end.settings["prompt"] == job.request.prompt
    assert engine.status().running == engine.status().waiting == 0
    draw(engine, FOX)
