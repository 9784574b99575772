"""A picture's settings inside its PNG, and back.

They travel as JSON in an iTXt chunk (UTF-8), so that quotes, newlines, emoji and right-to-left
text come back as they went in. Other programs' text chunks are left alone.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

from PIL import Image, PngImagePlugin

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


def read_settings(source: bytes | str | Path) -> dict[str, Any]:
    """The settings a PNG of this product carries. Raises `NoSettings` in words."""
    try:
        with Image.open(io.BytesIO(source) if isinstance(source, bytes) else source) as image:
            image.load()  # text chunks may follow the pixels
            text = getattr(image, "text", {}).get(KEY)
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
