"""Parity with the reference implementation: backbone, heads and whole samplers of both flavours."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from models.contracts import SampleSettings
from models.emmdit import EMMDiTConfig
from models.heads import HeadConfig
from models.nitro_ar import NitroAR, NitroARConfig
from models.randomness import Randomness
from models.samplers.joint import JointSampler
from models.samplers.masked_ar import MaskedARSampler
from models.schedules import flow_sigmas, flow_times, masked_counts
from tests.golden_rule import deviation, fill, golden, golden_rule, rule_input, rule_order

pytestmark = pytest.mark.golden
TOLERANCE = 1e-4
TINY = {"width": 64, "head_dim": 32, "text_width": 48}
GAN, JOINT = golden("nitro-ar-gan.tiny"), golden("nitro-ar-joint.tiny")
GAN_CASES = sorted(n for n in GAN if n.startswith("sample."))
JOINT_CASES = sorted({n.rsplit(".", 1)[0] for n in JOINT if n.startswith("sample.")})


@pytest.fixture(scope="module")
def gan() -> NitroAR:
    config = NitroARConfig(EMMDiTConfig(**TINY), HeadConfig("mlp", width=64, depth=2))
    return fill(NitroAR(config)).requires_grad_(False)


@pytest.fixture(scope="module")
def joint() -> NitroAR:
    config = NitroARConfig(
        EMMDiTConfig(**TINY, norm="rms", global_pass=True),
        HeadConfig("transformer", width=128, depth=2),
    )
    return fill(NitroAR(config)).requires_grad_(False)


@pytest.mark.parametrize("flavour", ["gan", "joint"])
def test_backbone_and_its_stages(flavour: str, request: pytest.FixtureRequest) -> None:
    model, arrays = request.getfixturevalue(flavour), GAN if flavour == "gan" else JOINT
    tokens, text = rule_input("input:tokens", 2, 256, 32), rule_input("input:text", 2, 32, 48)
    seen: dict[str, Tensor] = {}
    embedded = model.embed_text(text)
    seen["text_embed"] = embedded.rows
    seen["embed"] = image = model.embed_tokens(tokens)
    words, qkv = embedded.rows, embedded.qkv
    for block in model.block_groups[0]:
        image, words = block(image, words, qkv)
        qkv = None
    fine = image
    seen["group0.image"], seen["group0.text"] = image, words
    seen["compressed"] = image = model.compress(image)
    for block in model.block_groups[1]:
        image, words = block(image, words)
    seen["group1.image"], seen["group1.text"] = image, words
    seen["merged_plus_pos"] = model.reconstruct(image, fine)
    seen = {name: value[:1] for name, value in seen.items()}
    seen["out"] = model(tokens, embedded)
    seen["group2.image"] = seen["out"][:1]
    if flavour == "joint":
        model = joint_with_global_input(model)
        seen["global.out"] = model.global_pass(embedded)
    else:
        assert deviation(model.positions[None], arrays["pos_embed_lv0"]) <= TOLERANCE
    expected = {n.removeprefix("backbone."): a for n, a in arrays.items() if "backbone." in n}
    assert set(seen) == set(expected)
    for name, array in expected.items():
        assert deviation(seen[name], array) <= TOLERANCE, name


class _GlobalInput(NitroAR):
    """The golden's global pass gets a token of its own per row instead of the mask token."""


def joint_with_global_input(model: NitroAR) -> NitroAR:
    twin = _GlobalInput(model.full_config)
    twin.load_state_dict(model.state_dict())
    twin.requires_grad_(False)
    del twin.mask_token
    twin.register_buffer("mask_token", rule_input("input:global_in", 2, 1, 32))
    return twin.eval()


def test_rows_read_are_the_rows_of_the_full_pass(gan: NitroAR) -> None:
    tokens, text = rule_input("input:tokens", 2, 256, 32), rule_input("input:text", 2, 32, 48)
    embedded = gan.embed_text(text)
    rows = torch.tensor([[5, 200, 31], [0, 255, 7]])
    full = gan(tokens, embedded)
    few = gan(tokens, embedded, rows)
    assert deviation(few, torch.stack([full[0, rows[0]], full[1, rows[1]]])) <= 1e-5


def test_mlp_head(gan: NitroAR) -> None:
    head = gan.diffloss.net
    x, c = rule_input("input:head_x", 10, 32), rule_input("input:head_c", 10, 64)
    made = head(x, head.time(GAN["head.net.t"]), head.condition(c))
    assert deviation(made, GAN["head.net.out"]) <= TOLERANCE


def test_transformer_heads(joint: NitroAR) -> None:
    for slot, name, count in (
        (joint.diffloss, "head.net.N256", 256),
        (joint.diffloss, "head.net.N1", 1),
        (joint.diffloss_global, "head_global.net.N1", 1),
    ):
        head, x = slot.net, rule_input("input:head_x", 2, count, 32)
        c = rule_input("input:head_c", 2, count, 64)
        made = head(x, head.time(torch.tensor([833.0, 167.0])), head.condition(c))
        assert deviation(made, JOINT[name]) <= TOLERANCE, name


def euler(head, hidden: Tensor, noise: Tensor, steps: int, cfg: float, rounding: str) -> Tensor:
    """The head's chain written out plainly, as the samplers do it."""
    times, sigmas = flow_times(steps, rounding), flow_sigmas(steps)
    z, condition = noise, head.condition(hidden)
    for k in range(steps):
        time = head.time(torch.full((hidden.shape[0],), times[k]))
        if cfg == 1.0:
            v = head(z, time, condition)
        else:
            u, c = head(torch.cat([z, z]), time, condition).chunk(2)
            v = u + cfg * (c - u)
        z = z + (sigmas[k + 1] - sigmas[k]) * v
    return z


@pytest.mark.parametrize("name", sorted(n for n in GAN if n.startswith("head.sample.")))
def test_mlp_head_chain(gan: NitroAR, name: str) -> None:
    steps, cfg = int(name.split("steps")[1].split(".")[0]), float(name.split("cfg")[1])
    rows = 12 if cfg == 1.0 else 6
    hidden, noise = rule_input("input:head_z", 12, 64), rule_input("noise:0", rows, 32)
    made = euler(gan.diffloss.net, hidden, noise, steps, cfg, "two-step")
    assert deviation(made, GAN[name]) <= TOLERANCE


@pytest.mark.parametrize("name", sorted(n for n in JOINT if n.startswith("head.sample.")))
def test_transformer_head_chain(joint: NitroAR, name: str) -> None:
    steps, cfg = int(name.split("steps")[1].split(".")[0]), float(name.split("cfg")[1])
    rows = 2 if cfg == 1.0 else 1
    hidden, noise = rule_input("input:head_z", 2, 256, 64), rule_input("noise:0", rows, 256, 32)
    made = euler(joint.diffloss.net, hidden, noise, steps, cfg, "multi-step")
    assert deviation(made, JOINT[name]) <= TOLERANCE


def settings_of(case: dict) -> SampleSettings:
    return SampleSettings(
        seed=0,
        ar_iterations=case["num_iter"],
        flow_steps=case["diff_steps"],
        cfg_scale=case["cfg"],
        cfg_schedule=case.get("cfg_schedule", "constant"),
    )


@pytest.mark.parametrize("name", GAN_CASES)
def test_masked_ar_sampler(gan: NitroAR, name: str) -> None:
    case = golden_rule("nitro-ar-gan.tiny")["cases"][name]
    batch, settings, sampler = case["batch"], settings_of(case), MaskedARSampler(gan)
    text = rule_input("input:text_cond", batch, 32, 48)
    empty = sampler.prompt_context(rule_input("input:text_uncond", 1, 32, 48)[0])
    counts = masked_counts(256, settings.ar_iterations)
    assert [batch * (a - b) for a, b in zip(counts, counts[1:])] == [
        shape[0] for shape in case["noise_draw_shapes"]
    ]
    fields = torch.zeros(batch, 256, 32)
    for k, (before, after) in enumerate(zip(counts, counts[1:])):
        # The reference draws rows image after image, positions ascending.
        draws = rule_input(f"noise:{k}", batch * (before - after), 32).chunk(batch)
        for row in range(batch):
            positions = rule_order(row)[after:before].sort().values
            fields[row, positions] = draws[row]
    states = [
        sampler.start(
            settings,
            sampler.prompt_context(text[row]),
            empty,
            Randomness(fields[row : row + 1], rule_order(row), torch.zeros(1, 32)),
        )
        for row in range(batch)
    ]
    for _ in range(sampler.num_steps(states[0])):
        sampler.advance(states)
    made = torch.stack([state.tokens for state in states])
    assert deviation(made, GAN[name]) <= TOLERANCE


@pytest.mark.parametrize("name", JOINT_CASES)
def test_joint_sampler(joint: NitroAR, name: str) -> None:
    case = golden_rule("nitro-ar-joint.tiny")["cases"][name]
    batch, settings = case["batch"], settings_of(case)
    sampler = JointSampler(joint, case["global_token_dependency"], case.get("rewrite", False))
    text = rule_input("input:text_cond", batch, 32, 48)
    empty = sampler.prompt_context(rule_input("input:text_uncond", 1, 32, 48)[0])
    thumbnails = rule_input("noise:0", batch, 1, 32)
    fields = torch.stack(
        [rule_input(f"noise:{k + 1}", batch, 256, 32) for k in range(settings.ar_iterations)], dim=1
    )  # [B, iterations, T, C]
    states = [
        sampler.start(
            settings,
            sampler.prompt_context(text[row]),
            empty,
            Randomness(fields[row], rule_order(row), thumbnails[row]),
        )
        for row in range(batch)
    ]
    for _ in range(sampler.num_steps(states[0])):
        sampler.advance(states)
    made_global = torch.stack([state.global_token for state in states])
    assert deviation(made_global, JOINT[f"{name}.global"]) <= TOLERANCE
    made = torch.stack([state.tokens for state in states])
    assert deviation(made, JOINT[f"{name}.tokens"]) <= TOLERANCE
