"""What both generators have in common: text as one feature per layer, attention, and the memory.

Layer i of a generator reads the text encoder's layer i. Text never looks at the picture, so its keys
and values are worked out once per prompt and kept (`TextMemory`); a prompt of no words has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.instella.config import GeneratorConfig
from models.instella.layers import HeadProjections


@dataclass(frozen=True)
class TextMemory:
    """A prompt's keys and values in every layer, [layers, heads, T, head_dim] each."""

    keys: Tensor
    values: Tensor

    @property
    def length(self) -> int:
        return self.keys.shape[2]

    @property
    def nbytes(self) -> int:
        return self.keys.nbytes + self.values.nbytes


@dataclass(frozen=True)
class TextBatch:
    """Memories of several rows, padded: [layers, B, heads, T, head_dim]; `mask` is bool
    [B, 1, 1, T], or None where nothing is padded."""

    keys: Tensor
    values: Tensor
    mask: Tensor | None

    @classmethod
    def of(cls, memories: Sequence[TextMemory]) -> TextBatch:
        longest = max(memory.length for memory in memories)
        if all(memory.length == longest for memory in memories):
            mask = None
        else:
            # Made on the device: a mask that is copied there would have to be waited for.
            places = torch.arange(longest, device=memories[0].keys.device)
            mask = torch.stack([places < memory.length for memory in memories])[:, None, None]
        keys, values = (
            torch.stack([F.pad(part, (0, 0, 0, longest - part.shape[2])) for part in parts], dim=1)
            for parts in ([m.keys for m in memories], [m.values for m in memories])
        )
        return cls(keys, values, mask)


class GeluMLP(nn.Module):
    """Four times as wide inside, tanh-approximated GELU; the names are diffusers' feed-forward's."""

    def __init__(self, width: int) -> None:
        super().__init__()
        first = nn.Module()
        first.proj = nn.Linear(width, 4 * width)
        self.net = nn.Sequential(first, nn.Identity(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        inner: Tensor = self.net[0].get_submodule("proj")(x)
        return self.net[2](F.gelu(inner, approximate="tanh"))


class TimeEmbedding(nn.Module):
    """A time in 0..1, as it is, through two layers."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear_1 = nn.Linear(1, width)
        self.linear_2 = nn.Linear(width, width)

    def forward(self, times: Tensor) -> Tensor:
        """[n] to [n, width]"""
        rows = times[:, None].to(self.linear_1.weight.dtype)
        return self.linear_2(F.silu(self.linear_1(rows)))


class TextReader(nn.Module):
    """The part of a block that reads text and picture together."""

    def __init__(self, config: GeneratorConfig, positions: int) -> None:
        super().__init__()
        self.pos_emb = nn.Parameter(torch.zeros(1, positions, config.width))
        self.proj_cond = nn.Linear(config.text_width, config.width)
        self.attn = HeadProjections(config.heads, config.head_dim)

    def remember(self, feature: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values [heads, T, head_dim] of this layer's text feature [T, text width]."""
        text = self.proj_cond(feature)[None]
        return self.attn.keys(text)[0], self.attn.values(text)[0]


class BitGenerator(nn.Module):
    """The shell of either generator; subclasses fill `transformer_blocks` with `TextReader`s."""

    transformer_blocks: nn.ModuleList

    def __init__(self, config: GeneratorConfig) -> None:
        super().__init__()
        self.config = config
        self.time_embed = TimeEmbedding(config.width)
        self.x_embedder = nn.Linear(config.bits, config.width)
        self.proj_out = nn.Linear(config.width, config.bits)

    @property
    def readers(self) -> list[TextReader]:
        return cast(list[TextReader], list(self.transformer_blocks))

    def remember(self, features: Tensor) -> TextMemory:
        """Text features [layers, T, text width], or [T, text width] for all layers alike, to what
        the layers keep of them. T may be 0."""
        if features.ndim == 2:
            features = features.expand(self.config.layers, -1, -1)
        if len(features) != self.config.layers:
            raise ValueError(
                f"The text encoder gives features of {len(features)} layers; the generator has "
                f"{self.config.layers}."
            )
        features = features.to(self.proj_out.weight)
        pairs = [
            block.remember(feature) for block, feature in zip(self.readers, features, strict=True)
        ]
        return TextMemory(torch.stack([k for k, _ in pairs]), torch.stack([v for _, v in pairs]))

    def remember_batch(self, features: Tensor) -> TextBatch:
        """The same for rows [B, T, text width] of equal length, every layer reading them alike;
        for training."""
        pairs = []
        for block in self.readers:
            text = block.proj_cond(features)
            pairs.append((block.attn.keys(text), block.attn.values(text)))
        return TextBatch(
            torch.stack([k for k, _ in pairs]), torch.stack([v for _, v in pairs]), None
        )
