"""Layers the autoencoder and the generators share: norms, gated network, attention's parts."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class UnitNorm(nn.Module):
    """RMS norm with fp32 statistics; rounded to the input's type before the weight is applied."""

    def __init__(self, width: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * F.rms_norm(x.float(), x.shape[-1:], None, self.eps).to(x.dtype)


class GatedMLP(nn.Module):
    """down(silu(gate(x)) * up(x)), four times as wide inside, no biases."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(width, 4 * width, bias=False)
        self.up_proj = nn.Linear(width, 4 * width, bias=False)
        self.down_proj = nn.Linear(4 * width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class HeadProjections(nn.Module):
    """Bias-free projections to normed queries, normed keys and values, and back."""

    def __init__(self, heads: int, head_dim: int) -> None:
        super().__init__()
        self.heads, width = heads, heads * head_dim
        self.q_proj = nn.Linear(width, width, bias=False)
        self.k_proj = nn.Linear(width, width, bias=False)
        self.v_proj = nn.Linear(width, width, bias=False)
        self.o_proj = nn.Linear(width, width, bias=False)
        self.norm_q = UnitNorm(head_dim)
        self.norm_k = UnitNorm(head_dim)

    def queries(self, x: Tensor) -> Tensor:
        """[B, n, D] to [B, heads, n, head_dim]"""
        return self.norm_q(self._split(self.q_proj(x)))

    def keys(self, x: Tensor) -> Tensor:
        return self.norm_k(self._split(self.k_proj(x)))

    def values(self, x: Tensor) -> Tensor:
        return self._split(self.v_proj(x))

    def join(self, x: Tensor) -> Tensor:
        """[B, heads, n, head_dim] to [B, n, D]"""
        return self.o_proj(x.transpose(1, 2).flatten(2))

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)
