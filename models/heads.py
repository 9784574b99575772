"""Flow heads: networks that turn a hidden row and a noisy token into a velocity (noise - data).

`MLPHead` (Nitro-AR GAN) treats tokens one by one. `TransformerHead` (Joint-GAN) lets all tokens of
a picture attend to each other, so that one AR iteration is enough. Names are the checkpoint's.
Both split what depends on the condition alone (`condition`) from what runs at each flow step
(`forward`), so that the condition is projected once per iteration.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.layers import RMSNorm, TimeEmbedding, modulate, position_table


@dataclass(frozen=True)
class HeadConfig:
    """Every number of a flow head. Defaults are the published models'."""

    kind: Literal["mlp", "transformer"]
    width: int = 768
    depth: int = 8
    head_dim: int = 64  # of the transformer head's attention


class MLPResBlock(nn.Module):
    """Residual two-layer network, modulated by time and condition."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.in_ln = nn.LayerNorm(width, eps=1e-6)
        self.mlp = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 3 * width))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        shift, scale, gate = self.adaLN_modulation(y).chunk(3, dim=-1)
        return torch.addcmul(x, gate, self.mlp(modulate(self.in_ln(x), shift, scale)))


class FinalLayer(nn.Module):
    """Modulated norm and projection to the token's channels; the norm has a weight or not."""

    def __init__(self, width: int, channels: int, norm: nn.Module) -> None:
        super().__init__()
        self.norm_final = norm
        self.linear = nn.Linear(width, channels)
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 2 * width))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        shift, scale = self.adaLN_modulation(y).chunk(2, dim=-1)
        return self.linear(modulate(self.norm_final(x), shift, scale))


class MLPHead(nn.Module):
    """Velocity of single tokens. x [N, C], time embedding [N or 1, W], condition [N, W]."""

    def __init__(self, config: HeadConfig, channels: int, hidden_width: int) -> None:
        super().__init__()
        width = config.width
        self.time_embed = TimeEmbedding(width)
        self.cond_embed = nn.Linear(hidden_width, width)
        self.input_proj = nn.Linear(channels, width)
        self.res_blocks = nn.ModuleList(MLPResBlock(width) for _ in range(config.depth))
        norm = nn.LayerNorm(width, eps=1e-6, elementwise_affine=False)
        self.final_layer = FinalLayer(width, channels, norm)

    def time(self, times: Tensor) -> Tensor:
        return self.time_embed(times)  # [n, W]

    def condition(self, hidden: Tensor) -> Tensor:
        return self.cond_embed(hidden)  # [N, W]

    def forward(self, x: Tensor, time: Tensor, condition: Tensor) -> Tensor:
        x, y = self.input_proj(x), time + condition
        for block in self.res_blocks:
            x = block(x, y)
        return self.final_layer(x, y)


class SelfAttention(nn.Module):
    """Plain multi-head attention over a picture's tokens, without query/key norms."""

    def __init__(self, width: int, head_dim: int) -> None:
        super().__init__()
        self.head_dim = head_dim
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.proj = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, -1, self.head_dim)).permute(2, 0, 3, 1, 4)
        return self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class GatedMLP(nn.Module):
    """Gated network; the gate is an exact GELU."""

    def __init__(self, width: int) -> None:
        super().__init__()
        hidden = int(width * 4 * 2 / 3)
        self.fc1_g, self.fc1_x = nn.Linear(width, hidden), nn.Linear(width, hidden)
        self.fc2 = nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(F.gelu(self.fc1_g(x)) * self.fc1_x(x))


class TransformerResBlock(nn.Module):
    """Attention and gated network, modulated per token."""

    def __init__(self, width: int, head_dim: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = RMSNorm(width), RMSNorm(width)
        self.attn = SelfAttention(width, head_dim)
        self.mlp = GatedMLP(width)
        self.ada_lin = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        gate1, gate2, scale1, scale2, shift1, shift2 = self.ada_lin(y).chunk(6, dim=-1)
        x = torch.addcmul(x, gate1, self.attn(modulate(self.norm1(x), shift1, scale1)))
        return torch.addcmul(x, gate2, self.mlp(modulate(self.norm2(x), shift2, scale2)))


class TransformerHead(nn.Module):
    """Velocity of all tokens of a picture. x [B, N, C], time [B, W], condition [B, N, W]."""

    positions: Tensor

    def __init__(
        self,
        config: HeadConfig,
        channels: int,
        hidden_width: int,
        grid: int,
        position_step: float,
    ) -> None:
        super().__init__()
        width = config.width
        if width % config.head_dim:
            raise ValueError(f"width {width} is no multiple of head_dim {config.head_dim}.")
        self.time_embed = TimeEmbedding(width)
        self.cond_embed = nn.Linear(hidden_width, width)
        self.input_proj = nn.Linear(channels, width)
        self.t_norm, self.c_norm = RMSNorm(width), RMSNorm(width)
        self.res_blocks = nn.ModuleList(
            TransformerResBlock(width, config.head_dim) for _ in range(config.depth)
        )
        self.final_layer = FinalLayer(width, channels, RMSNorm(width))
        table = position_table(width, grid, position_step)
        self.register_buffer("positions", table, persistent=False)

    def time(self, times: Tensor) -> Tensor:
        return self.t_norm(self.time_embed(times))  # [n, W]

    def condition(self, hidden: Tensor) -> Tensor:
        return self.c_norm(self.cond_embed(hidden))  # [B, N, W]

    def forward(self, x: Tensor, time: Tensor, condition: Tensor) -> Tensor:
        x = self.input_proj(x)
        if x.shape[1] > 1:  # the global token has no place
            x = x + self.positions
        y = condition + time[:, None, :]
        for block in self.res_blocks:
            x = block(x, y)
        return self.final_layer(x, y)
