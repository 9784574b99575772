"""A grid as one picture: its cells in tables with the axes' names and values, empty ones outlined."""

from __future__ import annotations

import io
import itertools
import json
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont, PngImagePlugin

from engine.events import Pixels
from engine.requests import find_variant
from ui.grid.cells import Grid, Place

KEY = "nitro-canvas-grid"  # the text chunk with axes and settings
MAX_SIDE = 12_000  # pixels of the sheet
_GAP, _MARGIN, _SIDEBAR = 4, 12, 150
_PAPER, _INK, _FAINT = "#ffffff", "#1c1c1e", "#c9c9ce"


@dataclass(frozen=True)
class Layout:
    """Where everything is, in pixels."""

    cell: int
    columns: int
    rows: int
    tables: int
    header: int  # above the cells of each table
    sidebar: int = _SIDEBAR

    @property
    def size(self) -> tuple[int, int]:
        width = 2 * _MARGIN + self.sidebar + self.columns * (self.cell + _GAP) - _GAP
        return width, 2 * _MARGIN + self.tables * self.table - _MARGIN

    @property
    def table(self) -> int:
        """Height of a table and the space after it."""
        return self.header + self.rows * (self.cell + _GAP) - _GAP + _MARGIN

    def corner(self, place: Place) -> tuple[int, int]:
        """Left and top of a cell; `place` is column, row and table."""
        x, y, z = (*place, 0)[:3]
        step = self.cell + _GAP
        top = _MARGIN + z * self.table + self.header + y * step
        return _MARGIN + self.sidebar + x * step, top


def layout(grid: Grid, most: int = MAX_SIDE) -> Layout:
    """Cells at their pictures' size, or smaller where the sheet would grow beyond `most`."""
    columns, rows, tables = ([len(axis.values) for axis in grid.axes] + [1])[:3]
    header = 64 + 20 * (len(grid.axes) > 2)
    cell = max(find_variant(each.request.variant).resolution for each in grid.cells)
    room = most - _SIDEBAR - 2 * _MARGIN
    across = room // columns - _GAP
    down = ((most - 2 * _MARGIN) // tables - header - _MARGIN) // rows - _GAP
    return Layout(max(48, min(cell, across, down)), columns, rows, tables, header)


def shrunk(pixels: Pixels, side: int) -> Pixels:
    """A square picture at this size, if it is not that small already."""
    if max(pixels.shape[:2]) <= side:
        return pixels
    image = Image.fromarray(pixels).resize((side, side), Image.Resampling.LANCZOS)
    return np.asarray(image)


def sheet(grid: Grid, pictures: Mapping[Place, Pixels], most: int = MAX_SIDE) -> bytes:
    """The PNG of the cells that are there, uint8 [H, W, 3] by place. Axes and settings are inside.

    Cells are small enough for neither side to grow much beyond `most`.
    """
    where = layout(grid, most)
    image = Image.new("RGB", where.size, _PAPER)
    draw = ImageDraw.Draw(image)
    for table in range(where.tables):
        _write_labels(draw, grid, where, table)
    for place in itertools.product(*(range(len(axis.values)) for axis in grid.axes)):
        left, top = where.corner(place)
        pixels = pictures.get(place)
        if pixels is None:
            edge = where.cell - 1
            draw.rectangle((left, top, left + edge, top + edge), outline=_FAINT)
            continue
        picture = Image.fromarray(pixels)
        if picture.size != (where.cell, where.cell):
            picture = picture.resize((where.cell, where.cell), Image.Resampling.LANCZOS)
        image.paste(picture, (left, top))
    info = PngImagePlugin.PngInfo()
    info.add_itxt(KEY, json.dumps(_description(grid), ensure_ascii=True))
    out = io.BytesIO()
    image.save(out, "PNG", pnginfo=info)
    return out.getvalue()


def _write_labels(draw: ImageDraw.ImageDraw, grid: Grid, where: Layout, table: int) -> None:
    across, down = grid.axes[:2]
    small, large = ImageFont.load_default(13), ImageFont.load_default(15)
    x, y = where.corner((0, 0, table))
    top = y - where.header
    if len(grid.axes) > 2:
        third = grid.axes[2]
        words = f"{third.title}: {third.labels()[table]}"
        width = where.size[0] - 2 * _MARGIN
        draw.text((_MARGIN, top), _fit(words, width, 1, large), _INK, large)
    draw.text((x, y - 60), _fit(across.title, where.cell, 1, small), _INK, small)
    draw.text((_MARGIN, y - 18), _fit(down.title, where.sidebar - 8, 1, small), _INK, small)
    for n, label in enumerate(across.labels()):
        left, _ = where.corner((n, 0, table))
        draw.multiline_text((left, y - 40), _fit(label, where.cell, 2, large), _INK, large)
    for n, label in enumerate(down.labels()):
        _, upper = where.corner((0, n, table))
        lines = max(1, where.cell // 20)
        draw.multiline_text(
            (_MARGIN, upper), _fit(label, where.sidebar - 8, lines, large), _INK, large
        )


def _fit(text: str, width: int, lines: int, font: Any) -> str:
    """The text in lines that are no wider; what does not fit ends in an ellipsis."""
    rows = [""]
    for word in text.split():
        longer = f"{rows[-1]} {word}".strip()
        if rows[-1] and font.getlength(longer) > width:
            if len(rows) > lines:
                break
            rows.append(word)
        else:
            rows[-1] = longer
    kept = rows[:lines]
    if len(rows) > lines:
        kept[-1] += "…"
    return "\n".join(_clip(row, width, font) for row in kept)


def _clip(text: str, width: int, font: Any) -> str:
    if font.getlength(text) <= width:
        return text
    text = text.removesuffix("…")
    lengths = range(1, len(text) + 1)
    fits = bisect_right(lengths, width, key=lambda n: font.getlength(text[:n] + "…"))
    return text[:fits] + "…"


def _description(grid: Grid) -> dict[str, Any]:
    return {
        "axes": [{"key": axis.key, "values": list(axis.values)} for axis in grid.axes],
        "cells": [{"place": cell.place, **cell.request.to_dict()} for cell in grid.cells],
    }
