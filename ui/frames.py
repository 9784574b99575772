"""The binary stream: one length-prefixed message per engine event.

    4 bytes  header length, big endian
    4 bytes  body length, big endian (0 = no picture)
    header   JSON: {"slot", "event", ...}
    body     JPEG

Plain enough for a browser to read with two lines of DataView.
"""

from __future__ import annotations

import base64
import io
import json
import struct
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from PIL import Image

from engine.events import Event, Failed, Finished, Pixels, Queued, Started, Step, Superseded

PREFIX = struct.Struct(">II")
STEP_QUALITY = 85
FINISHED_QUALITY = 95  # the picture people look at longest


def pack(header: dict[str, Any], body: bytes = b"") -> bytes:
    """One message. The header is ASCII-escaped, so that it can hold any text there is."""
    head = json.dumps(header, ensure_ascii=True, separators=(",", ":")).encode()
    return PREFIX.pack(len(head), len(body)) + head + body


def unpack(data: bytes) -> Iterator[tuple[dict[str, Any], bytes]]:
    """All messages of a finished stream. Raises `ValueError` when it ends inside one."""
    at = 0
    while at < len(data):
        if len(data) - at < PREFIX.size:
            raise ValueError(f"The stream ends inside a prefix, {len(data) - at} bytes left.")
        head, body = PREFIX.unpack_from(data, at)
        at += PREFIX.size
        if len(data) - at < head + body:
            raise ValueError(f"The stream ends inside a message of {head} + {body} bytes.")
        yield json.loads(data[at : at + head]), data[at + head : at + head + body]
        at += head + body


def jpeg(pixels: Pixels, quality: int = STEP_QUALITY) -> bytes:
    """Small pictures keep their full colour resolution: Pocket's edges are colour edges."""
    out = io.BytesIO()
    subsampling = 0 if max(pixels.shape[:2]) <= 256 or quality > 90 else 2
    Image.fromarray(pixels).save(out, "JPEG", quality=quality, subsampling=subsampling)
    return out.getvalue()


def describe(event: Event) -> tuple[dict[str, Any], Pixels | None, int]:
    """An event as a header, with the pixels to send and their quality. Encodes nothing."""
    match event:
        case Queued():
            return {"event": "queued", **asdict(event)}, None, 0
        case Started():
            return {"event": "started", **asdict(event)}, None, 0
        case Step():
            header = {
                "event": "step",
                "index": event.index,
                "total": event.total,
                "committed": _grid(event.committed),
                "preview_kind": event.preview_kind,
                "noise": event.noise,
                **_bits(event.bits),
                "timings": asdict(event.timings),
            }
            return header, event.preview, STEP_QUALITY
        case Finished():
            header = {
                "event": "finished",
                "committed": _grid(event.committed),
                "seed": event.seed,
                "settings": event.settings,
                "steps": event.steps,
                "timings": asdict(event.timings),
                "picture": event.picture,
                **_bits(event.bits),
            }
            return header, event.image, FINISHED_QUALITY
        case Superseded():
            return {"event": "superseded", "reason": event.reason}, None, 0
        case Failed():
            return {"event": "failed", "message": event.message}, None, 0


def _grid(committed: Any) -> list[list[int]] | None:
    return None if committed is None else committed.tolist()


def _bits(bits: Any) -> dict[str, Any]:
    """Binary tokens as base64, a byte a bit, row by row; nothing where there are none."""
    if bits is None:
        return {}
    return {"bits": base64.b64encode(bits.tobytes()).decode(), "bits_shape": list(bits.shape)}
