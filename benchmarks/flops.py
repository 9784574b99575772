"""What a picture costs in arithmetic, before and after every exact saving.

    python -m benchmarks.flops [--variants nitro-ar-gan,...] [--json]

Models are built at full size without weights (torch's meta device) and run through the product's
own samplers under torch's flop counter, so the figures are exact counts (2 per multiply-add) and
take seconds on any machine. "before" is the published pipeline's way of doing each stage.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import torch
from diffusers import AutoencoderDC
from transformers import LlamaConfig, LlamaModel

from benchmarks.flop_bits import count_bits
from benchmarks.flop_stages import META, Costs, count_sampler, gflop
from models.catalogue import CATALOGUE, Variant, find_variant
from models.instella.autoregressive import BitAR
from models.instella.diffusion import BitDiffusion
from models.loading import NITRO_TOKENS, POCKET_TOKENS, build
from models.published import DC_AE_F32C32, LLAMA_32_1B
from models.sources import POCKET_FOLDER


def measure(variant: Variant) -> Costs:
    """Count one picture at the variant's defaults."""
    with META:
        model = build(variant.id).eval().requires_grad_(False)
    model.to(META)  # position tables are built for real
    if isinstance(model, BitDiffusion | BitAR):
        costs = Costs()
        count_bits(model, variant, costs)
        return _summed(costs)
    rows = POCKET_TOKENS if variant.text_encoder == "pocket" else NITRO_TOKENS
    costs = Costs()
    _text(variant, rows, costs)
    count_sampler(model, variant, rows, costs)
    decode = latent_decode(variant)
    costs.stage("decode", decode, decode, decode)
    costs.repeat_prompt_first_pass_not_cached_gflop += decode
    return _summed(costs)


def _summed(costs: Costs) -> Costs:
    costs.first_prompt_gflop = sum(row["after_first"] for row in costs.stages.values())
    costs.repeat_prompt_gflop = sum(row["after_repeat"] for row in costs.stages.values())
    return costs


def latent_decode(variant: Variant) -> float:
    """GFLOP of decoding one picture."""
    latent = torch.empty(1, 32, variant.grid, variant.grid, device=META)
    return gflop(lambda: _decoder(variant)(latent))


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
    guided = variant.cfg_scale != 1.0  # without guidance nobody needs the empty prompt
    costs.stage("text: encode prompt", layers, layers, 0.0)
    costs.stage("text: encode empty prompt", layers * guided, 0.0, 0.0)  # once per process
    costs.stage("text: language-model head", (1 + guided) * head, 0.0, 0.0)


def _decoder(variant: Variant) -> torch.nn.Module:
    if variant.autoencoder == "pocket":
        values = AutoencoderDC.load_config(POCKET_FOLDER / "autoencoder")
    else:
        values = DC_AE_F32C32
    with META:
        return AutoencoderDC.from_config(values).decoder.eval()


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
