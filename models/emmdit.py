"""E-MMDiT backbone: joint attention over image and text rows, with tokens compressed in the middle.

Three groups of blocks (4, 16, 4 in the published models). The middle group sees the image as 2x
and 4x compressed tokens only, which is where the speed comes from; a copy of the first group's
rows keeps the detail, and positions are added again after reconstruction. Source: Nitro-E
(arXiv 2510.27135); here in the flavour of Nitro-AR, which has no time input. Module names are the
official checkpoint's.

What depends on the prompt alone (text embedding, block 0's text keys, queries and values) is
computed once in `embed_text` and can be reused for every step of every seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.layers import (
    HeadRMSNorm,
    RMSNorm,
    TokenConv1x1,
    TokenShuffle,
    TokenUnshuffle,
    position_table,
)

QKV = tuple[Tensor, Tensor, Tensor]  # each [B, heads, N, head_dim]


@dataclass(frozen=True)
class EMMDiTConfig:
    """Every number of the backbone. Defaults are the published 512-px models'."""

    grid: int = 16  # tokens a side
    channels: int = 32  # of a latent token
    width: int = 768
    head_dim: int = 32
    text_width: int = 2048
    groups: tuple[int, int, int] = (4, 16, 4)
    norm: Literal["layer", "rms"] = "layer"
    global_pass: bool = False
    position_step: float = 1 / 6

    def __post_init__(self) -> None:
        if self.width % self.head_dim:
            raise ValueError(f"width {self.width} is no multiple of head_dim {self.head_dim}.")
        if self.width % 16:
            raise ValueError(f"width {self.width} is no multiple of 16 (4x token shuffle).")
        if self.grid % 4:
            raise ValueError(f"grid {self.grid} is no multiple of 4 (4x token compression).")

    @property
    def tokens(self) -> int:
        return self.grid * self.grid


@dataclass(frozen=True)
class EmbeddedText:
    """A prompt as block 0 needs it: rows [B, L, D] and their queries, keys and values."""

    rows: Tensor
    qkv: QKV

    @staticmethod
    def stack(items: list[EmbeddedText]) -> EmbeddedText:
        """One batch from prompts of batch 1."""
        q, k, v = (torch.cat(parts) for parts in zip(*(item.qkv for item in items), strict=True))
        return EmbeddedText(torch.cat([item.rows for item in items]), (q, k, v))


class JointAttention(nn.Module):
    """Attention over image and text rows together; each stream has its own projections."""

    def __init__(self, width: int, head_dim: int, text_output: bool) -> None:
        super().__init__()
        self.head_dim = head_dim
        self.to_q, self.to_k, self.to_v = (nn.Linear(width, width) for _ in range(3))
        self.add_q_proj, self.add_k_proj, self.add_v_proj = (
            nn.Linear(width, width) for _ in range(3)
        )
        self.norm_q, self.norm_k = HeadRMSNorm(head_dim), HeadRMSNorm(head_dim)
        self.norm_added_q, self.norm_added_k = HeadRMSNorm(head_dim), HeadRMSNorm(head_dim)
        self.to_out = nn.ModuleList([nn.Linear(width, width)])
        if text_output:
            self.to_add_out = nn.Linear(width, width)

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)  # [B, heads, N, head_dim]

    def image_qkv(self, x: Tensor, rows: Tensor | None) -> QKV:
        """`rows` [B, n]: only these image rows ask; all of them are asked."""
        asking = x if rows is None else gather_rows(x, rows)
        q, k, v = self._split(self.to_q(asking)), self._split(self.to_k(x)), self.to_v(x)
        return self.norm_q(q), self.norm_k(k), self._split(v)

    def text_qkv(self, x: Tensor, queries: bool = True) -> QKV:
        """Without `queries` the first entry is empty along the tokens: text only answers."""
        q = self._split(self.add_q_proj(x if queries else x[:, :0]))
        k, v = self._split(self.add_k_proj(x)), self._split(self.add_v_proj(x))
        return self.norm_added_q(q), self.norm_added_k(k), v

    def forward(self, image: QKV, text: QKV) -> tuple[Tensor, Tensor]:
        """Attended image rows and text rows, before the text's output projection."""
        image_rows, text_rows = attend(image, text)
        return self.to_out[0](merge_heads(image_rows)), merge_heads(text_rows)


def attend(image: QKV, text: QKV) -> tuple[Tensor, Tensor]:
    """Every row asks every row, image first: attended image and text, [B, heads, N, head_dim]."""
    q, k, v = (torch.cat([i, t], dim=2) for i, t in zip(image, text, strict=True))
    mixed = F.scaled_dot_product_attention(q, k, v)
    return mixed[:, :, : image[0].shape[2]], mixed[:, :, image[0].shape[2] :]


def merge_heads(x: Tensor) -> Tensor:
    """[B, heads, N, head_dim] -> [B, N, D]."""
    return x.transpose(1, 2).flatten(2)


class FeedForward(nn.Module):
    """D -> 3D -> D with a tanh-approximated GELU."""

    def __init__(self, width: int) -> None:
        super().__init__()
        first = nn.Module()
        first.proj = nn.Linear(width, 3 * width)
        # Index 1 is a dropout in the checkpoint's layout: no tensors, nothing to do.
        self.net = nn.ModuleList([first, nn.Identity(), nn.Linear(3 * width, width)])

    def forward(self, x: Tensor) -> Tensor:
        return self.net[2](F.gelu(self.net[0].proj(x), approximate="tanh"))


class JointBlock(nn.Module):
    """Joint attention, then a feed-forward network per stream, both residual."""

    def __init__(self, config: EMMDiTConfig, last: bool) -> None:
        super().__init__()
        width, self.last = config.width, last
        rms = config.norm == "rms"

        def first_norm() -> nn.Module:
            return RMSNorm(width) if rms else nn.LayerNorm(width, eps=1e-5)

        def second_norm() -> nn.Module:
            return RMSNorm(width) if rms else nn.LayerNorm(width, 1e-6, elementwise_affine=False)

        self.norm1, self.norm1_context = first_norm(), first_norm()
        self.norm2 = second_norm()
        if not last:
            self.norm2_context = second_norm()
        self.attn = JointAttention(width, config.head_dim, text_output=not last)
        self.ff = FeedForward(width)
        if not last:
            self.ff_context = FeedForward(width)

    def start_text(self, text: Tensor) -> QKV:
        """The text half of this block's attention input."""
        return self.attn.text_qkv(self.norm1_context(text), queries=True)

    def forward(
        self,
        image: Tensor,
        text: Tensor,
        text_qkv: QKV | None = None,
        rows: Tensor | None = None,
        text_output: bool = True,
    ) -> tuple[Tensor, Tensor]:
        """[B, N, D], [B, L, D] -> the same.

        `rows` [B, n] limits the image output to the rows that will be read. Without
        `text_output` (nobody reads the text afterwards) the text comes back unchanged.
        """
        text_output = text_output and not self.last
        if text_qkv is None:
            text_qkv = self.attn.text_qkv(self.norm1_context(text), queries=text_output)
        elif not text_output:
            text_qkv = (text_qkv[0][:, :, :0], *text_qkv[1:])
        image_part, text_part = self.attn(self.attn.image_qkv(self.norm1(image), rows), text_qkv)
        image = image_part + (image if rows is None else gather_rows(image, rows))
        image = image + self.ff(self.norm2(image))
        if text_output:
            text = text + self.attn.to_add_out(text_part)
            text = text + self.ff_context(self.norm2_context(text))
        return image, text


def gather_rows(x: Tensor, rows: Tensor) -> Tensor:
    """[B, N, D] and indices [B, n] -> [B, n, D]."""
    return x.gather(1, rows[:, :, None].expand(-1, -1, x.shape[2]))


class Resampler(nn.Module):
    """A token (un)shuffle with a two-layer network behind it."""

    def __init__(self, shuffle: nn.Module, channels_in: int, width: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            shuffle,
            TokenConv1x1(channels_in, width),
            nn.GELU(approximate="tanh"),
            TokenConv1x1(width, width),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x)


class EMMDiT(nn.Module):
    """Tokens [B, T, C] and an embedded prompt to hidden rows [B, T, D]. No time, no mask input."""

    positions: Tensor

    def __init__(self, config: EMMDiTConfig) -> None:
        super().__init__()
        self.config, width = config, config.width
        self.mask_token = nn.Parameter(torch.zeros(1, 1, config.channels))
        self.context_embedder = nn.Linear(config.text_width, width)
        self.x_proj = nn.Linear(config.channels, width)
        self.z_proj_ln = RMSNorm(width) if config.norm == "rms" else nn.LayerNorm(width, eps=1e-6)
        total = sum(config.groups)
        numbers = iter(range(total))
        self.block_groups = nn.ModuleList(
            nn.ModuleList(JointBlock(config, next(numbers) == total - 1) for _ in range(size))
            for size in config.groups
        )
        # The outer list counts compression stages: there is one, with a 2x and a 4x branch.
        self.downsamplers = nn.ModuleList(
            [nn.ModuleList(Resampler(TokenUnshuffle(r), r * r * width, width) for r in (2, 4))]
        )
        self.upsamplers = nn.ModuleList(
            [nn.ModuleList(Resampler(TokenShuffle(r), width // (r * r), width) for r in (2, 4))]
        )
        self.mergers = nn.ModuleList(
            [
                nn.Sequential(
                    nn.Linear(3 * width, width),
                    nn.GELU(approximate="tanh"),
                    nn.Linear(width, width),
                )
            ]
        )
        if config.global_pass:
            self.global_z_proj = nn.Sequential(
                nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width)
            )
        table = position_table(width, config.grid, config.position_step)
        self.register_buffer("positions", table, persistent=False)

    def embed_text(self, text: Tensor) -> EmbeddedText:
        """Text rows [B, L, text width] to what every pass over this prompt starts from."""
        rows = self.context_embedder(text)  # [B, L, D]
        return EmbeddedText(rows, self.block_groups[0][0].start_text(rows))

    def embed_tokens(self, tokens: Tensor) -> Tensor:
        return self.z_proj_ln(self.x_proj(tokens) + self.positions)  # [B, T, D]

    def compress(self, image: Tensor) -> Tensor:
        """[B, T, D] -> [B, T/4 + T/16, D]."""
        return torch.cat([branch(image) for branch in self.downsamplers[0]], dim=1)

    def reconstruct(self, coarse: Tensor, fine: Tensor) -> Tensor:
        """Middle rows and the first group's rows -> [B, T, D], positions added again."""
        parts = coarse.split([self.config.tokens // 4, self.config.tokens // 16], dim=1)
        branches = [up(part) for up, part in zip(self.upsamplers[0], parts, strict=True)]
        return self.mergers[0](torch.cat([*branches, fine], dim=2)) + self.positions

    def forward(self, tokens: Tensor, text: EmbeddedText, rows: Tensor | None = None) -> Tensor:
        """Hidden rows [B, T, D], or only those at `rows` [B, n] -> [B, n, D]."""
        first, middle, final = self.block_groups
        image, words, text_qkv = self.embed_tokens(tokens), text.rows, text.qkv
        for block in first:
            image, words = block(image, words, text_qkv)
            text_qkv = None  # type: ignore[assignment]
        fine, image = image, self.compress(image)
        for block in middle:
            image, words = block(image, words)
        image = self.reconstruct(image, fine)
        for block in final[:-1]:
            image, words = block(image, words)
        image, _ = final[-1](image, words, rows=rows)
        return image

    def global_pass(self, text: EmbeddedText) -> Tensor:
        """Condition of the global token, [B, 1, D]: one masked token through the first group."""
        token = self.mask_token.expand(text.rows.shape[0], 1, -1)
        image = self.z_proj_ln(self.x_proj(token))  # no position: it stands for the whole
        words, text_qkv, first = text.rows, text.qkv, self.block_groups[0]
        for index, block in enumerate(first):
            image, words = block(image, words, text_qkv, text_output=index < len(first) - 1)
            text_qkv = None  # type: ignore[assignment]
        return self.global_z_proj(image)
