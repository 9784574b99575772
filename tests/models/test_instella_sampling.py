"""The contract of the bit samplers: caches, company, editing, forks, seeds, rasters."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from models.given import GIVEN, Given
from models.instella.generator import TextBatch
from models.instella.noise import certain, guided, noise_times, noise_times_from
from models.randomness import draw_uniforms
from tests.instella_rule import coins
from tests.models.instella import BITS, TOKENS, autoregressive, contexts, sampler_of, settings
from tests.models.tiny import finish

KINDS = ("diffusion", "ar")


def drawn(kind: str, seed: int = 1, row: int = 0, **changes: float) -> Tensor:
    sampler = sampler_of(kind)
    return finish(sampler, sampler.start(settings(seed, **changes), *contexts(sampler, row)))


def source() -> Tensor:
    return coins("source", TOKENS, BITS).T[:, :, None].contiguous()


def test_a_cache_changes_no_bit() -> None:
    """Every token again from the whole prefix, as the release does it."""
    model, sampler = autoregressive(), sampler_of("ar")
    prompt, empty = contexts(sampler)
    for seed in range(20):
        wanted = settings(seed, cfg_scale=8.5)
        cached = finish(sampler, sampler.start(wanted, prompt, empty))[:, :, 0].T
        uniforms = draw_uniforms(seed, 1, TOKENS, BITS)[0]
        bits = torch.zeros(0, BITS)
        for token in range(TOKENS):
            rows = model(bits.expand(2, -1, -1), TextBatch.of([empty, prompt]))[:, -1]
            chance = certain(guided(rows[0], rows[1], torch.tensor(8.5)), 1.0)
            bits = torch.cat([bits, (uniforms[token] < chance).float()[None]])
        assert torch.equal(cached, bits), seed


@pytest.mark.parametrize("kind", KINDS)
def test_company_at_other_places_changes_nothing(kind: str) -> None:
    sampler = sampler_of(kind)
    alone = [drawn(kind, seed, row, cfg_scale=2 + seed) for seed, row in ((1, 0), (2, 1), (3, 0))]
    waiting = [(1, 0), (2, 1), (3, 0)]
    running, done = [], []
    while waiting or running:  # one joins at every second step, so all are at other places
        if waiting:
            seed, row = waiting.pop(0)
            wanted = settings(seed, cfg_scale=2 + seed)
            running.append(sampler.start(wanted, *contexts(sampler, row)))
        for _ in range(2):
            sampler.advance([s for s in running if s.step < sampler.num_steps(s)])
        done += [s for s in running if s.step == sampler.num_steps(s)]
        running = [s for s in running if s.step < sampler.num_steps(s)]
    for state, expected in zip(done, alone, strict=True):
        assert torch.equal(sampler.latent(state), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_same_seed_same_bits_other_seed_other_bits(kind: str) -> None:
    assert torch.equal(drawn(kind), drawn(kind))
    assert not torch.equal(drawn(kind), drawn(kind, seed=2))
    assert set(drawn(kind).unique().tolist()) == {0.0, 1.0}
    assert drawn(kind).shape == (BITS, TOKENS, 1)


@pytest.mark.parametrize("kind", KINDS)
def test_no_guidance_takes_one_row_and_never_looks_at_the_empty_prompt(kind: str) -> None:
    sampler = sampler_of(kind)
    prompt, empty = contexts(sampler)
    one = finish(sampler, sampler.start(settings(cfg_scale=1.0), prompt, empty))
    assert torch.equal(one, finish(sampler, sampler.start(settings(cfg_scale=1.0), prompt, prompt)))


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_prompt_draws(kind: str) -> None:
    sampler = sampler_of(kind)
    _, empty = contexts(sampler)
    made = finish(sampler, sampler.start(settings(), empty, empty))
    assert set(made.unique().tolist()) == {0.0, 1.0}


@pytest.mark.parametrize("kind", KINDS)
def test_temperature_zero_is_the_same_for_every_seed_from_the_same_noise(kind: str) -> None:
    sampler = sampler_of(kind)
    prompt, empty = contexts(sampler)
    made = finish(sampler, sampler.start(settings(temperature=0.0), prompt, empty))
    assert set(made.unique().tolist()) == {0.0, 1.0} and bool(made.isfinite().all())
    if kind == "ar":  # no noise at all
        assert torch.equal(made, drawn(kind, seed=7, temperature=0.0))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("kept", [(0, 1), (3, 4), (0, 2, 5), (5,)])
def test_kept_tokens_come_out_bit_for_bit(kind: str, kept: tuple[int, ...]) -> None:
    sampler = sampler_of(kind)
    free = torch.ones(TOKENS, 1, dtype=torch.bool)
    free[list(kept)] = False
    state = sampler.start(settings(5), *contexts(sampler), given=Given(source(), free))
    made = finish(sampler, state)
    assert torch.equal(made[:, list(kept)], source()[:, list(kept)])
    if kind == "ar":
        assert state.committed_at[list(kept)].tolist() == [GIVEN] * len(kept)
        first = 0 if 0 not in kept else next(i for i in range(TOKENS) if i not in kept)
        assert sampler.num_steps(state) == TOKENS - first


def test_a_kept_prefix_is_what_the_model_goes_on_from() -> None:
    """Continuing a picture's own prefix with its own seed is that picture."""
    sampler, whole = sampler_of("ar"), drawn("ar", seed=4)
    for count in range(1, TOKENS):
        free = torch.arange(TOKENS)[:, None] >= count
        state = sampler.start(settings(4), *contexts(sampler), given=Given(whole, free))
        assert sampler.num_steps(state) == TOKENS - count
        assert torch.equal(finish(sampler, state), whole), count


def test_strength_is_the_time_a_picture_is_noised_to() -> None:
    assert noise_times(4) == (1.0, 0.75, 0.5, 0.25, 0.0)
    assert noise_times_from(0.6, 4) == (0.6, 0.5, 0.25, 0.0)
    assert noise_times_from(1.0, 4) == noise_times(4)
    sampler = sampler_of("diffusion")
    free = torch.ones(TOKENS, 1, dtype=torch.bool)
    near, far = (
        sampler.start(settings(3), *contexts(sampler), given=Given(source(), free, strength))
        for strength in (0.1, 1.0)
    )
    rows = source()[:, :, 0].T
    assert float((near.z != rows).float().mean()) < 0.2 < float((far.z != rows).float().mean())
    assert sampler.num_steps(near) == 1


def test_a_strength_below_one_keeps_a_prefix_of_an_autoregressive_picture() -> None:
    sampler = sampler_of("ar")
    free = torch.ones(TOKENS, 1, dtype=torch.bool)
    state = sampler.start(settings(3), *contexts(sampler), given=Given(source(), free, 0.5))
    assert torch.equal(finish(sampler, state)[:, :3], source()[:, :3])
    assert sampler.num_steps(state) == 3


@pytest.mark.parametrize("kind", KINDS)
def test_a_fork_with_nothing_changed_is_the_picture_itself(kind: str) -> None:
    sampler = sampler_of(kind)
    prompt, empty = contexts(sampler)
    state = sampler.start(settings(6), prompt, empty)
    whole = finish(sampler, state)
    past = sampler.trajectory(state)
    for step in range(sampler.num_steps(state)):
        again = sampler.resume(settings(6), prompt, empty, trajectory=past, step=step)
        assert again.step == step and sampler.num_steps(again) == sampler.num_steps(state)
        assert torch.equal(finish(sampler, again), whole), step
        assert torch.equal(sampler.trajectory(again).latent, whole)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("other", KINDS)
def test_forks_across_prompts_and_generators_run(kind: str, other: str) -> None:
    first, second = sampler_of(kind), sampler_of(other)
    state = first.start(settings(6), *contexts(first))
    finish(first, state)
    past = first.trajectory(state)
    for step in range(first.num_steps(state)):
        forked = second.resume(settings(9), *contexts(second, 1), trajectory=past, step=step)
        made = finish(second, forked)
        assert set(made.unique().tolist()) == {0.0, 1.0}
        if past.committed is not None:  # tokens that were there stay
            assert torch.equal(made[:, :step], past.latent[:, :step])


@pytest.mark.parametrize("kind", KINDS)
def test_the_raster_settles(kind: str) -> None:
    sampler = sampler_of(kind)
    state = sampler.start(settings(6), *contexts(sampler))
    before = sampler.raster(state)
    assert before.shape == (TOKENS, BITS) and before.dtype == torch.uint8
    assert int((before & 127).max()) == 0  # nothing is sure yet
    made = finish(sampler, state)
    after = sampler.raster(state)
    assert torch.equal((after >> 7).float(), made[:, :, 0].T)
    assert int((after & 127).max()) > 0


def test_an_autoregressive_picture_shows_what_is_there() -> None:
    sampler = sampler_of("ar")
    state = sampler.start(settings(6), *contexts(sampler))
    assert sampler.shown(state) is False
    sampler.advance([state])
    sampler.advance([state])
    shown = sampler.shown(state)
    assert isinstance(shown, Tensor) and shown.flatten().tolist() == [True, True] + [False] * 4
    assert sampler.committed(state).flatten().tolist() == [1, 2, 0, 0, 0, 0]
    assert bool((sampler.latent(state)[:, 2:] == 0.5).all())
