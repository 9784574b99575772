"""Everything random in a picture, drawn in full at its start from one CPU generator.

Noise is keyed by token position, so neither batch mates nor previews, cancellation or the device
can shift it. The noise field comes first: equal seeds share it across variants of one geometry.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Randomness:
    """One sample's random numbers, on the CPU in fp32."""

    fields: Tensor  # [chains, T, C]: initial noise of each flow chain over all tokens
    order: Tensor  # int64 [T]: generation order; the first entries are revealed last
    thumbnail: Tensor  # [1, C]: initial noise of the global token's chain


def draw(seed: int, tokens: int, channels: int, chains: int = 1) -> Randomness:
    """Draw a sample's randomness. `chains` is the number of flow chains over all tokens."""
    generator = torch.Generator("cpu").manual_seed(seed)
    first = torch.randn(1, tokens, channels, generator=generator)
    order = torch.randperm(tokens, generator=generator)
    thumbnail = torch.randn(1, channels, generator=generator)
    rest = torch.randn(chains - 1, tokens, channels, generator=generator)
    return Randomness(torch.cat([first, rest]), order, thumbnail)


def draw_uniforms(seed: int, count: int, tokens: int, bits: int) -> Tensor:
    """Uniform numbers in 0..1 that bits are drawn with, [count, tokens, bits]: a bit is 1 where its
    probability is larger. More of them begin like fewer."""
    generator = torch.Generator("cpu").manual_seed(seed)
    return torch.rand(count, tokens, bits, generator=generator)
