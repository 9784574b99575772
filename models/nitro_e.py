"""Nitro-E: E-MMDiT as a diffusion model, the velocity net itself.

The backbone's structure (three groups, tokens compressed in the middle, positions added again) is
Nitro-AR's; here time modulates every block (AdaLN-affine: one projection of time for the whole
model, and a learnt bias and scale per block), and two blocks in three attend within alternating
subregions only. Source: arXiv 2510.27135. Module names are the official checkpoint's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from models.emmdit import (
    EMMDiTConfig,
    FeedForward,
    JointAttention,
    Resampler,
    attend,
    merge_heads,
)
from models.layers import (
    POSITION_TABLE_SIDE,
    TokenConv1x1,
    TokenShuffle,
    TokenUnshuffle,
    centre_crop,
    modulate,
    position_table,
    time_code,
)

REGIONS = 4


@dataclass(frozen=True)
class NitroEConfig:
    """Every number of the model. 1024 px is `grid=32` without subregions."""

    grid: int = 16
    channels: int = 32
    width: int = 768
    head_dim: int = 32
    text_width: int = 2048
    groups: tuple[int, int, int] = (4, 16, 4)
    subregions: bool = True
    position_step: float = 1 / 6

    @property
    def backbone(self) -> EMMDiTConfig:
        """The part that Nitro-AR shares; checks the numbers."""
        return EMMDiTConfig(
            self.grid, self.channels, self.width, self.head_dim, self.text_width, self.groups
        )

    @property
    def tokens(self) -> int:
        return self.grid * self.grid


NITRO_E_512 = NitroEConfig()
NITRO_E_1024 = NitroEConfig(grid=32, subregions=False)
# As wide and deep as Pocket's Nitro-AR backbone; so few tokens need no subregions.
POCKET_E = NitroEConfig(
    grid=8, width=160, text_width=160, groups=(1, 3, 1), subregions=False, position_step=1.0
)


class TimestepEmbedder(nn.Module):
    """Time code through two layers."""

    def __init__(self, width: int, code_width: int = 256) -> None:
        super().__init__()
        self.linear_1 = nn.Linear(code_width, width)
        self.linear_2 = nn.Linear(width, width)

    def forward(self, times: Tensor) -> Tensor:
        code = time_code(times).to(self.linear_1.weight.dtype)
        return self.linear_2(nn.functional.silu(self.linear_1(code)))


class TimeModulation(nn.Module):
    """Six vectors of time for all blocks: [n] -> [n, 6, D]."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.emb = nn.Module()
        self.emb.timestep_embedder = TimestepEmbedder(width)
        self.linear = nn.Linear(width, 6 * width)

    def forward(self, times: Tensor) -> Tensor:
        embedded = self.emb.timestep_embedder(times)
        return self.linear(nn.functional.silu(embedded)).unflatten(1, (6, -1))


class PatchEmbed(nn.Module):
    """Token rows to width D, and the whole position table, which the checkpoint carries."""

    def __init__(self, channels: int, width: int, position_step: float) -> None:
        super().__init__()
        self.proj = TokenConv1x1(channels, width)
        table = position_table(width, POSITION_TABLE_SIDE, position_step)
        self.register_buffer("pos_embed", table[None])

    def forward(self, tokens: Tensor) -> Tensor:
        side = math.isqrt(tokens.shape[1])
        return self.proj(tokens) + centre_crop(self.pos_embed[0], side)


class AffineBlock(nn.Module):
    """A joint block whose norms and residuals are shifted, scaled and gated by time.

    `region` 0: full attention; 1: token j attends within region j mod 4; 2: within region
    (j div 4) mod 4. Text is split by the same rule.
    """

    def __init__(self, config: NitroEConfig, region: int, last: bool) -> None:
        super().__init__()
        width, self.region, self.last = config.width, region, last
        self.norm1, self.norm1_context = nn.LayerNorm(width), nn.LayerNorm(width)
        self.norm2 = nn.LayerNorm(width, 1e-6, elementwise_affine=False)
        self.attn = JointAttention(width, config.head_dim, text_output=not last)
        self.ff = FeedForward(width)
        streams = ("",) if last else ("", "_c")
        for stream in streams:
            for table in ("bias", "scale"):
                name = f"scale_shift_{table}{stream}"
                self.register_parameter(name, nn.Parameter(torch.zeros(6, width)))
        if not last:
            self.ff_context = FeedForward(width)

    def forward(self, image: Tensor, text: Tensor, time: Tensor) -> tuple[Tensor, Tensor]:
        """[B, N, D], [B, L, D], [B, 6, D] -> the streams after the block."""
        shift_a, scale_a, gate_a, shift_m, scale_m, gate_m = _six(
            self.scale_shift_bias, self.scale_shift_scale, time
        )
        h_image = modulate(self.norm1(image), shift_a, scale_a)
        h_text = self.norm1_context(text)
        if not self.last:
            c = _six(self.scale_shift_bias_c, self.scale_shift_scale_c, time)
            h_text = modulate(h_text, c[0], c[1])
        image_qkv = self.attn.image_qkv(h_image, None)
        text_qkv = self.attn.text_qkv(h_text, queries=not self.last)
        if self.region:
            image_qkv = tuple(to_regions(x, self.region) for x in image_qkv)  # type: ignore[assignment]
            text_qkv = tuple(to_regions(x, self.region) for x in text_qkv)  # type: ignore[assignment]
        image_rows, text_rows = attend(image_qkv, text_qkv)
        if self.region:
            image_rows = from_regions(image_rows, self.region)
            text_rows = from_regions(text_rows, self.region)
        image = image + gate_a * self.attn.to_out[0](merge_heads(image_rows))
        image = image + gate_m * self.ff(modulate(self.norm2(image), shift_m, scale_m))
        if not self.last:
            text = text + c[2] * self.attn.to_add_out(merge_heads(text_rows))
            # The text's second norm has no tensors, so the image's serves both.
            text = text + c[5] * self.ff_context(modulate(self.norm2(text), c[3], c[4]))
        return image, text


def _six(bias: Tensor, scale: Tensor, time: Tensor) -> tuple[Tensor, ...]:
    """Six modulation vectors [B, 1, D]: shift, scale, gate for attention, then for the network."""
    return torch.addcmul(bias, time, 1 + scale)[:, :, None].unbind(1)


def to_regions(x: Tensor, kind: int) -> Tensor:
    """[B, heads, N, d] -> [B * 4, heads, N / 4, d], regions beside the batch, order kept."""
    batch, heads, count, width = x.shape
    inner = 1 if kind == 1 else REGIONS  # neighbours that stay together
    x = x.view(batch, heads, count // (REGIONS * inner), REGIONS, inner, width)
    return x.permute(0, 3, 1, 2, 4, 5).reshape(batch * REGIONS, heads, count // REGIONS, width)


def from_regions(x: Tensor, kind: int) -> Tensor:
    """The inverse of `to_regions`."""
    batch, heads, count, width = x.shape
    inner = 1 if kind == 1 else REGIONS
    x = x.view(batch // REGIONS, REGIONS, heads, count // inner, inner, width)
    return x.permute(0, 2, 3, 1, 4, 5).reshape(batch // REGIONS, heads, count * REGIONS, width)


class Compressor(nn.Module):
    """2x and 4x token compression, side by side."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.body2x = Resampler(TokenUnshuffle(2), 4 * width, width).body
        self.body4x = Resampler(TokenUnshuffle(4), 16 * width, width).body

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.body2x(x), self.body4x(x)], dim=1)


class Reconstructor(nn.Module):
    """Back to all tokens, together with the rows from before the compression."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.body2x = Resampler(TokenShuffle(2), width // 4, width).body
        self.body4x = Resampler(TokenShuffle(4), width // 16, width).body
        self.mergers = nn.Sequential(
            nn.Linear(3 * width, width), nn.GELU(approximate="tanh"), nn.Linear(width, width)
        )

    def forward(self, coarse: Tensor, fine: Tensor) -> Tensor:
        tokens = fine.shape[1]
        half, quarter = coarse.split([tokens // 4, tokens // 16], dim=1)
        return self.mergers(torch.cat([self.body2x(half), self.body4x(quarter), fine], dim=2))


class NitroE(nn.Module):
    """Noisy tokens [B, T, C], text rows and time to the velocity [B, T, C]."""

    positions: Tensor

    def __init__(self, config: NitroEConfig) -> None:
        super().__init__()
        self.config, width = config, config.width
        _ = config.backbone  # raises for numbers that do not fit together
        self.pos_embed = PatchEmbed(config.channels, width, config.position_step)
        self.adaln_single = TimeModulation(width)
        self.context_embedder = nn.Linear(config.text_width, width)
        total, numbers = sum(config.groups), iter(range(sum(config.groups)))
        self.block_groups = nn.ModuleList(
            nn.ModuleList(
                AffineBlock(config, number % 3 if config.subregions else 0, number == total - 1)
                for number in (next(numbers) for _ in range(size))
            )
            for size in config.groups
        )
        # The outer lists count compression stages and parallel compressors: one of each.
        self.tokencompressor = nn.ModuleList([nn.ModuleList([Compressor(width)])])
        self.tokenreconstructor = nn.ModuleList([nn.ModuleList([Reconstructor(width)])])
        self.norm_out = nn.LayerNorm(width, 1e-6, elementwise_affine=False)
        self.proj_out = nn.Linear(width, config.channels)
        table = position_table(width, config.grid, config.position_step)
        self.register_buffer("positions", table, persistent=False)

    def embed_text(self, text: Tensor) -> Tensor:
        """Text rows [B, L, text width] -> [B, L, D]; the same at every step."""
        return self.context_embedder(text)

    def compress(self, image: Tensor) -> Tensor:
        return self.tokencompressor[0][0](image)

    def reconstruct(self, coarse: Tensor, fine: Tensor) -> Tensor:
        return self.tokenreconstructor[0][0](coarse, fine) + self.positions

    def forward(self, tokens: Tensor, text: Tensor, time: Tensor) -> Tensor:
        """`text` from `embed_text`, `time` from `adaln_single` [B, 6, D]."""
        first, middle, final = self.block_groups
        image = self.pos_embed(tokens)
        for block in first:
            image, text = block(image, text, time)
        fine, image = image, self.compress(image)
        for block in middle:
            image, text = block(image, text, time)
        image = self.reconstruct(image, fine)
        for block in final:
            image, text = block(image, text, time)
        return self.proj_out(self.norm_out(image))
