"""Schedules against the specification's tables, and the properties every setting must have."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.schedules import flow_sigmas, flow_times, guidance_scales, masked_counts

TWENTY = [1, 3, 4, 5, 7, 8, 10, 11, 13, 13, 15, 16, 17, 17, 19, 18, 20, 19, 20, 20]


def committed(tokens: int, iterations: int) -> list[int]:
    counts = masked_counts(tokens, iterations)
    return [a - b for a, b in zip(counts, counts[1:])]


def test_published_token_counts() -> None:
    assert committed(256, 20) == TWENTY
    assert committed(256, 4) == [20, 55, 84, 97]
    assert committed(256, 1) == [256]
    assert committed(256, 64)[:14] == [1] * 13 + [2]
    assert committed(256, 300).count(0) == 44


@given(st.sampled_from([16, 64, 256, 1024]), st.integers(1, 64))
def test_every_token_is_committed_once_and_no_iteration_is_idle(tokens: int, n: int) -> None:
    steps = committed(tokens, n)
    assert len(steps) == n and sum(steps) == tokens
    assert all(step >= 0 for step in steps)
    if n <= tokens:
        assert all(step >= 1 for step in steps)


@pytest.mark.parametrize(
    ("steps", "gan", "joint", "sigmas"),
    [
        (1, [1000], [1000], [1, 0]),
        (2, [1000, 500], [1000, 500], [1, 0.5005, 0.001]),
        (3, [1000, 667, 334], [1000, 667, 334], [1, 0.667, 0.334, 0.001]),
        (
            4,
            [1000, 750.25, 500.5, 250.75],
            [1000, 750, 500, 250],
            [1, 0.75025, 0.5005, 0.25075, 0.001],
        ),
        (
            6,
            [1000, 833.5, 667, 500.5, 334, 167.5],
            [1000, 833, 667, 500, 334, 167],
            [1, 0.8335, 0.667, 0.5005, 0.334, 0.1675, 0.001],
        ),
    ],
)
def test_flow_tables(steps: int, gan: list, joint: list, sigmas: list) -> None:
    assert flow_times(steps, "two-step") == pytest.approx(gan)
    assert flow_times(steps, "multi-step") == pytest.approx(joint)
    assert flow_sigmas(steps) == pytest.approx(sigmas)


@given(st.integers(2, 50))
def test_sigmas_fall_and_keep_a_thousandth(steps: int) -> None:
    sigmas = flow_sigmas(steps)
    assert all(a > b for a, b in zip(sigmas, sigmas[1:]))
    assert sigmas[-1] == 0.0010000000474974513


def test_linear_guidance_grows_from_near_one_to_just_short_of_the_scale() -> None:
    scales = guidance_scales(4.0, "linear", 256, masked_counts(256, 20))
    assert scales[0] == pytest.approx(1 + 3 * 1 / 256)
    assert scales[-1] == pytest.approx(1 + 3 * 255 / 256)
    assert list(scales) == sorted(scales)
    assert guidance_scales(4.0, "constant", 256, masked_counts(256, 3)) == (4.0, 4.0, 4.0)
