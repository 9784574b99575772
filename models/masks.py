"""Masks of token cells: which part of a picture is free to change. No torch: pages read this too.

A mask is a bool array [h, w], True = free. In a request it travels as text, a character a cell,
row by row: "1" is free, "0" is kept.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]
Box = tuple[float, float, float, float]  # left, top, right, bottom, in parts of the side


def mask_text(mask: Mask) -> str:
    """The mask as text."""
    return "".join("1" if cell else "0" for cell in mask.flat)


def parse_mask(text: str, rows: int, columns: int) -> Mask:
    """[rows, columns] from text; the empty text frees all. Raises `ValueError` in words."""
    if not text:
        return np.ones((rows, columns), dtype=bool)
    if len(text) != rows * columns or set(text) - {"0", "1"}:
        cells = f"{rows} x {columns} cells row by row" if columns > 1 else f"{rows} tokens in order"
        raise ValueError(
            f"has to be {rows * columns} characters, one for each of the {cells}: "
            f'"1" to free one, "0" to keep it; got {len(text)} characters'
        )
    return (np.frombuffer(text.encode(), np.uint8) == ord("1")).reshape(rows, columns)


def grown(mask: Mask, cells: int) -> Mask:
    """The mask widened by so many cells on every side, diagonals included."""
    wide = mask
    for _ in range(cells):
        padded = np.pad(wide, 1)
        rows = padded[:-2] | padded[1:-1] | padded[2:]
        wide = rows[:, :-2] | rows[:, 1:-1] | rows[:, 2:]
    return wide


def outside(box: Box, grid: int) -> Mask:
    """Outpainting: the cells that are not wholly inside the box."""
    left, top, right, bottom = box
    edge = 1e-6 * grid  # a box on a line between cells is on that line
    columns = np.arange(grid)
    inside_x = (columns >= left * grid - edge) & (columns + 1 <= right * grid + edge)
    inside_y = (columns >= top * grid - edge) & (columns + 1 <= bottom * grid + edge)
    return ~(inside_y[:, None] & inside_x[None, :])


def from_picture(picture: NDArray, grid: int) -> Mask:
    """[grid, grid] of a painted mask [H, W]: a cell is free if any of it is brighter than half.

    `picture` is uint8, or float in 0..1.
    """
    height, width = picture.shape
    bright = picture > (127 if picture.dtype == np.uint8 else 0.5)
    mask = np.zeros((grid, grid), dtype=bool)
    for row in range(grid):
        top, bottom = row * height // grid, math.ceil((row + 1) * height / grid)
        for column in range(grid):
            left, right = column * width // grid, math.ceil((column + 1) * width / grid)
            mask[row, column] = bright[top:bottom, left:right].any()
    return mask
