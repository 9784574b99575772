"""What a picture costs in arithmetic, before and after every exact saving.

    python -m benchmarks.flops [--variants nitro-ar-gan,...] [--json]

Models are built at full size without weights (torch's meta device) and run through the product's
own samplers under torch's flop counter, so the figures are exact counts (2 per multiply-add) and
take seconds on any machine. "before" is the published pipeline's way of doing each stage.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from diffusers import AutoencoderDC
from torch.utils.flop_counter import FlopCounterMode
from transformers import LlamaConfig, LlamaModel

from models.catalogue import CATALOGUE, Variant, find_variant
from models.contracts import SampleSettings
from models.loading import CONFIGS, NITRO_TOKENS, POCKET_TOKENS
from models.nitro_ar import NitroAR
from models.published import DC_AE_F32C32, LLAMA_32_1B
from models.samplers.joint import JointSampler
from models.samplers.masked_ar import MaskedARSampler
from models.sources import POCKET_FOLDER

META = torch.device("meta")


def gflop(work: Callable[[], object]) -> float:
    """Giga floating-point operations of `work`."""
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        work()
    return counter.get_total_flops() / 1e9


@dataclass
class Costs:
    """GFLOP of one picture by stage. `before` is the published way, `after` ours."""

    stages: dict[str, dict[str, float]] = field(default_factory=dict)
    first_prompt_gflop: float = 0.0
    repeat_prompt_gflop: float = 0.0
    repeat_prompt_first_pass_not_cached_gflop: float = 0.0

    def stage(self, name: str, before: float, after: float, repeat: float) -> None:
        """`after`: the first time a prompt is drawn; `repeat`: from the second time on."""
        self.stages[name] = {"before": before, "after_first": after, "after_repeat": repeat}

    def to_dict(self) -> dict[str, Any]:
        rounded = {
            name: {key: round(value, 3) for key, value in row.items()}
            for name, row in self.stages.items()
        }
        return {
            "before_gflop": round(sum(row["before"] for row in self.stages.values()), 1),
            "first_prompt_gflop": round(self.first_prompt_gflop, 1),
            "repeat_prompt_gflop": round(self.repeat_prompt_gflop, 1),
            "repeat_prompt_first_pass_not_cached_gflop": round(
                self.repeat_prompt_first_pass_not_cached_gflop, 1
            ),
            "stages": rounded,
        }


def measure(variant: Variant) -> Costs:
    """Count one picture at the variant's defaults."""
    config = CONFIGS[variant.id]
    with META:
        model = NitroAR(config).eval().requires_grad_(False)
    model.positions = model.positions.to(META)
    for slot in ("diffloss", "diffloss_global"):
        if config.joint:
            net = getattr(model, slot).net
            net.positions = net.positions.to(META)
    rows = POCKET_TOKENS if variant.text_encoder == "pocket" else NITRO_TOKENS
    costs = Costs()
    _text(variant, rows, costs)
    (_joint if config.joint else _masked_ar)(model, variant, rows, costs)
    decode = gflop(
        lambda: _decoder(variant)(torch.empty(1, 32, variant.grid, variant.grid, device=META))
    )
    costs.stage("decode", decode, decode, decode)
    costs.repeat_prompt_first_pass_not_cached_gflop += decode
    costs.first_prompt_gflop = sum(row["after_first"] for row in costs.stages.values())
    costs.repeat_prompt_gflop = sum(row["after_repeat"] for row in costs.stages.values())
    return costs


def _text(variant: Variant, rows: int, costs: Costs) -> None:
    """Before: prompt and empty prompt encoded for each picture, with the LM head's logits."""
    if variant.text_encoder == "pocket":
        config = LlamaConfig.from_pretrained(POCKET_FOLDER / "text_encoder")
    else:
        config = LlamaConfig(**LLAMA_32_1B)
    with META:
        model = LlamaModel(config).eval().requires_grad_(False)
        ids = torch.zeros(1, rows, dtype=torch.long)
        mask = torch.zeros(1, 1, rows, rows)  # ready-made, so that nothing looks at values
    layers = gflop(lambda: model(input_ids=ids, attention_mask=mask, use_cache=False))
    head = 2 * rows * config.hidden_size * config.vocab_size / 1e9
    costs.stage("text: encode prompt", layers, layers, 0.0)
    costs.stage("text: encode empty prompt", layers, 0.0, 0.0)  # once per process
    costs.stage("text: language-model head", 2 * head, 0.0, 0.0)


def _decoder(variant: Variant) -> torch.nn.Module:
    if variant.autoencoder == "pocket":
        values = AutoencoderDC.load_config(POCKET_FOLDER / "autoencoder")
    else:
        values = DC_AE_F32C32
    with META:
        return AutoencoderDC.from_config(values).decoder.eval()


def _settings(variant: Variant) -> SampleSettings:
    return SampleSettings(
        seed=0,
        ar_iterations=variant.ar_iterations.default,
        flow_steps=variant.flow_steps.default,
        cfg_scale=variant.cfg_scale,
    )


def _parts(model: NitroAR, rows: int) -> dict[str, float]:
    """GFLOP of the backbone's parts for one sample."""
    config = model.config
    text = torch.empty(1, rows, config.text_width, device=META)
    tokens = torch.empty(1, config.tokens, config.channels, device=META)
    embedded = model.embed_text(text)
    last, hidden = (
        model.block_groups[2][-1],
        torch.empty(1, config.tokens, config.width, device=META),
    )
    words = torch.empty(1, rows, config.width, device=META)
    text_queries = gflop(lambda: last.attn.add_q_proj(words))
    # The reference lets text rows of the last block ask, too: two products over all rows.
    text_attention = 4 * rows * (config.tokens + rows) * config.width / 1e9
    return {
        "text rows once": gflop(lambda: model.embed_text(text)),
        "pass": gflop(lambda: model(tokens, embedded)),
        "last block": gflop(lambda: last(hidden, words)),
        "last block text queries": text_queries + text_attention,
    }


def _masked_ar(model: NitroAR, variant: Variant, rows: int, costs: Costs) -> None:
    settings, sampler = _settings(variant), MaskedARSampler(model)
    config, part = model.config, _parts(model, rows)
    text = torch.empty(rows, config.text_width, device=META)
    iterations, steps, branches = settings.ar_iterations, settings.flow_steps, 2

    def draw(prompt: Any, empty: Any) -> None:
        state = sampler.start(settings, prompt, empty)
        for _ in range(sampler.num_steps(state)):
            sampler.advance([state])

    empty, prompt = sampler.prompt_context(text), sampler.prompt_context(text)
    sampler._first_pass(empty)  # the empty prompt's is made once per process
    sampler._time_rows(steps)
    head = model.diffloss.net
    condition = gflop(lambda: head.condition(torch.empty(1, config.width, device=META)))
    time = gflop(lambda: head.time(torch.empty(1, device=META)))
    read = branches * config.tokens  # rows the head works on, over the whole picture
    one_step = gflop(
        lambda: head(
            torch.empty(1, config.channels, device=META),
            torch.empty(1, model.full_config.head.width, device=META),
            torch.empty(1, model.full_config.head.width, device=META),
        )
    )
    flow = read * steps * one_step

    first = gflop(lambda: draw(prompt, empty))  # fills in the prompt's first pass
    repeat = gflop(lambda: draw(prompt, empty))
    heads = flow + read * condition
    passes = branches * iterations
    costs.stage(
        "text rows and block 0 text", passes * part["text rows once"], part["text rows once"], 0.0
    )
    before = passes * (part["pass"] + part["last block text queries"])
    # Ours leaves out the last block's unread rows; what remains is whatever the draw did beyond
    # the heads.
    costs.stage("backbone passes", before, first - heads, repeat - heads)
    costs.stage("flow head", flow, flow, flow)
    costs.stage("head condition", steps * read * condition, read * condition, read * condition)
    costs.stage("head time", read * steps * time, 0.0, 0.0)
    prompt.first_pass = empty.first_pass = None
    # Decoding is added by the caller.
    costs.repeat_prompt_first_pass_not_cached_gflop = gflop(lambda: draw(prompt, empty))


def _joint(model: NitroAR, variant: Variant, rows: int, costs: Costs) -> None:
    settings, sampler = _settings(variant), JointSampler(model)
    config, part = model.config, _parts(model, rows)
    text = torch.empty(rows, config.text_width, device=META)
    steps, branches, width = settings.flow_steps, 2, model.full_config.head.width

    def draw(prompt: Any, empty: Any) -> None:
        state = sampler.start(settings, prompt, empty)
        for _ in range(sampler.num_steps(state)):
            sampler.advance([state])

    empty, prompt = sampler.prompt_context(text), sampler.prompt_context(text)
    empty.global_pass = model.global_pass(empty.text)
    for slot in (model.diffloss, model.diffloss_global):
        sampler._time_rows(slot.net, steps)
    global_after = gflop(lambda: model.global_pass(prompt.text))
    first_group = model.block_groups[0]
    words = torch.empty(1, rows, config.width, device=META)
    token = torch.empty(1, 1, config.width, device=META)
    skipped = gflop(lambda: first_group[-1](token, words)) - gflop(
        lambda: first_group[-1](token, words, text_output=False)
    )
    first = gflop(lambda: draw(prompt, empty))
    repeat = gflop(lambda: draw(prompt, empty))

    flow = condition = 0.0
    for slot, count in ((model.diffloss, config.tokens), (model.diffloss_global, 1)):
        head, shape = slot.net, (branches, count)
        c = torch.empty(*shape, width, device=META)
        flow += steps * gflop(
            lambda head=head, c=c, shape=shape: head(
                torch.empty(*shape, config.channels, device=META), c[:, 0], c
            )
        )
        condition += gflop(
            lambda head=head, shape=shape: head.condition(
                torch.empty(*shape, config.width, device=META)
            )
        )
    time = (
        2 * branches * steps * gflop(lambda: model.diffloss.net.time(torch.empty(1, device=META)))
    )
    heads = flow + condition
    costs.stage(
        "text rows and block 0 text",
        2 * branches * part["text rows once"],
        part["text rows once"],
        0.0,
    )
    costs.stage("global pass", branches * (global_after + skipped), global_after, 0.0)
    before = branches * (part["pass"] + part["last block text queries"])
    costs.stage("backbone passes", before, first - heads - global_after, repeat - heads)
    costs.repeat_prompt_first_pass_not_cached_gflop = repeat + global_after
    costs.stage("flow heads", flow, flow, flow)
    costs.stage("head condition", steps * condition, condition, condition)
    costs.stage("head time", time, 0.0, 0.0)


def table(results: dict[str, dict[str, Any]]) -> str:
    """A Markdown table per variant."""
    lines = []
    for name, costs in results.items():
        lines += [
            f"### {name}",
            "",
            "| stage | published, GFLOP | first time, GFLOP | repeated prompt, GFLOP |",
            "|---|---:|---:|---:|",
        ]
        for stage, row in costs["stages"].items():
            lines.append(
                f"| {stage} | {row['before']:,.1f} | {row['after_first']:,.1f} "
                f"| {row['after_repeat']:,.1f} |"
            )
        lines += [
            f"| **in all** | **{costs['before_gflop']:,.0f}** "
            f"| **{costs['first_prompt_gflop']:,.0f}** | **{costs['repeat_prompt_gflop']:,.0f}** |",
            "",
        ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--variants", default=",".join(v.id for v in CATALOGUE))
    parser.add_argument(
        "--weights", default="random", help="accepted for symmetry; counts need no weights"
    )
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    results = {name: measure(find_variant(name)).to_dict() for name in args.variants.split(",")}
    print(json.dumps({"variants": results}, indent=2) if args.json else table(results))


if __name__ == "__main__":
    main()
