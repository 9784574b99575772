"""Any picture as the square RGB pixels an autoencoder reads. Pillow and numpy only: pages need it.

What a viewer would show is what counts: turned as the camera says, transparency over white, the
first frame of an animation, more bits than eight scaled to eight.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from models.masks import Box

Fit = Literal["cover", "contain"]
MAX_MARGIN = 0.45
_ALPHA_MODES = ("RGBA", "LA", "PA", "RGBa", "La")
_DEEP_MODES = ("I", "F", "I;16", "I;16B", "I;16L", "I;16N")


@dataclass(frozen=True)
class Photo:
    """A picture fitted into a square, and which part of the square it fills."""

    pixels: NDArray[np.uint8]  # [S, S, 3]
    box: Box


def as_rgb(image: Image.Image) -> Image.Image:
    """The picture in mode RGB, upright. Raises what Pillow raises for damaged files."""
    image = _upright(image)
    if image.mode in _DEEP_MODES:
        return Image.fromarray(_eight_bits(np.asarray(image))).convert("RGB")
    if image.mode in _ALPHA_MODES or "transparency" in image.info:
        layer = image.convert("RGBA")
        paper = Image.new("RGBA", layer.size, "white")
        return Image.alpha_composite(paper, layer).convert("RGB")
    if image.mode == "LAB":
        from PIL import ImageCms  # seldom needed, and not in every build

        lab, srgb = ImageCms.createProfile("LAB"), ImageCms.createProfile("sRGB")
        converted = ImageCms.profileToProfile(image, lab, srgb, outputMode="RGB")
        assert converted is not None  # only with inPlace
        return converted
    return image.convert("RGB")


def fitted(image: Image.Image, side: int, fit: Fit = "cover", margin: float = 0.0) -> Photo:
    """An RGB picture in a square of `side` pixels.

    "cover" fills it and crops what is too long, "contain" shows all and repeats the edges beside
    it. `margin` (0 to `MAX_MARGIN`) leaves that part of the side free on every side, for
    outpainting. Repeated edges disturb an encoder least.
    """
    inner = max(1, round(side * (1 - 2 * margin)))
    if fit == "cover":
        made = ImageOps.fit(image, (inner, inner), Image.Resampling.LANCZOS)
    else:
        scale = inner / max(image.size)
        size = tuple(max(1, round(length * scale)) for length in image.size)
        made = image.resize((size[0], size[1]), Image.Resampling.LANCZOS)
    width, height = made.size
    left, top = (side - width) // 2, (side - height) // 2
    around = ((top, side - height - top), (left, side - width - left), (0, 0))
    pixels = np.pad(np.asarray(made), around, mode="edge")
    box = (left / side, top / side, (left + width) / side, (top + height) / side)
    return Photo(pixels, box)


def _upright(image: Image.Image) -> Image.Image:
    """Turned as its EXIF says; as it is where that is damaged, which says nothing of the rest."""
    try:
        return ImageOps.exif_transpose(image)
    except Exception:  # the parser raises whatever the damage leads it to
        image.load()
        return image


def _eight_bits(values: NDArray) -> NDArray[np.uint8]:
    """One channel of more bits, scaled to what it holds: 16 bits, 0..1, or its own range."""
    numbers = np.nan_to_num(values.astype(np.float64), posinf=0.0, neginf=0.0)
    low, high = float(numbers.min()), float(numbers.max())
    if values.dtype.kind == "f":
        low, high = (0.0, 1.0) if low >= 0 and high <= 1 else (low, high)
    elif low >= 0:
        low, high = 0.0, 255.0 if high <= 255 and values.dtype.itemsize > 2 else max(65535.0, high)
    scaled = (numbers - low) / (high - low) * 255 if high > low else np.zeros_like(numbers)
    return scaled.round().astype(np.uint8)
