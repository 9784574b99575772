"""Counting the operations of Instella's parts: text, generators with and without what is kept."""

from __future__ import annotations

from typing import Any

import torch
from transformers import LlamaConfig, LlamaModel, OlmoConfig, OlmoModel

from benchmarks.flop_stages import META, Costs, default_settings, gflop
from models.catalogue import Variant
from models.instella.autoregressive import BitAR
from models.instella.config import INSTELLA_TOKENIZER, POCKET_TOKENIZER
from models.instella.diffusion import BitDiffusion
from models.instella.generator import TextBatch
from models.instella.text import OLMO_1B
from models.instella.tokenizer import BinaryTokenizer
from models.samplers.bit_ar import BitARSampler
from models.samplers.bit_diffusion import BitDiffusionSampler
from models.sources import POCKET_FOLDER

WORDS = 32  # tokens of a usual prompt
POCKET_WORDS = 24


def count_bits(model: BitDiffusion | BitAR, variant: Variant, costs: Costs) -> None:
    """All of a picture. Before: text projected and the whole prefix read again at each step."""
    words = POCKET_WORDS if variant.embedded else WORDS
    costs.stage("text: encode prompt", _text(variant, words), _text(variant, words), 0.0)
    config = model.config
    features = torch.empty(config.layers, words, config.text_width, device=META)
    memory = model.remember(features)
    empty = model.remember(features if variant.embedded else features[:, :0])
    once = gflop(lambda: model.remember(features))
    settings = default_settings(variant)
    calls = variant.steps(settings.ar_iterations, settings.flow_steps)
    costs.stage("text: keys and values", calls * 2 * once, once, 0.0)
    sampler: Any = BitARSampler(model) if isinstance(model, BitAR) else BitDiffusionSampler(model)

    def draw() -> None:
        state = sampler.start(settings, memory, empty)
        for _ in range(sampler.num_steps(state)):
            sampler.advance([state])

    ours = gflop(draw)
    costs.stage("generator", _without_cache(model, memory, empty, ours), ours, ours)
    costs.repeat_prompt_first_pass_not_cached_gflop = ours
    decode = bits_decode(variant)
    costs.stage("decode", decode, decode, decode)
    costs.repeat_prompt_first_pass_not_cached_gflop += decode


def bits_decode(variant: Variant) -> float:
    """GFLOP of decoding one picture at the variant's usual size."""
    tokenizer = POCKET_TOKENIZER if variant.embedded else INSTELLA_TOKENIZER
    with META:
        coder = BinaryTokenizer(tokenizer).eval()
    side = variant.resolution // tokenizer.patch
    bits = torch.empty(1, tokenizer.tokens, tokenizer.bits, device=META)
    return gflop(lambda: coder.decode(bits, side, side))


def _without_cache(model: BitDiffusion | BitAR, memory: Any, empty: Any, ours: float) -> float:
    if not isinstance(model, BitAR):
        return ours
    config, total = model.config, 0.0
    text = TextBatch.of([empty, memory])
    for token in range(config.tokens):
        bits = torch.empty(2, token, config.bits, device=META)
        total += gflop(lambda bits=bits: model(bits, text))
    return total


def _text(variant: Variant, words: int) -> float:
    """Features of a prompt. The empty one has none with Instella, and is kept with Pocket."""
    ids = torch.zeros(1, words, dtype=torch.long, device=META)
    mask = torch.zeros(1, 1, words, words, device=META)  # so that nothing looks at values
    with META:
        model: Any
        if variant.embedded:
            model = LlamaModel(LlamaConfig.from_pretrained(POCKET_FOLDER / "text_encoder")).eval()
        else:
            model = OlmoModel(OlmoConfig(**OLMO_1B)).eval()
    return gflop(lambda: model(input_ids=ids, attention_mask=mask, use_cache=False))
