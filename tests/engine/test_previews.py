"""Previews are cheap, honest about what is not there yet, and change nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from engine.clock import Typical
from engine.events import Finished, Step
from engine.job import Job
from engine.limits import EngineLimits
from engine.linear import LinearPreview, practice_pictures, veil
from engine.previews import PreviewSituation, choose
from tests.engine.fakes import FakeWorld, end, picture, request, running

FREE = EngineLimits(preview_share=1000)


def steps(job: Job) -> list[Step]:
    """Every step; the reader keeps up because the worker waits for it (see `patient`)."""
    return [event for event in job.events() if isinstance(event, Step)]


def situation(**changes: Any) -> PreviewSituation:
    usual: dict[str, Any] = {
        "mode": "auto",
        "every": 1,
        "step": 1,
        "steps": 12,
        "device_s": 0.010,
        "preview_s": 0.0,
        "decoder_cost_s": 0.020,
        "linear_cost_s": 0.0005,
    }
    return PreviewSituation(**{**usual, **changes})


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({}, "linear"),
        ({"decoder_cost_s": 0.0005}, "decoder"),
        ({"decoder_cost_s": 0.0005, "mode": "linear"}, "linear"),
        ({"mode": "off"}, None),
        ({"every": 0}, None),
        ({"every": 4}, None),
        ({"every": 4, "step": 4, "device_s": 0.040}, "linear"),
        ({"step": 12, "device_s": 0.120}, None),
        ({"steps": 1}, None),
        ({"linear_cost_s": None}, None),
        ({"linear_cost_s": 0.002}, None),  # too dear for step 1 ...
        ({"linear_cost_s": 0.002, "step": 3, "device_s": 0.030}, "linear"),  # ... later it fits
        ({"preview_s": 0.009, "step": 10, "device_s": 0.100}, None),  # spent
    ],
)
def test_a_preview_has_to_be_worth_its_time(changes: dict[str, Any], kind: str | None) -> None:
    assert choose(situation(**changes), share=0.08) == kind


@pytest.mark.parametrize("cost", [0.0001, 0.0005, 0.001, 0.003, 0.02])
@pytest.mark.parametrize("total", [2, 6, 12, 64])
def test_chosen_previews_never_exceed_their_share(cost: float, total: int) -> None:
    spent, step_s = 0.0, 0.010
    for step in range(1, total + 1):
        now = situation(
            step=step,
            steps=total,
            device_s=step * step_s,
            preview_s=spent,
            linear_cost_s=cost,
            decoder_cost_s=3 * cost,
        )
        kind = choose(now, share=0.08)
        spent += {"decoder": 3 * cost, "linear": cost, None: 0.0}[kind]
    assert spent <= 0.08 * total * step_s + 1e-9


@pytest.mark.parametrize(("step_work", "decode_work"), [(20, 1), (20, 60)])
def test_previews_take_at_most_a_tenth_of_the_time(step_work: int, decode_work: int) -> None:
    world = FakeWorld(step_work, decode_work)
    with running(world) as engine:
        before = engine.status().counters
        for seed in range(16):
            picture(engine.submit(request(seed=seed), "me"))
        after = engine.status().counters
    preview_s = after.preview_s - before.preview_s
    device_s = after.step_s - before.step_s + after.decode_s - before.decode_s
    assert after.previews > before.previews, "no preview was made at all"
    assert preview_s <= 0.10 * (preview_s + device_s), (preview_s, device_s)


def test_pictures_are_the_same_with_previews_on_and_off() -> None:
    settings: list[dict[str, Any]] = [
        {"preview": "off"},
        {"preview_every": 0},
        {"preview": "auto"},
        {"preview": "linear", "preview_every": 3},
    ]
    images = []
    for choice in settings:
        with running(FakeWorld(), limits=FREE) as engine:
            images.append(picture(engine.submit(request(seed=5, **choice), "me")))
    for image in images[1:]:
        assert np.array_equal(images[0], image)


@pytest.mark.parametrize(
    ("choice", "due"),
    [
        ({}, list(range(1, 12))),
        ({"preview_every": 4}, [4, 8]),
        ({"preview_every": 0}, []),
        ({"preview": "off"}, []),
    ],
)
def test_previews_come_every_n_steps_and_never_at_the_last(
    choice: dict[str, Any], due: list[int], patient: None
) -> None:
    with running(FakeWorld(), limits=FREE) as engine:
        seen = steps(engine.submit(request(**choice), "me"))
    assert [step.index for step in seen] == list(range(1, 13))
    assert [step.index for step in seen if step.preview is not None] == due


@pytest.mark.parametrize("mode", ["auto", "linear"])
def test_masked_tokens_are_visibly_not_there(mode: str, patient: None) -> None:
    with running(FakeWorld(), limits=FREE) as engine:
        job = engine.submit(request("pure colour", preview=mode), "me")
        seen = steps(job)
    halfway = seen[5]
    assert halfway.preview is not None and halfway.committed is not None
    assert halfway.preview_kind == ("decoder" if mode == "auto" else "linear")
    assert halfway.preview.shape == (128, 128, 3), "a small picture has full-size previews"
    centres = halfway.preview[8::16, 8::16].astype(int)  # [8, 8, 3]
    there = halfway.committed > 0
    assert 0 < there.sum() < 64
    hidden = centres[~there]
    assert np.ptp(hidden, axis=0).max() <= 2, "what is missing has one tone"
    assert np.abs(hidden - 128).max() <= 60, "and it is a neutral one"
    assert np.abs(centres[there].mean(0) - hidden.mean(0)).max() > 20


def test_the_first_picture_already_has_previews(patient: None) -> None:
    world = FakeWorld(decode_work=50)
    with running(world, limits=FREE) as engine:
        seen = steps(engine.submit(request(preview="linear"), "me"))
    assert seen[0].preview_kind == "linear"
    assert seen[0].timings.first_frame_ms is not None


def test_the_linear_map_learns_an_autoencoder() -> None:
    torch.manual_seed(0)
    pictures = practice_pictures(24, 128, 8)
    mixing = torch.randn(32, 3)

    def encode(pixels: torch.Tensor) -> torch.Tensor:
        return torch.einsum("kc,nchw->nkhw", mixing, torch.nn.functional.avg_pool2d(pixels, 16))

    linear = LinearPreview(channels=32, pixels_per_token=16, resolution=128, limit=256)
    for one in pictures[:20].split(1):
        linear.learn(encode(one), one)
    tests = pictures[20:]
    shown = linear.render(encode(tests))
    assert shown.shape == tests.shape
    error = (shown - tests).square().mean()
    flat = (tests.mean((2, 3), keepdim=True) - tests).square().mean()
    assert error < 0.35 * flat, (error, flat)


def test_a_large_picture_has_a_small_preview_map() -> None:
    linear = LinearPreview(channels=32, pixels_per_token=32, resolution=512, limit=256)
    linear.learn(torch.randn(1, 32, 16, 16), torch.rand(1, 3, 512, 512))
    assert linear.patch == 8
    assert linear.render(torch.randn(2, 32, 16, 16)).shape == (2, 3, 128, 128)


def test_learning_is_bounded_and_ignores_broken_pictures() -> None:
    linear = LinearPreview(channels=4, pixels_per_token=2, resolution=16, limit=256)
    linear.learn(torch.full((1, 4, 8, 8), float("nan")), torch.rand(1, 3, 16, 16))
    assert linear.pictures == 0 and not linear.ready
    for _ in range(100):
        linear.learn(torch.randn(1, 4, 8, 8), torch.rand(1, 3, 16, 16))
    assert linear.pictures == 48 and not linear.learning


def test_nothing_committed_is_a_flat_neutral_picture() -> None:
    shown = veil(torch.rand(1, 3, 32, 32), torch.zeros(1, 8, 8, dtype=torch.bool))
    assert (shown == 0.5).all()
    whole = torch.rand(1, 3, 32, 32)
    assert torch.allclose(veil(whole, torch.ones(1, 8, 8, dtype=torch.bool)), whole)
    assert veil(whole, None) is whole


def test_finished_pictures_report_their_times() -> None:
    with running(FakeWorld(step_work=4), limits=FREE) as engine:
        last = end(engine.submit(request(), "me"))
    assert isinstance(last, Finished)
    times = last.timings
    assert 0 <= times.queued_ms <= times.total_ms
    assert 0 < times.device_ms <= times.total_ms
    assert 0 < times.preview_ms < times.total_ms


def test_one_slow_moment_does_not_end_previews_for_good() -> None:
    typical = Typical()
    for seconds in (0.001, 0.5, 0.001):
        typical.add(seconds)
    assert typical.value == 0.001
    for _ in range(9):
        typical.add(0.5)
    for _ in range(400):
        typical.relax()
    assert typical.value is not None and typical.value < 0.001
