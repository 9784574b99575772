"""Pixels of the Pocket world: emoji sprites from the font, and scenes pasted from sprites."""

from __future__ import annotations

from functools import cache, lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from training.world.scenes import CANVAS, Item, Scene
from training.world.vocabulary import COLOURS, OBJECTS

FONT_FILE = Path("/usr/share/fonts/truetype/noto/NotoColorEmoji.ttf")
BITMAP_SIZE = 109  # the one size the font's bitmaps have


@lru_cache(maxsize=1)
def _font() -> ImageFont.FreeTypeFont:
    if not FONT_FILE.exists():
        raise FileNotFoundError(
            f"The emoji font is missing ({FONT_FILE}). On Debian or Ubuntu: "
            "apt-get install fonts-noto-color-emoji"
        )
    return ImageFont.truetype(str(FONT_FILE), BITMAP_SIZE)


@cache
def _glyph(name: str) -> Image.Image:
    """The object's glyph, trimmed and centred on a transparent square."""
    drawn = Image.new("RGBA", (160, 160))
    ImageDraw.Draw(drawn).text((4, 4), OBJECTS[name], font=_font(), embedded_color=True)
    box = drawn.getbbox()
    if box is None:
        raise ValueError(f"The font draws nothing for {name!r} ({OBJECTS[name]!r}).")
    glyph = drawn.crop(box)
    side = max(glyph.size)
    square = Image.new("RGBA", (side, side))
    square.paste(glyph, ((side - glyph.width) // 2, (side - glyph.height) // 2))
    return square


@lru_cache(maxsize=4096)
def sprite(name: str, size: int, tint: str | None = None) -> NDArray[np.float32]:
    """An object as premultiplied RGBA in 0..1, [size, size, 4].

    A tint keeps the drawing's light and shade and replaces its colours: dark stays dark, middle
    grey becomes the tint, white stays nearly white.
    """
    resized = _glyph(name).resize((size, size), Image.Resampling.LANCZOS)
    rgba = np.asarray(resized, dtype=np.float32) / 255
    rgb, alpha = rgba[..., :3], rgba[..., 3:]
    if tint is not None:
        light = (rgb @ np.array([0.3, 0.59, 0.11], dtype=np.float32))[..., None]
        colour = np.array(COLOURS[tint], dtype=np.float32) / 255
        dark_side = colour * np.clip(light / 0.55, 0, 1)
        bright_side = colour + (1 - colour) * np.clip((light - 0.55) / 0.45, 0, 1) * 0.75
        rgb = np.where(light < 0.55, dark_side, bright_side)
    return np.concatenate([rgb * alpha, alpha], axis=-1)


def _paste(canvas: NDArray[np.float32], item: Item) -> None:
    stamp = sprite(item.name, item.size, item.tint)
    left, top = item.x - item.size // 2, item.y - item.size // 2
    x0, y0 = max(left, 0), max(top, 0)
    x1, y1 = min(left + item.size, CANVAS), min(top + item.size, CANVAS)
    stamp = stamp[y0 - top : y1 - top, x0 - left : x1 - left]
    region = canvas[y0:y1, x0:x1]
    region *= 1 - stamp[..., 3:]
    region += stamp[..., :3]


def render(scene: Scene) -> NDArray[np.float32]:
    """The picture of a scene, RGB in 0..1, [128, 128, 3]."""
    colour = (np.array(COLOURS[scene.background]) + np.array(scene.shade)).clip(0, 255) / 255
    canvas = np.broadcast_to(colour.astype(np.float32), (CANVAS, CANVAS, 3)).copy()
    for item in scene.items:
        _paste(canvas, item)
    return canvas
