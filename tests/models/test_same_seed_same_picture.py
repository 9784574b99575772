"""Same seed, same picture: alone or in any company, at any progress (A1111#376, #5210)."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from models.contracts import SampleSettings
from models.emmdit import EMMDiTConfig
from models.heads import HeadConfig
from models.nitro_ar import NitroAR, NitroARConfig
from models.samplers.joint import JointSampler
from models.samplers.masked_ar import MaskedARSampler
from tests.golden_rule import deviation, fill, rule_input

TOLERANCE = 1e-4  # in latents, fp32 on a CPU: other batch sizes sum in another order
SMALL = {"grid": 8, "width": 64, "head_dim": 32, "text_width": 48, "groups": (1, 2, 1)}


def sampler_of(kind: str) -> MaskedARSampler | JointSampler:
    if kind == "mlp":
        config = NitroARConfig(EMMDiTConfig(**SMALL), HeadConfig("mlp", width=64, depth=2))
        return MaskedARSampler(fill(NitroAR(config)).requires_grad_(False))
    config = NitroARConfig(
        EMMDiTConfig(**SMALL, norm="rms", global_pass=True),
        HeadConfig("transformer", width=64, depth=2),
    )
    return JointSampler(fill(NitroAR(config)).requires_grad_(False))


def settings(seed: int, **changes: object) -> SampleSettings:
    values = {"ar_iterations": 5, "flow_steps": 3, "cfg_scale": 3.0, **changes}
    return SampleSettings(seed=seed, **values)  # type: ignore[arg-type]


def start(sampler, chosen: SampleSettings):
    prompt = sampler.prompt_context(rule_input(f"prompt:{chosen.seed % 3}", 12, 48))
    empty = sampler.prompt_context(rule_input("empty", 12, 48))
    return sampler.start(chosen, prompt, empty)


def alone(sampler, chosen: SampleSettings) -> Tensor:
    state = start(sampler, chosen)
    for _ in range(sampler.num_steps(state)):
        sampler.advance([state])
    return sampler.latent(state)


@pytest.mark.parametrize("kind", ["mlp", "joint"])
@pytest.mark.parametrize("company", [2, 4, 8])
def test_in_a_batch_at_mixed_progress(kind: str, company: int) -> None:
    sampler = sampler_of(kind)
    chosen = settings(seed=7)
    expected = alone(sampler, chosen)
    mates = [
        start(sampler, settings(100 + k, ar_iterations=3 + k, cfg_scale=2.0 + k))
        for k in range(company - 1)
    ]
    for done, mate in enumerate(mates):  # everybody is somewhere else
        for _ in range(done % 4):
            sampler.advance([mate])
    state, running = start(sampler, chosen), mates
    while state.step < sampler.num_steps(state):
        running = [mate for mate in running if mate.step < sampler.num_steps(mate)]
        sampler.advance([*running[:1], state, *running[1:]])
        sampler.latent(state), sampler.committed(state)  # a preview changes nothing
    assert deviation(sampler.latent(state), expected) <= TOLERANCE


@pytest.mark.parametrize("kind", ["mlp", "joint"])
def test_cached_passes_do_not_change_the_picture(kind: str) -> None:
    sampler = sampler_of(kind)
    prompt = sampler.prompt_context(rule_input("prompt:1", 12, 48))
    empty = sampler.prompt_context(rule_input("empty", 12, 48))
    pictures = []
    for _ in range(2):  # the second time first pass and global pass come from the context
        state = sampler.start(settings(seed=1), prompt, empty)
        for _ in range(sampler.num_steps(state)):
            sampler.advance([state])
        pictures.append(sampler.latent(state))
    assert torch.equal(*pictures)
    assert prompt.first_pass is not None or prompt.global_pass is not None


@pytest.mark.parametrize("kind", ["mlp", "joint"])
def test_every_setting_counts(kind: str) -> None:
    sampler = sampler_of(kind)
    base = alone(sampler, settings(seed=3))
    for changes in (
        {"ar_iterations": 4}, {"flow_steps": 2}, {"cfg_scale": 1.0}, {"temperature": 0.5},
        {"cfg_schedule": "linear"},
    ):  # fmt: skip
        assert deviation(alone(sampler, settings(seed=3, **changes)), base) > 1e-3, changes
    assert deviation(alone(sampler, settings(seed=4)), base) > 1e-3


@pytest.mark.parametrize("kind", ["mlp", "joint"])
@pytest.mark.parametrize("iterations", [1, 2, 64])
@pytest.mark.parametrize("flow_steps", [1, 2, 50])
def test_the_corners_of_the_settings(kind: str, iterations: int, flow_steps: int) -> None:
    sampler = sampler_of(kind)
    if kind == "joint" and iterations * flow_steps > 200:
        iterations = 4
    state = start(sampler, settings(5, ar_iterations=iterations, flow_steps=flow_steps))
    for _ in range(sampler.num_steps(state)):
        sampler.advance([state])
    assert torch.isfinite(sampler.latent(state)).all()
    assert (sampler.committed(state) > 0).all()


def test_committed_tokens_never_change_again() -> None:
    sampler = sampler_of("mlp")
    state = start(sampler, settings(seed=2))
    for _ in range(sampler.num_steps(state)):
        before, known = state.tokens.clone(), state.committed_at > 0
        sampler.advance([state])
        assert torch.equal(state.tokens[known], before[known])
        assert ((state.committed_at == state.step) == (~known & (state.committed_at > 0))).all()


def test_equal_seeds_share_the_noise_field_across_variants() -> None:
    mlp, joint = sampler_of("mlp"), sampler_of("joint")
    a, b = start(mlp, settings(seed=11)), start(joint, settings(seed=11, ar_iterations=3))
    assert torch.equal(a.noise, b.fields[0])
    assert torch.equal(a.order, b.order)


def test_what_is_shown_grows_with_the_tokens_and_the_joint_estimate_is_whole() -> None:
    sampler = sampler_of("mlp")
    state = start(sampler, settings(seed=2))
    assert sampler.shown(state) is False
    sampler.advance([state])
    assert torch.equal(sampler.shown(state), sampler.committed(state) > 0)
    for _ in range(sampler.num_steps(state) - 1):
        sampler.advance([state])
    assert sampler.shown(state) is True

    joint = sampler_of("joint")
    state = start(joint, settings(seed=2, ar_iterations=1))
    joint.advance([state])
    assert joint.shown(state) is False
    distances = []
    estimates = []
    for _ in range(joint.num_steps(state) - 1):
        joint.advance([state])
        assert joint.shown(state) is True
        estimates.append(joint.latent(state))
    distances = [float((e - estimates[-1]).square().mean()) for e in estimates]
    assert distances == sorted(distances, reverse=True), "estimates approach the picture"
