"""The diffusion generator: noisy bits of all tokens to the logits that each of them is wrong."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.instella.config import GeneratorConfig
from models.instella.generator import BitGenerator, GeluMLP, TextBatch, TextReader


@dataclass(frozen=True)
class Modulation:
    """What a time does to the network: `layers` is [B, layers, 6, D], `out` is [B, 2, D]."""

    layers: Tensor
    out: Tensor

    def row(self, index: int) -> Modulation:
        return Modulation(self.layers[index, None], self.out[index, None])

    @classmethod
    def of(cls, rows: list[Modulation], branches: int) -> Modulation:
        """Of several samples, repeated for every branch of guidance."""
        return cls(
            torch.cat([row.layers for row in rows]).repeat(branches, 1, 1, 1),
            torch.cat([row.out for row in rows]).repeat(branches, 1, 1),
        )


def plain_norm(x: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], eps=1e-6)


class AdaptiveNorm(nn.Module):
    """The projection of time to `parts` vectors."""

    def __init__(self, width: int, parts: int) -> None:
        super().__init__()
        self.parts = parts
        self.linear = nn.Linear(width, parts * width)

    def forward(self, embedded: Tensor) -> Tensor:
        """[B, D] to [B, parts, D]"""
        return self.linear(F.silu(embedded)).unflatten(-1, (self.parts, -1))


class DiffusionBlock(TextReader):
    """Attention and network, shifted, scaled and gated by time; positions come after that."""

    def __init__(self, config: GeneratorConfig) -> None:
        super().__init__(config, config.tokens)
        self.norm1 = AdaptiveNorm(config.width, 6)
        self.ff = GeluMLP(config.width)

    def forward(
        self, x: Tensor, time: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None
    ) -> Tensor:
        shift1, scale1, gate1, shift2, scale2, gate2 = time[:, :, None].unbind(1)  # [B, 1, D]
        h = plain_norm(x) * (1 + scale1) + shift1 + self.pos_emb
        k = torch.cat([keys, self.attn.keys(h)], dim=2)
        v = torch.cat([values, self.attn.values(h)], dim=2)
        seen = F.scaled_dot_product_attention(self.attn.queries(h), k, v, attn_mask=mask)
        x = x + gate1 * self.attn.join(seen)
        h = plain_norm(x) * (1 + scale2) + shift2
        return x + gate2 * self.ff(h)


class BitDiffusion(BitGenerator):
    """Flip logits of bits [B, tokens, bits] at a time of the noise process."""

    def __init__(self, config: GeneratorConfig) -> None:
        super().__init__(config)
        self.transformer_blocks = nn.ModuleList(
            DiffusionBlock(config) for _ in range(config.layers)
        )
        self.norm_out = AdaptiveNorm(config.width, 2)

    def modulation(self, times: Tensor) -> Modulation:
        """Everything that depends on time alone, [n] in 0..1."""
        embedded = self.time_embed(times)
        norms = [block.get_submodule("norm1") for block in self.transformer_blocks]
        layers = [norm(embedded) for norm in norms]
        return Modulation(torch.stack(layers, dim=1), self.norm_out(embedded))

    def forward(self, z: Tensor, time: Modulation, text: TextBatch) -> Tensor:
        x = self.x_embedder(z.to(self.x_embedder.weight.dtype))
        mask = None if text.mask is None else F.pad(text.mask, (0, z.shape[1]), value=True)
        for index, block in enumerate(self.transformer_blocks):
            x = block(x, time.layers[:, index], text.keys[index], text.values[index], mask)
        scale, shift = time.out[:, :, None].unbind(1)
        return self.proj_out(plain_norm(x) * (1 + scale) + shift)
