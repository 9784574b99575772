"""The autoregressive generator: token after token, the bits of one independent of each other.

Keys and values of what was drawn are kept per sample (`TokenCache`), so that a token costs one row
of the network and not the whole row of tokens again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.instella.config import GeneratorConfig
from models.instella.generator import BitGenerator, GeluMLP, TextBatch, TextMemory, TextReader
from models.instella.layers import UnitNorm


class ARBlock(TextReader):
    """Attention and network behind learnt norms; positions come after the first of them."""

    def __init__(self, config: GeneratorConfig) -> None:
        super().__init__(config, config.tokens + 1)
        self.mlp = GeluMLP(config.width)
        self.input_layernorm = UnitNorm(config.width)
        self.post_attention_layernorm = UnitNorm(config.width)

    def placed(self, x: Tensor, positions: Tensor) -> Tensor:
        """What attention reads: [B, n, D] at positions [n] or [B, n]."""
        return self.input_layernorm(x) + self.pos_emb[0, positions]

    def finish(self, x: Tensor, attended: Tensor) -> Tensor:
        x = x + self.attn.join(attended)
        return x + self.mlp(self.post_attention_layernorm(x))


class TokenCache:
    """One sample's keys and values, for each branch of guidance: text first, then tokens.

    `keys` and `values` are [layers, branches, heads, T + tokens + 1, head_dim].
    """

    def __init__(self, memories: Sequence[TextMemory], positions: int) -> None:
        first = memories[0].keys
        layers, heads, _, channels = first.shape
        self.text = max(memory.length for memory in memories)
        size = (layers, len(memories), heads, self.text + positions, channels)
        self.keys, self.values = first.new_zeros(size), first.new_zeros(size)
        self.filled = 0  # tokens, the start token included
        self.padded = any(memory.length < self.text for memory in memories)
        places = torch.arange(self.text, device=first.device)
        self._text_mask = torch.stack([places < memory.length for memory in memories])
        for branch, memory in enumerate(memories):
            self.keys[:, branch, :, : memory.length] = memory.keys
            self.values[:, branch, :, : memory.length] = memory.values

    @property
    def length(self) -> int:
        return self.text + self.filled

    def write(self, layer: int, keys: Tensor, values: Tensor, first: int) -> None:
        """Put [branches, heads, n, head_dim] at the tokens' places from `first` on."""
        place = slice(self.text + first, self.text + first + keys.shape[2])
        self.keys[layer, :, :, place] = keys
        self.values[layer, :, :, place] = values

    def mask(self, length: int) -> Tensor:
        """bool [branches, length]: what may be looked at."""
        tokens = torch.arange(length - self.text, device=self.keys.device) < self.filled
        return torch.cat([self._text_mask, tokens.expand(len(self._text_mask), -1)], dim=1)


def gathered(caches: Sequence[TokenCache], layer: int, length: int) -> tuple[Tensor, Tensor]:
    """Keys and values of all samples' branches, [rows, heads, length, head_dim]. One sample's are
    not copied."""
    if len(caches) == 1:
        cache = caches[0]
        return cache.keys[layer, :, :, :length], cache.values[layer, :, :, :length]

    def padded(tensor: Tensor) -> Tensor:
        part = tensor[layer, :, :, :length]
        return F.pad(part, (0, 0, 0, length - part.shape[2]))

    return (
        torch.cat([padded(cache.keys) for cache in caches]),
        torch.cat([padded(cache.values) for cache in caches]),
    )


class BitAR(BitGenerator):
    """Logits of the next token's bits. `time_embed` is in the checkpoint and is never used."""

    def __init__(self, config: GeneratorConfig) -> None:
        super().__init__(config)
        self.split_token = nn.Parameter(torch.zeros(1, 1, config.width))
        self.transformer_blocks = nn.ModuleList(ARBlock(config) for _ in range(config.layers))
        self.norm_out = UnitNorm(config.width)

    @property
    def blocks(self) -> list[ARBlock]:
        return cast(list[ARBlock], list(self.transformer_blocks))

    def _embed(self, bits: Tensor) -> Tensor:
        return self.x_embedder(bits.to(self.x_embedder.weight.dtype))

    def forward(self, bits: Tensor, text: TextBatch) -> Tensor:
        """All at once, without a cache: tokens [B, n, bits] to logits [B, n + 1, bits]."""
        start = self.split_token.expand(len(bits), -1, -1)
        x = torch.cat([start, self._embed(bits)], dim=1)
        count, words = x.shape[1], text.keys.shape[3]
        positions = torch.arange(count, device=x.device)
        mask = torch.ones(count, words + count, dtype=torch.bool, device=x.device).tril(words)
        if text.mask is not None:
            mask = mask & F.pad(text.mask, (0, count), value=True)
        for index, block in enumerate(self.blocks):
            h = block.placed(x, positions)
            k = torch.cat([text.keys[index], block.attn.keys(h)], dim=2)
            v = torch.cat([text.values[index], block.attn.values(h)], dim=2)
            seen = F.scaled_dot_product_attention(block.attn.queries(h), k, v, attn_mask=mask)
            x = block.finish(x, seen)
        return self.proj_out(self.norm_out(x))

    def prefill(self, cache: TokenCache, bits: Tensor) -> None:
        """Read the tokens [n, bits] a sample begins with into its empty cache, and the start."""
        branches = cache.keys.shape[1]
        x = torch.cat([self.split_token[0], self._embed(bits)])[None].expand(branches, -1, -1)
        count = x.shape[1]
        cache.filled = count
        mask = cache.mask(cache.length)[:, None].repeat(1, count, 1)  # [branches, n + 1, length]
        causal = torch.ones(count, count, dtype=torch.bool, device=x.device).tril()
        mask[:, :, cache.text :] &= causal
        mask = mask[:, None]
        positions = torch.arange(count, device=x.device)
        for index, block in enumerate(self.blocks):
            h = block.placed(x, positions)
            cache.write(index, block.attn.keys(h), block.attn.values(h), 0)
            k, v = gathered([cache], index, cache.length)
            seen = F.scaled_dot_product_attention(block.attn.queries(h), k, v, attn_mask=mask)
            x = block.finish(x, seen)

    def step(self, caches: Sequence[TokenCache], tokens: Sequence[Tensor | None]) -> Tensor:
        """Read one token [bits] of every sample (None = the start) and foresee the next one:
        logits [samples, branches, bits]. The samples may be at different places."""
        branches = caches[0].keys.shape[1]
        rows = [
            self.split_token[0] if token is None else self._embed(token[None]) for token in tokens
        ]
        x = torch.stack(rows).repeat_interleave(branches, dim=0)  # [samples * branches, 1, D]
        places = [cache.filled for cache in caches]
        for cache in caches:
            cache.filled += 1
        length = max(cache.length for cache in caches)
        bias = None
        if any(cache.padded or cache.length < length for cache in caches):
            bias = torch.cat([cache.mask(length) for cache in caches])[:, None, None]
        # Made on the device, number by number: a copy would have to be waited for.
        positions = torch.cat(
            [torch.full((branches, 1), p, dtype=torch.long, device=x.device) for p in places]
        )
        for index, block in enumerate(self.blocks):
            h = block.placed(x, positions)
            made = zip(
                caches,
                places,
                block.attn.keys(h).split(branches),
                block.attn.values(h).split(branches),
                strict=True,
            )
            for cache, place, key, value in made:
                cache.write(index, key, value, place)
            k, v = gathered(caches, index, length)
            seen = F.scaled_dot_product_attention(block.attn.queries(h), k, v, attn_mask=bias)
            x = block.finish(x, seen)
        return self.proj_out(self.norm_out(x))[:, 0].unflatten(0, (-1, branches))
