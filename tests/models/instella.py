"""Tiny models of every kind with the Instella goldens' weights; they fit together."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from models.contracts import SampleSettings
from models.instella.autoregressive import BitAR
from models.instella.config import CoderConfig, GeneratorConfig, TokenizerConfig
from models.instella.diffusion import BitDiffusion
from models.instella.generator import TextMemory
from models.instella.tokenizer import BinaryTokenizer
from models.samplers.bit_ar import BitARSampler
from models.samplers.bit_diffusion import BitDiffusionSampler
from tests.golden_rule import golden
from tests.instella_rule import fill

TOKENS, BITS = 6, 10
TOKENIZER = TokenizerConfig(
    encoder=CoderConfig(3, 2, 16, 1),
    decoder=CoderConfig(3, 3, 16, 1),
    patch=4,
    tokens=TOKENS,
    bits=BITS,
    axes=(4, 6, 6),
    span=64,
)
DIFFUSION = GeneratorConfig("diffusion", TOKENS, BITS, 3, 3, 16, 32)
AR = GeneratorConfig("ar", TOKENS, BITS, 3, 3, 16, 32)


@cache
def tokenizer(rounding: str = "exact", scaled: bool = True) -> BinaryTokenizer:
    model = fill(BinaryTokenizer(TOKENIZER, rounding, scaled))  # type: ignore[arg-type]
    return model.requires_grad_(False)  # type: ignore[return-value]


@cache
def diffusion() -> BitDiffusion:
    return fill(BitDiffusion(DIFFUSION)).requires_grad_(False)  # type: ignore[return-value]


@cache
def autoregressive() -> BitAR:
    return fill(BitAR(AR)).requires_grad_(False)  # type: ignore[return-value]


def sampler_of(kind: str, **options: object) -> BitDiffusionSampler | BitARSampler:
    if kind == "ar":
        return BitARSampler(autoregressive())
    return BitDiffusionSampler(diffusion(), **options)  # type: ignore[arg-type]


def features(row: int) -> Tensor:
    """The golden's text features of a row, without its padding: [layers, words, width]."""
    known = golden("instella-diffusion")
    return known["llm_features"][:, row, known["text_mask"][row].bool()]


def memories(model: BitDiffusion | BitAR) -> list[TextMemory]:
    """Of the rows cond, cond, empty, empty."""
    return [model.remember(features(row)) for row in range(4)]


def settings(seed: int = 1, **changes: float) -> SampleSettings:
    values = {"ar_iterations": 1, "flow_steps": 4, "cfg_scale": 3.0, **changes}
    return SampleSettings(seed=seed, **values)  # type: ignore[arg-type]


def contexts(sampler: BitDiffusionSampler | BitARSampler, row: int = 0) -> tuple[TextMemory, ...]:
    """(prompt, unconditional)"""
    return (
        sampler.prompt_context(features(row)),
        sampler.prompt_context(torch.zeros(3, 0, 32)),
    )
