"""Where tokens of the binary autoencoder are, and what that does to queries and keys.

A token has three coordinates: (number, 0, 0) for a latent, (0, row, column) for a patch. Patches
span the same square whatever the picture's size, so the size only decides how densely the square
is sampled. The table of angles has pairs of equal channels, yet is applied to channels half a head
apart: no rotation, but what the published weights were trained with.
"""

from __future__ import annotations

import torch
from torch import Tensor

BASE = 10000.0


def coordinates(latents: int, rows: int, columns: int, square: int | None) -> Tensor:
    """[latents + rows * columns, 3] in fp32, on the CPU: latents first, then patches row by row.

    `square` is the length of the square that patches span; None = one unit a patch. Raises
    `ValueError` for a grid with a single row or column, which cannot span anything.
    """
    if square is not None and min(rows, columns) < 2:
        raise ValueError(f"A grid of {rows} x {columns} patches is too small: 2 x 2 at least.")
    out = torch.zeros(latents + rows * columns, 3)
    out[:latents, 0] = torch.arange(latents)
    down, right = torch.arange(rows).float(), torch.arange(columns).float()
    if square is not None:
        down = down / (rows - 1) * (square - 1)
        right = right / (columns - 1) * (square - 1)
    out[latents:, 1] = down.repeat_interleave(columns)
    out[latents:, 2] = right.repeat(rows)
    return out


def angle_table(places: Tensor, axes: tuple[int, int, int]) -> tuple[Tensor, Tensor]:
    """Cosines and sines, fp32 [n, head_dim] each, of coordinates [n, 3]."""
    parts = []
    for axis, size in enumerate(axes):
        # By name: models are built on the meta device, but this table has to be real.
        steps = torch.arange(0, size, 2, dtype=torch.float64, device="cpu")
        parts.append(places[:, axis, None].cpu().double() * BASE ** (-steps / size))
    angles = torch.cat(parts, dim=1).repeat_interleave(2, dim=1)
    return angles.cos().float(), angles.sin().float()


def turn(x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """Apply the table to queries or keys [..., n, head_dim]; the result has their type."""
    first, second = x.float().chunk(2, dim=-1)
    swapped = torch.cat([-second, first], dim=-1)
    return (x.float() * cosines + swapped * sines).to(x.dtype)
