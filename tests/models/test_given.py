"""Starting from a picture: what is kept stays bit for bit, in any company, for every sampler."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given as examples
from hypothesis import strategies as st

from models.given import GIVEN, Given, open_order, scaled_iterations
from models.schedules import diffusion_sigmas, diffusion_sigmas_from, masked_counts
from tests.golden_rule import deviation
from tests.models.tiny import KINDS, contexts, finish, picture, sampler_of, settings, window


def edit(sampler: Any, given: Given, prompt: int = 0, **changes: Any) -> Any:
    return sampler.start(settings(**changes), *contexts(sampler, prompt), given=given)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("iterations", [1, 3])
def test_kept_tokens_are_bit_identical_and_free_ones_are_drawn(kind: str, iterations: int) -> None:
    sampler, before, free = sampler_of(kind), picture(), window()
    state = edit(sampler, Given(before, free), ar_iterations=iterations)
    while state.step < sampler.num_steps(state):
        sampler.advance([state])
        assert torch.equal(sampler.latent(state)[:, ~free], before[:, ~free])
    after = sampler.latent(state)
    assert (after - before)[:, free].abs().min(0).values.max() > 1e-3
    committed = sampler.committed(state)
    if committed is not None:
        assert (committed[~free] == GIVEN).all() and (committed[free] > 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_kept_tokens_are_bit_identical_where_the_model_is_coarser(kind: str) -> None:
    sampler, before, free = sampler_of(kind), picture(), window()
    sampler.model.bfloat16()
    after = finish(sampler, edit(sampler, Given(before, free)))
    assert after.dtype == torch.float32 and torch.equal(after[:, ~free], before[:, ~free])
    state = sampler.start(settings(), *contexts(sampler))
    made = finish(sampler, state)
    past = sampler.trajectory(state)
    fork = sampler.resume(settings(), *contexts(sampler), trajectory=past, step=2)
    assert torch.equal(finish(sampler, fork), made)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_kept_decides_what_is_drawn(kind: str) -> None:
    sampler, free = sampler_of(kind), window()
    a, b = (
        finish(sampler, edit(sampler, Given(picture(name), free)))
        for name in ("picture", "another")
    )
    assert deviation(a[:, free], b[:, free]) > 1e-3


@pytest.mark.parametrize("kind", KINDS)
def test_with_everything_free_the_picture_does_not_matter(kind: str) -> None:
    sampler = sampler_of(kind)
    plain = finish(sampler, sampler.start(settings(), *contexts(sampler)))
    everything = Given(picture(), torch.ones(8, 8, dtype=torch.bool))
    assert torch.equal(finish(sampler, edit(sampler, everything)), plain)


@pytest.mark.parametrize("kind", KINDS)
def test_company_does_not_change_an_edit(kind: str) -> None:
    """Edits of other sizes and strengths, and whole pictures, at other progress."""
    sampler = sampler_of(kind)
    mine = Given(picture(), window())
    alone = finish(sampler, edit(sampler, mine))
    mates = [
        edit(sampler, Given(picture("mate"), window(0, 0, side), strength), side, seed=side)
        for side, strength in ((1, 1.0), (5, 0.6), (8, 0.8))
    ] + [sampler.start(settings(9), *contexts(sampler, 2))]
    for done, mate in enumerate(mates):
        for _ in range(min(done, sampler.num_steps(mate) - 1)):
            sampler.advance([mate])
    state = edit(sampler, mine)
    while state.step < sampler.num_steps(state):
        mates = [mate for mate in mates if mate.step < sampler.num_steps(mate)]
        sampler.advance([*mates[:2], state, *mates[2:]])
    assert deviation(sampler.latent(state), alone) <= 1e-4
    assert torch.equal(sampler.latent(state)[:, ~mine.free], mine.latent[:, ~mine.free])


@pytest.mark.parametrize("kind", ["mlp", "joint"])
def test_a_smaller_strength_frees_a_part_of_what_a_larger_one_does(kind: str) -> None:
    sampler, free = sampler_of(kind), window(1, 1, 6)
    freed = []
    for strength in (0.01, 0.3, 0.6, 1.0):
        state = edit(sampler, Given(picture(), free, strength))
        finish(sampler, state)
        freed.append(sampler.committed(state) != GIVEN)
    assert [int(mask.sum()) for mask in freed] == [1, 11, 22, 36]
    assert all((smaller <= larger).all() for smaller, larger in zip(freed, freed[1:]))
    assert torch.equal(freed[-1], free)


def test_a_stronger_renoising_leaves_less_of_the_picture() -> None:
    sampler, before = sampler_of("diffusion"), picture()
    everywhere = torch.ones(8, 8, dtype=torch.bool)
    distances, steps = [], []
    for strength in (0.05, 0.3, 0.6, 0.95):
        state = edit(sampler, Given(before, everywhere, strength), flow_steps=12)
        distances.append(float((finish(sampler, state) - before).square().mean()))
        steps.append(state.step)
    assert distances == sorted(distances) and distances[0] < 0.1 * distances[-1]
    assert steps == sorted(steps) and steps[0] < steps[-1] <= 12


@examples(st.floats(0.001, 1.0), st.integers(1, 50))
def test_noise_levels_from_a_strength_fall_to_zero(strength: float, steps: int) -> None:
    sigmas = diffusion_sigmas_from(strength, steps)
    assert sigmas[0] == pytest.approx(strength) and sigmas[-1] == 0
    assert all(a > b for a, b in zip(sigmas, sigmas[1:]))
    assert set(sigmas[1:]) <= set(diffusion_sigmas(steps))


@examples(st.sampled_from([64, 256]), st.integers(1, 64), st.data())
def test_no_iteration_of_an_edit_is_without_a_token(
    tokens: int, whole: int, data: st.DataObject
) -> None:
    free = data.draw(st.integers(1, tokens))
    counts = masked_counts(free, scaled_iterations(whole, free, tokens))
    assert counts[0] == free and counts[-1] == 0
    assert all(a > b for a, b in zip(counts, counts[1:]))
    assert len(counts) - 1 <= whole


def test_the_order_of_an_edit_is_the_pictures_own_restricted() -> None:
    order = torch.randperm(64)
    free = open_order(order, Given(picture(), window()))
    assert free.tolist() == [cell for cell in order.tolist() if window().flatten()[cell]]


@pytest.mark.parametrize(
    ("free", "strength", "words"),
    [
        (torch.zeros(8, 8, dtype=torch.bool), 1.0, "nothing to draw"),
        (torch.ones(4, 4, dtype=torch.bool), 1.0, "needs a mask"),
        (window(), 0.0, "strength"),
        (window(), 1.5, "strength"),
    ],
)
def test_what_cannot_be_drawn_is_refused(free: torch.Tensor, strength: float, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Given(picture(), free, strength)


def test_noise_of_a_diffusion_falls_from_one_to_zero_and_tokens_have_none() -> None:
    for kind in KINDS:
        sampler = sampler_of(kind)
        state = sampler.start(settings(), *contexts(sampler))
        levels = [sampler.noise_level(state)]
        while state.step < sampler.num_steps(state):
            sampler.advance([state])
            levels.append(sampler.noise_level(state))
        if kind == "diffusion":
            assert levels[0] == 1.0 and levels[-1] == 0.0 and levels == sorted(set(levels))[::-1]
        else:
            assert set(levels) == {None}
