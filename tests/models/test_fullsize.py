"""Full-size models against the reference's summaries: mean, spread, first and last values."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from models.contracts import SampleSettings
from models.loading import CONFIGS
from models.nitro_ar import NitroAR
from models.randomness import Randomness
from models.samplers.masked_ar import MaskedARSampler
from models.schedules import masked_counts
from tests.golden_rule import fill, golden_rule, rule_input, rule_order

pytestmark = [pytest.mark.golden, pytest.mark.slow]
SUMMARIES = golden_rule("nitro.fullsize")["summaries"]


def check(name: str, made: Tensor) -> None:
    expected = SUMMARIES[name]
    assert list(made.shape) == expected["shape"]
    scale, flat = expected["absmax"], made.double().flatten()
    assert abs(flat.abs().max() - scale) <= 1e-4 * scale
    assert abs(flat.mean() - expected["mean"]) <= 1e-4 * scale
    assert abs(flat.std() - expected["std"]) <= 1e-4 * scale
    for part, values in ((flat[:8], expected["first8"]), (flat[-8:], expected["last8"])):
        assert (part - torch.tensor(values, dtype=torch.float64)).abs().max() <= 1e-4 * scale


@pytest.fixture
def model(request: pytest.FixtureRequest) -> Iterator[NitroAR]:
    yield fill(NitroAR(CONFIGS[request.param])).requires_grad_(False)


@pytest.mark.parametrize("model", ["nitro-ar-gan"], indirect=True)
def test_gan(model: NitroAR) -> None:
    text = model.embed_text(rule_input("input:text", 1, 128, 2048))
    check("nitro-ar-gan.backbone", model(rule_input("input:tokens", 1, 256, 32), text))
    head = model.diffloss.net
    time = head.time(torch.tensor([1000.0, 667.0, 334.0, 500.5]))
    condition = head.condition(rule_input("input:head_c", 4, 768))
    check("nitro-ar-gan.head", head(rule_input("input:head_x", 4, 32), time, condition))

    sampler, order = MaskedARSampler(model), rule_order(0)
    counts, field = masked_counts(256, 2), torch.zeros(1, 256, 32)
    for k, (before, after) in enumerate(zip(counts, counts[1:])):
        field[0, order[after:before].sort().values] = rule_input(f"noise:{k}", before - after, 32)
    prompt, empty = (
        sampler.prompt_context(rule_input(name, 1, 128, 2048)[0])
        for name in ("input:text_cond", "input:text_uncond")
    )
    state = sampler.start(
        SampleSettings(seed=0, ar_iterations=2, flow_steps=3, cfg_scale=4.0),
        prompt,
        empty,
        Randomness(field, order, torch.zeros(1, 32)),
    )
    for _ in range(2):
        sampler.advance([state])
    check("nitro-ar-gan.sample.iter2.diff3.cfg4", state.tokens[None])


@pytest.mark.parametrize("model", ["nitro-ar-joint-gan"], indirect=True)
def test_joint(model: NitroAR) -> None:
    text = model.embed_text(rule_input("input:text", 1, 128, 2048))
    check("nitro-ar-joint.backbone", model(rule_input("input:tokens", 1, 256, 32), text))
    head = model.diffloss.net
    made = head(
        rule_input("input:head_x", 1, 256, 32),
        head.time(torch.tensor([833.0])),
        head.condition(rule_input("input:head_c", 1, 256, 768)),
    )
    check("nitro-ar-joint.head", made)
    model.mask_token.data.copy_(rule_input("input:global_in", 1, 1, 32))
    check("nitro-ar-joint.global_backbone", model.global_pass(text))
