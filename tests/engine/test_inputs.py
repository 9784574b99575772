"""Starting from pictures through the engine: what is kept, what is refused, and whose it is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from engine.engine import Engine
from engine.events import Finished, Started, Step
from engine.inputs import Inputs
from engine.limits import EngineLimits
from engine.pictures import Kept
from engine.requests import InvalidRequest
from models.catalogue import find_variant
from models.given import GIVEN
from tests.engine.fakes import FakeWorld, Hold, end, request, running

LEFT = "1" * 4 + "0" * 4
CELLS = LEFT * 8  # the left half is free


def drawn(engine: Engine, owner: str = "me", **settings: Any) -> Finished:
    last = end(engine.submit(request(**settings), owner))
    assert isinstance(last, Finished), last
    return last


def noise(side: int = 128, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (side, side, 3), np.uint8)


def test_kept_cells_stay_and_free_ones_follow_the_new_prompt() -> None:
    with running(FakeWorld()) as engine:
        first = drawn(engine)
        edit = drawn(engine, prompt="a blue star", picture=first.picture, free=CELLS, seed=4)
        fresh = drawn(engine, prompt="a blue star", seed=4)
    assert np.array_equal(edit.image[:, 64:], first.image[:, 64:])
    assert np.array_equal(edit.image[:, :64], fresh.image[:, :64])
    assert edit.committed is not None and (edit.committed[:, 4:] == GIVEN).all()
    assert edit.settings["picture"] == first.picture and edit.settings["free"] == CELLS


def test_context_frees_cells_around_the_mask() -> None:
    with running(FakeWorld()) as engine:
        first = drawn(engine)
        edit = drawn(engine, prompt="b", picture=first.picture, free=CELLS, context=2)
    assert edit.committed is not None
    assert (edit.committed[:, :6] > 0).all() and (edit.committed[:, 6:] == GIVEN).all()


def test_a_drawn_picture_is_not_encoded_and_an_upload_is_once() -> None:
    world = FakeWorld()
    with running(world) as engine:
        drawn(engine, picture=drawn(engine).picture, free=CELLS, seed=2)
        assert world.autoencoder.encoded == 0
        name = engine.add_picture(noise(), "me")
        for seed in range(3):
            drawn(engine, picture=name, seed=seed)
        drawn(engine, "somebody", picture=engine.add_picture(noise(), "somebody"), seed=9)
        assert world.autoencoder.encoded == 1
        latent = world.autoencoder.encode(torch.from_numpy(noise()).permute(2, 0, 1)[None] / 255)
        assert all(torch.allclose(given.latent, latent[0]) for given in world.sampler.given[1:])
        assert [given.strength for given in world.sampler.given[1:]] == [0.6] * 4


def test_the_encoder_of_another_geometry_gets_the_picture_in_its_size() -> None:
    sides = []

    class Watching:
        def encode(self, pixels: torch.Tensor) -> torch.Tensor:
            sides.append((tuple(pixels.shape), float(pixels.min()), float(pixels.max())))
            return torch.zeros(1, 32, 16, 16)

    world = FakeWorld()
    loaded = world.load("pocket-ar", lambda part, what: None)
    big = replace(loaded, variant=find_variant("nitro-ar-gan"), autoencoder=Watching())
    inputs = Inputs(EngineLimits())
    for _ in range(2):
        assert inputs.latent(big, Kept("upload-1", noise())).shape == (32, 16, 16)
    assert len(sides) == 1 and sides[0][0] == (1, 3, 512, 512)
    assert sides[0][1] >= 0 and sides[0][2] <= 1


def test_an_unchanged_fork_is_the_picture_and_numbers_its_steps_on(patient: None) -> None:
    with running(FakeWorld()) as engine:
        first = drawn(engine, seed=3)
        for step in (0, 5, 11):
            job = engine.submit(request(seed=3, fork_of=first.picture, fork_step=step), "me")
            events = list(job.events())
            assert [e.index for e in events if isinstance(e, Step)] == [*range(step + 1, 13)]
            last = events[-1]
            assert isinstance(last, Finished)
            assert np.array_equal(last.image, first.image)
            assert np.array_equal(last.committed, first.committed)


def test_a_fork_keeps_what_was_committed_and_goes_its_own_way() -> None:
    with running(FakeWorld(), ["pocket-ar", "pocket-ar-joint"]) as engine:
        first = drawn(engine, seed=3)
        kept = first.committed <= 6
        for change in (
            {"prompt": "a blue star"},
            {"variant": "pocket-ar-joint", "ar_iterations": 12},
        ):
            fork = drawn(engine, **{"seed": 3, **change}, fork_of=first.picture, fork_step=6)
            assert np.array_equal(fork.committed[kept], first.committed[kept])
        pixels = np.kron(kept, np.ones((16, 16), bool))
        fork = drawn(engine, prompt="a blue star", seed=3, fork_of=first.picture, fork_step=6)
        assert np.array_equal(fork.image[pixels], first.image[pixels])
        assert not np.array_equal(fork.image[~pixels], first.image[~pixels])
        again = drawn(engine, prompt="a blue star", seed=3, fork_of=fork.picture, fork_step=9)
        assert np.array_equal(again.image, fork.image), "a fork can be forked in turn"


def test_one_owner_never_reaches_anothers_pictures() -> None:
    """Not even one whose edit has been drawn before and is remembered."""
    with running(FakeWorld()) as engine:
        mine = drawn(engine).picture
        upload = engine.add_picture(noise(), "me")
        for base in ({"picture": mine}, {"picture": upload}, {"fork_of": mine, "fork_step": 2}):
            drawn(engine, **base, prompt="an edit")
            with pytest.raises(InvalidRequest, match="not kept here"):
                engine.submit(request("an edit", **base), "somebody else")
        assert engine.picture(mine, "somebody else") is None
        assert engine.picture(upload, "somebody else") is None
        assert engine.picture(upload, "me") is not None
        assert engine.add_picture(noise(), "somebody else") == upload  # by its own pixels only
        drawn(engine, "somebody else", picture=upload, prompt="an edit")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"fork_of": "DRAWN", "fork_step": 12}, "from 0 to 11"),
        ({"fork_of": "SENT", "fork_step": 1}, "has no steps"),
        ({"fork_of": "nothing"}, "not kept here"),
        ({"picture": "nothing"}, "not kept here"),
        ({"fork_of": "DRAWN", "variant": "nitro-ar-gan"}, "latents differ"),
    ],
)
def test_what_cannot_be_started_from_is_refused(settings: dict[str, Any], words: str) -> None:
    with running(FakeWorld(), ["pocket-ar", "nitro-ar-gan"]) as engine:
        names = {"DRAWN": drawn(engine).picture, "SENT": engine.add_picture(noise(), "me")}
        settings = {key: names.get(value, value) for key, value in settings.items()}
        before = engine.status().counters.submitted
        with pytest.raises(InvalidRequest, match=words):
            engine.submit(request(**settings), "me")
        assert engine.status().counters.submitted == before


def test_pictures_kept_are_bounded_per_owner_and_in_all() -> None:
    each = 128 * 128 * 3
    limits = EngineLimits(
        pictures_per_owner=3, pictures_bytes_per_owner=5 * each, pictures_bytes=5 * each
    )
    with running(FakeWorld(), limits=limits) as engine:
        others = engine.add_picture(noise(seed=99), "somebody")
        mine = [engine.add_picture(noise(seed=seed), "me") for seed in range(3)]
        assert engine.picture(mine[0], "me") is not None  # used, so not the next to go
        mine.append(engine.add_picture(noise(seed=3), "me"))
        kept = [engine.picture(name, "me") is not None for name in mine]
        assert kept == [True, False, True, True]
        assert engine.picture(others, "somebody") is not None, "nobody else's went"
        engine.add_picture(noise(seed=4), "third")
        engine.add_picture(noise(seed=5), "third")
        store = engine._pictures
        assert len(store) == 5 and store.nbytes <= 5 * each
        huge = engine.add_picture(noise(512), "fourth")
        assert engine.picture(huge, "fourth") is None and store.nbytes <= 5 * each


def test_a_picture_that_is_pushed_out_while_its_edit_waits_is_still_there_for_it() -> None:
    world, hold = FakeWorld(), Hold()
    limits = EngineLimits(max_batch=1, pictures_per_owner=1)
    with running(world, limits=limits) as engine:
        name = engine.add_picture(noise(), "me")
        world.sampler.before_step = hold
        engine.submit(request("first in line"), "me", "other")
        assert hold.reached.wait(10)
        edit = engine.submit(request(picture=name), "me")
        engine.add_picture(noise(seed=1), "me")
        assert engine.picture(name, "me") is None
        hold.release()
        assert isinstance(end(edit), Finished)


def test_a_remembered_picture_can_be_forked_by_whoever_it_was_given_to() -> None:
    with running(FakeWorld()) as engine:
        first = drawn(engine, "one")
        steps = engine.status().counters.steps
        second = drawn(engine, "two")
        assert engine.status().counters.steps == steps and second.picture != first.picture
        fork = drawn(engine, "two", fork_of=second.picture, fork_step=4)
        assert np.array_equal(fork.image, first.image)


@pytest.mark.parametrize("shape", [(128, 64, 3), (128, 128), (128, 128, 4), (0, 0, 3)])
def test_only_square_rgb_is_kept(shape: tuple[int, ...]) -> None:
    with running(FakeWorld()) as engine:
        with pytest.raises(ValueError, match="Expected uint8"):
            engine.add_picture(np.zeros(shape, np.uint8), "me")


def test_the_caption_setting_decides_what_the_encoder_reads() -> None:
    world = FakeWorld()
    with running(world) as engine:
        for caption in (None, "raw", "lower", "clean"):
            job = engine.submit(request("A <b>Fox</b>", caption=caption), "me")
            events = list(job.events())
            assert isinstance(events[-1], Finished)
            started = [event for event in events if isinstance(event, Started)]
            assert all(event.settings["prompt"] == "A <b>Fox</b>" for event in started)
        assert world.text.encoded == ["A <b>Fox</b>", "a <b>fox</b>", "a fox"]
