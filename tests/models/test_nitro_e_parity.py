"""Parity of Nitro-E with the reference: stages, forward, sampler, both resolutions."""

from __future__ import annotations

import json

import pytest
import torch
from torch import Tensor

from models.contracts import SampleSettings
from models.nitro_e import NITRO_E_512, NITRO_E_1024, NitroE, NitroEConfig, from_regions, to_regions
from models.randomness import Randomness
from models.samplers.diffusion import DiffusionSampler
from models.weights import shapes_of
from tests.golden_rule import FOLDER, deviation, fill, golden, golden_rule, rule_input

pytestmark = pytest.mark.golden
TOLERANCE = 1e-4
E = golden("nitro-e.tiny")
TINY = {"width": 64, "head_dim": 32, "text_width": 48}


def model_of(**changes: object) -> NitroE:
    return fill(NitroE(NitroEConfig(**{**TINY, **changes}))).requires_grad_(False)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def regional() -> NitroE:
    return model_of()


@pytest.fixture(scope="module")
def full() -> NitroE:
    return model_of(subregions=False)


def rows(latents: Tensor) -> Tensor:
    return latents.flatten(2).mT


def pictures(tokens: Tensor, side: int) -> Tensor:
    return tokens.mT.unflatten(2, (side, side))


def test_stages(regional: NitroE) -> None:
    tokens = rows(rule_input("input:latents", 2, 32, 16, 16))
    times = torch.tensor([1000.0, 333.25])
    embedder = regional.adaln_single
    time = embedder(times)
    assert deviation(embedder.emb.timestep_embedder(times), E["adaln.emb"]) <= TOLERANCE
    assert deviation(time.flatten(1), E["adaln.temb"]) <= TOLERANCE
    assert deviation(regional.positions[None], E["pos_embed.center"]) <= TOLERANCE
    seen = {}
    seen["text_embed"] = text = regional.embed_text(rule_input("input:text", 2, 32, 48))
    image = regional.pos_embed(tokens)
    for block in regional.block_groups[0]:
        image, text = block(image, text, time)
    seen["group0.image"], seen["group0.text"], fine = image, text, image
    seen["compressed"] = image = regional.compress(image)
    for block in regional.block_groups[1]:
        image, text = block(image, text, time)
    seen["group1.image"] = image
    seen["merged_plus_pos"] = image = regional.reconstruct(image, fine)
    for block in regional.block_groups[2]:
        image, text = block(image, text, time)
    seen["group2.image"] = image
    made = regional(tokens, seen["text_embed"], time)
    assert deviation(pictures(made, 16), E["asa.out"]) <= TOLERANCE
    for name, value in seen.items():
        assert deviation(value[:1], E[f"asa.{name}"]) <= TOLERANCE, name


def test_without_subregions(full: NitroE) -> None:
    tokens = rows(rule_input("input:latents", 2, 32, 16, 16))
    text = full.embed_text(rule_input("input:text", 2, 32, 48))
    time = full.adaln_single(torch.tensor([1000.0, 333.25]))
    assert deviation(pictures(full(tokens, text, time), 16), E["full.out"]) <= TOLERANCE


def test_1024_geometry() -> None:
    model = model_of(grid=32, subregions=False)
    text = model.embed_text(rule_input("input:text", 1, 32, 48))
    time = model.adaln_single(torch.tensor([500.5]))
    made = model(rows(rule_input("input:latents", 1, 32, 32, 32)), text, time)
    assert deviation(pictures(made, 32), E["size32.full.out"]) <= TOLERANCE
    assert deviation(model.positions[None, :32], E["size32.pos_row0"]) <= TOLERANCE


@pytest.mark.parametrize("name", sorted(n for n in E if ".sample." in n))
def test_sampler(name: str, request: pytest.FixtureRequest) -> None:
    kind, _, rest = name.partition(".sample.steps")
    steps, _, scale = rest.partition(".cfg")
    sampler = DiffusionSampler(request.getfixturevalue("regional" if kind == "asa" else "full"))
    prompt, empty = (
        sampler.prompt_context(rule_input(f"input:text_{kind}", 1, 32, 48)[0])
        for kind in ("cond", "uncond")
    )
    noise = rows(rule_input("noise:0", 1, 32, 16, 16))
    state = sampler.start(
        SampleSettings(seed=0, ar_iterations=1, flow_steps=int(steps), cfg_scale=float(scale)),
        prompt,
        empty,
        Randomness(noise, torch.arange(256), torch.zeros(1, 32)),
    )
    for _ in range(sampler.num_steps(state)):
        sampler.advance([state])
    assert deviation(sampler.latent(state)[None], E[name]) <= TOLERANCE


@pytest.mark.parametrize(("name", "config"), [("512", NITRO_E_512), ("1024", NITRO_E_1024)])
def test_published_names_shapes_and_counts(name: str, config: NitroEConfig) -> None:
    keys = json.loads((FOLDER / "keys" / f"nitro-e-{name}.keys.json").read_text())
    with torch.device("meta"):
        model = NitroE(config)
    assert shapes_of(model) == {n: tuple(shape) for n, (_, shape) in keys["tensors"].items()}
    count = sum(parameter.numel() for parameter in model.parameters())
    assert count == keys["_meta"]["total_parameters"]


@pytest.mark.parametrize("kind", [1, 2])
def test_regions_are_a_permutation_that_keeps_order(kind: int) -> None:
    x = torch.arange(64.0).view(1, 1, 64, 1)
    parts = to_regions(x, kind)
    assert torch.equal(from_regions(parts, kind), x)
    for region, part in enumerate(parts.view(4, 16).long().tolist()):
        rule = [j for j in range(64) if (j if kind == 1 else j // 4) % 4 == region]
        assert part == rule


@pytest.mark.slow
def test_full_size_forward_equals_the_references_summary() -> None:
    expected = golden_rule("nitro.fullsize")["summaries"]["nitro-e-512.forward"]
    model = fill(NitroE(NITRO_E_512)).requires_grad_(False)
    text = model.embed_text(rule_input("input:text", 1, 128, 2048))
    time = model.adaln_single(torch.tensor([947.4210815429688]))
    made = model(rows(rule_input("input:latents", 1, 32, 16, 16)), text, time)
    flat = pictures(made, 16).flatten().double()
    assert abs(flat.std() - expected["std"]) <= 1e-4 * expected["absmax"]
    for part, values in ((flat[:8], expected["first8"]), (flat[-8:], expected["last8"])):
        limit = 1e-4 * expected["absmax"]
        assert (part - torch.tensor(values, dtype=torch.float64)).abs().max() <= limit
