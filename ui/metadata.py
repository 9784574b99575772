"""A picture's settings inside its file, and back.

They travel as JSON, in a PNG's iTXt chunk (UTF-8) or in a WebP's Exif description, so that quotes,
newlines, emoji and right-to-left text come back as they went in. Other programs' text is left alone.
"""

from __future__ import annotations

import io
import json
import struct
from pathlib import Path
from typing import Any

from PIL import ExifTags, Image, PngImagePlugin

from engine.events import Pixels

KEY = "nitro-canvas"
SOFTWARE = "Nitro Canvas"


class NoSettings(ValueError):
    """The picture carries no settings of this product. The message is for a person."""


def png(pixels: Pixels, settings: dict[str, Any] | None = None) -> bytes:
    """The picture as PNG with `settings` (anything JSON can hold), if there are any, inside."""
    info = PngImagePlugin.PngInfo()
    if settings is not None:
        # ASCII-escaped JSON: the chunk is valid UTF-8 even for lone surrogates in a prompt
        info.add_itxt(KEY, json.dumps(settings, ensure_ascii=True, sort_keys=True))
        info.add_itxt("Software", SOFTWARE)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG", pnginfo=info)
    return out.getvalue()


def webp(pixels: Pixels, settings: dict[str, Any] | None = None) -> bytes:
    """The picture as lossless WebP with `settings`, if there are any, inside."""
    exif = Image.Exif()
    if settings is not None:
        exif[ExifTags.Base.ImageDescription] = json.dumps({KEY: settings}, sort_keys=True)
        exif[ExifTags.Base.Software] = SOFTWARE
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "WEBP", lossless=True, exact=True, exif=exif)
    return out.getvalue()


def read_settings(source: bytes | str | Path) -> dict[str, Any]:
    """The settings a picture of this product carries. Raises `NoSettings` in words."""
    try:
        with Image.open(io.BytesIO(source) if isinstance(source, bytes) else source) as image:
            image.load()  # text chunks may follow the pixels
            text = getattr(image, "text", {}).get(KEY) or _described(image)
    except OSError as error:
        raise NoSettings(f"This is not a picture that can be read: {error}.") from None
    if text is None:
        raise NoSettings("This picture carries no Nitro Canvas settings.")
    try:
        settings = json.loads(text)
    except json.JSONDecodeError:
        settings = None
    if not isinstance(settings, dict):
        raise NoSettings("This picture's Nitro Canvas settings are damaged.")
    return settings


def _described(image: Image.Image) -> str | None:
    """The settings' JSON in a picture's Exif description, if that holds them."""
    try:
        text = image.getexif().get(ExifTags.Base.ImageDescription)
        values = json.loads(text) if isinstance(text, str) else None
    except (ValueError, OSError, SyntaxError, struct.error):  # Exif can be broken in many ways
        return None
    return json.dumps(values[KEY]) if isinstance(values, dict) and KEY in values else None
