"""Small layers that several models share: norms, position table, time code, token convolutions."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

POSITION_TABLE_SIDE = 96  # the official table covers 96 x 96 positions, centre-cropped


class HeadRMSNorm(nn.Module):
    """RMS norm of queries and keys over the head dimension.

    In half precision the normalised value is rounded to the weight's type before the product.
    """

    def __init__(self, width: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        if x.dtype == torch.float32:
            return F.rms_norm(x, self.weight.shape, self.weight, self.eps)
        normal = F.rms_norm(x.float(), self.weight.shape, None, self.eps)
        return normal.to(self.weight.dtype) * self.weight


class RMSNorm(nn.Module):
    """RMS norm over channels, in fp32 throughout, result in the input's type."""

    def __init__(self, width: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        normal = F.rms_norm(x.float(), self.weight.shape, self.weight.float(), self.eps)
        return normal.to(x.dtype)


class TokenConv1x1(nn.Conv2d):
    """A 1x1 convolution on token rows [B, N, C]: stored as a convolution, computed as a GEMM."""

    def __init__(self, channels_in: int, channels_out: int) -> None:
        super().__init__(channels_in, channels_out, kernel_size=1)

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return F.linear(x, self.weight.flatten(1), self.bias)


class TokenUnshuffle(nn.Module):
    """Pixel-unshuffle on rows: [B, h*w, C] -> [B, h*w/r², C*r²], channel c*r² + i*r + j."""

    def __init__(self, factor: int) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        batch, count, channels = x.shape
        r, side = self.factor, math.isqrt(count) // self.factor
        x = x.view(batch, side, r, side, r, channels).permute(0, 1, 3, 5, 2, 4)
        return x.reshape(batch, side * side, channels * r * r)


class TokenShuffle(nn.Module):
    """The inverse of `TokenUnshuffle`: [B, n, C] -> [B, n*r², C/r²]."""

    def __init__(self, factor: int) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        batch, count, channels = x.shape
        r, side = self.factor, math.isqrt(count)
        x = x.view(batch, side, side, channels // (r * r), r, r).permute(0, 1, 4, 2, 5, 3)
        return x.reshape(batch, count * r * r, channels // (r * r))


def position_table(width: int, grid: int, step: float) -> Tensor:
    """2-D sine/cosine code of a grid x grid crop from the centre of the table, [grid², width].

    The first half of the channels encodes the column, the second the row; each half is sines then
    cosines. `step` is the distance between neighbours (1/6 in the published models).
    """
    if width % 4:
        raise ValueError(f"The width must be a multiple of 4 for a 2-D position code, got {width}.")
    first = (POSITION_TABLE_SIDE - grid) // 2
    # On the CPU by name: modules are built on the meta device, but this table has to be real.
    places = torch.arange(first, first + grid, dtype=torch.float32, device="cpu") * step
    powers = torch.arange(width // 4, dtype=torch.float64, device="cpu") / (width // 4)
    rates = 10000.0**-powers
    angles = places.double()[:, None] * rates  # [grid, width/4]
    line = torch.cat([angles.sin(), angles.cos()], dim=1)  # [grid, width/2]
    columns = line[None, :, :].expand(grid, grid, -1)
    rows = line[:, None, :].expand(grid, grid, -1)
    return torch.cat([columns, rows], dim=2).reshape(grid * grid, width).float()


def centre_crop(table: Tensor, side: int) -> Tensor:
    """The central side x side places of a whole position table, [side², width]."""
    first, end = (POSITION_TABLE_SIDE - side) // 2, (POSITION_TABLE_SIDE + side) // 2
    square = table.unflatten(0, (POSITION_TABLE_SIDE, POSITION_TABLE_SIDE))
    return square[first:end, first:end].flatten(0, 1)


def time_code(times: Tensor, width: int = 256) -> Tensor:
    """Cosines then sines of `times` (0..1000) at geometric rates, [n] -> [n, width], fp32."""
    half = width // 2
    rates = torch.exp(
        -math.log(10000.0) * torch.arange(half, dtype=torch.float32, device=times.device) / half
    )
    angles = times.float()[:, None] * rates
    return torch.cat([angles.cos(), angles.sin()], dim=1)


class TimeEmbedding(nn.Module):
    """Time code through a two-layer network, [n] -> [n, width]."""

    def __init__(self, width: int, code_width: int = 256) -> None:
        super().__init__()
        self.code_width = code_width
        self.mlp = nn.Sequential(nn.Linear(code_width, width), nn.SiLU(), nn.Linear(width, width))

    def forward(self, times: Tensor) -> Tensor:
        return self.mlp(time_code(times, self.code_width).to(self.mlp[0].weight.dtype))


def modulate(x: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
    """AdaLN: x * (1 + scale) + shift."""
    return torch.addcmul(shift, x, 1 + scale)
