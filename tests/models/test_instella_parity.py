"""Text features, both generators and both sampling loops are the reference's, bit for bit."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import OlmoConfig, OlmoForCausalLM

from models.instella.autoregressive import BitAR
from models.instella.config import INSTELLA_AR, INSTELLA_DIFFUSION
from models.instella.diffusion import BitDiffusion
from models.instella.generator import TextBatch
from models.instella.noise import guided, next_probability, noise_times
from models.instella.text import OLMO_1B, OlmoTextEncoder
from models.pixels import to_pixels
from models.samplers.bit_ar import BitARSampler
from models.samplers.bit_diffusion import BitDiffusionSampler
from models.weights import shapes_of
from tests.golden_rule import FOLDER, deviation, golden, golden_rule
from tests.instella_rule import coins, fill
from tests.models.instella import (
    BITS,
    TOKENS,
    autoregressive,
    diffusion,
    memories,
    settings,
    tokenizer,
)

LIMIT = 1e-4


def stored_shapes(name: str) -> dict[str, tuple[int, ...]]:
    stored = json.loads((FOLDER / "keys" / f"instella-{name}.keys.json").read_text())["tensors"]
    return {key: tuple(shape) for key, (_, shape) in stored.items()}


def test_names_and_shapes_are_the_published_checkpoints() -> None:
    with torch.device("meta"):
        assert shapes_of(BitDiffusion(INSTELLA_DIFFUSION)) == stored_shapes("diffusion")
        assert shapes_of(BitAR(INSTELLA_AR)) == stored_shapes("ar")
        assert shapes_of(OlmoForCausalLM(OlmoConfig(**OLMO_1B))) == stored_shapes("olmo1b")


# ---- text ----


def test_text_features_of_every_layer_and_none_for_an_empty_prompt() -> None:
    rule, known = golden_rule("instella-olmo"), golden("instella-olmo")
    whole = fill(OlmoForCausalLM(OlmoConfig(**rule["config"]))).requires_grad_(False)
    encoder = OlmoTextEncoder(whole.model, tokenizer=None)  # type: ignore[arg-type]
    for row in range(4):
        kept = known["attention_mask"][row].bool()
        made = encoder.features(known["input_ids"][row][kept].tolist())
        assert made.shape == (3, int(kept.sum()), 32)
        if kept.any():
            assert deviation(made, known["features"][:, row, kept]) < LIMIT


# ---- the diffusion generator ----


def test_the_diffusion_network_block_by_block() -> None:
    known, model = golden("instella-diffusion"), diffusion()
    z, times = coins("diff_z", 4, TOKENS, BITS), known["t"]
    assert torch.equal(z, known["z"])
    assert deviation(model.time_embed(times), known["temb"]) < LIMIT
    seen: list[Tensor] = []
    hooks = [
        block.register_forward_hook(lambda _m, _i, out: seen.append(out))
        for block in model.transformer_blocks
    ]
    logits = model(z, model.modulation(times), TextBatch.of(memories(model)))
    for hook in hooks:
        hook.remove()
    for index, out in enumerate(seen):
        assert deviation(out, known[f"block{index}_out"]) < LIMIT, index
    assert len(seen) == 3 and deviation(logits, known["logits"]) < LIMIT


@pytest.mark.parametrize("run", ["p1", "p2", "p1b"])
def test_a_diffusion_run_with_the_reference_s_draws(run: str) -> None:
    known, rule = golden("instella-diffusion"), golden_rule("instella-diffusion")["runs"][run]
    protocol = 1 if rule["protocal"] == "protocal_1" else 2
    sampler = BitDiffusionSampler(diffusion(), rho=rule["rho"], protocol=protocol)
    texts = memories(diffusion())
    states = [
        sampler.start(
            settings(
                flow_steps=rule["num_sampling_steps"],
                cfg_scale=1 + rule["guidance_scale"],
                temperature=rule["temp"],
            ),
            texts[row],
            texts[2 + row],
            known[f"{run}_u"][:, row],
        )
        for row in range(2)
    ]
    raw: list[Tensor] = []
    hook = sampler.model.register_forward_hook(lambda _m, _i, out: raw.append(out))
    for step in range(4):
        for row, state in enumerate(states):
            assert torch.equal(state.z, known[f"{run}_z_in"][step, row]), (step, row)
        sampler.advance(states)
        # Ours are unconditional rows, then conditional ones; the golden's the other way round.
        assert deviation(raw[-1].roll(2, 0), known[f"{run}_raw_out"][step]) < LIMIT, step
        for row, state in enumerate(states):
            assert state.clean is not None
            assert deviation(state.clean, known[f"{run}_x0_prob"][step, row]) < LIMIT, (step, row)
    hook.remove()
    for row, state in enumerate(states):
        assert torch.equal(state.z, known[f"{run}_z_final"][row])


def test_guidance_and_draw_probabilities() -> None:
    known, rules = golden("instella-diffusion"), golden_rule("instella-diffusion")["runs"]
    for run, rule in rules.items():
        times = noise_times(rule["num_sampling_steps"], rule["rho"])
        conditional, empty = known[f"{run}_raw_out"].chunk(2, dim=1)
        scale = torch.tensor(1 + rule["guidance_scale"])
        made = guided(empty, conditional, scale) / rule["temp"]
        assert deviation(made, known[f"{run}_guided_flip_logits"]) < LIMIT
        protocol = 1 if rule["protocal"] == "protocal_1" else 2
        for step in range(3):
            chance = next_probability(
                known[f"{run}_z_in"][step],
                known[f"{run}_x0_prob"][step],
                times[step],
                times[step + 1],
                protocol,
            )
            assert deviation(chance, known[f"{run}_bernoulli_p"][step + 1]) < LIMIT, (run, step)


def test_the_result_and_a_preview_decode_to_the_same_pixels() -> None:
    known = golden("instella-diffusion")
    made = tokenizer().decode(known["p1_z_final"], 8, 8)
    assert deviation(made, known["p1_decoded_raw"]) < LIMIT
    pixels = np.stack(to_pixels((made / 2 + 0.5).clamp(0, 1), "truncate"))
    off = (torch.from_numpy(pixels).short() - known["p1_uint8"].short()).abs()
    assert int(off.max()) <= 1 and float((off > 0).float().mean()) < 1e-3
    preview = tokenizer().decode((known["p1_x0_prob"][0] > 0.5).float(), 8, 8)
    assert deviation(preview, known["p1_x0_decode_step0"]) < LIMIT


# ---- the autoregressive generator ----


def test_logits_of_every_prefix() -> None:
    known, model = golden("instella-ar"), autoregressive()
    text = TextBatch.of(memories(model))
    z = coins("ar_z", 4, TOKENS - 1, BITS)
    assert torch.equal(z, known["z"])
    assert deviation(model(z[:, :0], text), known["logits_first"]) < LIMIT
    assert deviation(model(z[:, :3], text), known["logits_prefix3"]) < LIMIT
    assert deviation(model(z, text), known["logits_full"]) < LIMIT


def ar_run(run: str) -> Tensor:
    """The bits of both rows, drawn together with the reference's uniforms."""
    known, rule = golden("instella-ar"), golden_rule("instella-ar")["runs"][run]
    sampler, texts = BitARSampler(autoregressive()), memories(autoregressive())
    greedy = run == "greedy"
    states = [
        sampler.start(
            settings(
                cfg_scale=1 + rule["guidance_scale"], temperature=0 if greedy else rule["temp"]
            ),
            texts[row],
            texts[2 + row],
            known[f"{run}_u"][:, row],
        )
        for row in range(2)
    ]
    for token in range(TOKENS):
        sampler.advance(states)
        for row, state in enumerate(states):
            chance = known[f"{run}_p"][token, row]
            if greedy:  # the golden has the probabilities, ours are 0 or 1
                assert torch.equal(state.bits[token], (chance > 0.5).float())
            else:
                assert deviation(state.certainty[token], (2 * chance - 1).abs()) < LIMIT
    return torch.stack([state.bits for state in states])


@pytest.mark.parametrize("run", ["s1", "s2", "greedy"])
def test_an_autoregressive_run_with_the_reference_s_draws(run: str) -> None:
    assert torch.equal(ar_run(run), golden("instella-ar")[f"{run}_bits"])


def test_temperature_zero_is_the_greedy_result_and_not_what_upstream_makes_of_it() -> None:
    known = golden("instella-ar")
    assert torch.equal(ar_run("greedy"), known["greedy_bits"])
    assert not torch.equal(known["greedy_bits"], known["upstream_temp0_bits"])


def test_drawn_pictures_and_the_three_conventions_for_prefixes() -> None:
    known, model = golden("instella-ar"), tokenizer()
    bits = known["s1_bits"]
    assert deviation(model.decode(bits, 8, 8), known["s1_decoded_raw"]) < LIMIT
    for name, rest in (("zero", 0.0), ("half", 0.5)):
        prefix = bits.clone()
        prefix[:, 3:] = rest
        made = model.decode(prefix, 8, 8)
        assert deviation(made, known[f"s1_prefix3_{name}_decoded"]) < LIMIT
    made = model.decode(bits[:, :3], 8, 8)
    assert deviation(made, known["s1_prefix3_truncated_decoded"]) < LIMIT
