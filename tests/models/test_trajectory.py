"""Resuming a finished picture: unchanged it comes out bit for bit, changed from there on only."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from models.given import Given
from models.trajectory import Trajectory
from tests.golden_rule import deviation
from tests.models.tiny import KINDS, contexts, finish, picture, sampler_of, settings, window

EDITS: dict[str, Given | None] = {
    "whole": None,
    "window": Given(picture(), window(1, 1, 5)),
    "share": Given(picture(), torch.ones(8, 8, dtype=torch.bool), strength=0.6),
}


def drawn(sampler: Any, given: Given | None = None, **changes: Any) -> Trajectory:
    state = sampler.start(settings(**changes), *contexts(sampler), given=given)
    finish(sampler, state)
    return sampler.trajectory(state)


def resumed(sampler: Any, past: Trajectory, step: int, prompt: int = 0, **changes: Any) -> Any:
    return sampler.resume(
        settings(**changes), *contexts(sampler, prompt), trajectory=past, step=step
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("iterations", [1, 4])
def test_unchanged_it_is_bit_for_bit_the_same_from_every_step(
    kind: str, edit: str, iterations: int
) -> None:
    sampler = sampler_of(kind)
    past = drawn(sampler, EDITS[edit], ar_iterations=iterations)
    for step in range(past.steps):
        state = resumed(sampler, past, step, ar_iterations=iterations)
        assert state.step == step and sampler.num_steps(state) == past.steps
        assert torch.equal(finish(sampler, state), past.latent), f"from step {step}"
        again = sampler.trajectory(state)
        assert past.committed is None or torch.equal(again.committed, past.committed)
        assert len(again.path) == len(past.path)  # a fork can be forked in turn
        assert all(torch.equal(a, b) for a, b in zip(again.path, past.path))


CHANGES: list[tuple[int, dict[str, Any]]] = [
    (1, {}),
    (0, {"seed": 2}),
    (0, {"cfg_scale": 6.0}),
    (0, {"cfg_scale": 1.0}),
    (0, {"flow_steps": 7}),
    (0, {"ar_iterations": 9}),
]


@pytest.mark.parametrize(
    ("kind", "prompt", "changes"),
    [
        (kind, *change)
        for kind in KINDS
        for change in CHANGES
        if kind != "diffusion" or "ar_iterations" not in change[1]  # it has none
    ],
)
def test_a_change_counts_from_there_on(kind: str, prompt: int, changes: dict[str, Any]) -> None:
    sampler = sampler_of(kind)
    past = drawn(sampler)
    step = past.steps // 2
    made = finish(sampler, resumed(sampler, past, step, prompt, **changes))
    known = past.known(step)
    assert torch.equal(made[:, known], past.latent[:, known])
    assert deviation(made[:, ~known], past.latent[:, ~known]) > 1e-3
    fresh = sampler.start(settings(**changes), *contexts(sampler, prompt))
    assert deviation(made, finish(sampler, fresh)) > 1e-3, "the past counts too"


@pytest.mark.parametrize("kind", ["joint", "diffusion"])
def test_the_later_the_fork_the_nearer_the_picture(kind: str) -> None:
    sampler = sampler_of(kind)
    past = drawn(sampler, ar_iterations=1, flow_steps=8)
    distances = [
        float((finish(sampler, resumed(
            sampler, past, step, prompt=1, ar_iterations=1, flow_steps=8)) - past.latent
        ).square().mean())
        for step in (1, 4, past.steps - 1)
    ]  # fmt: skip
    assert distances == sorted(distances, reverse=True)


@pytest.mark.parametrize("theirs", KINDS)
@pytest.mark.parametrize("mine", KINDS)
def test_another_kind_of_sampler_goes_on_too(theirs: str, mine: str) -> None:
    past = drawn(sampler_of(theirs), EDITS["window"])
    sampler = sampler_of(mine)
    for step in range(past.steps):
        made = finish(sampler, resumed(sampler, past, step, seed=5))
        known = past.known(step)
        assert torch.isfinite(made).all()
        assert torch.equal(made[:, known], past.latent[:, known])
        assert known[~window(1, 1, 5)].all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_trajectory_is_small(kind: str) -> None:
    past = drawn(sampler_of(kind), ar_iterations=1, flow_steps=6)
    tokens = past.latent.numel() * 4
    assert past.nbytes <= (1.1 if kind == "mlp" else past.steps + 1.1) * tokens
