"""What the engine tells about a job. Pixels are raw uint8; readers encode what they use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

FailureKind = Literal["out_of_memory", "broken_picture", "unavailable", "error"]
Pixels = NDArray[np.uint8]  # [H, W, 3]
# [h, w]: the step that committed each token, 0 = still masked, -1 = kept from a given picture
Grid = NDArray[np.int16]
# [tokens, bits], a byte a bit: bit 7 is its value, bits 0 to 6 how sure the clean one is
Bits = NDArray[np.uint8]


@dataclass(frozen=True)
class Timings:
    """Milliseconds since the job was submitted, but for `device_ms` (its share of device time)."""

    queued_ms: float = 0.0
    first_frame_ms: float | None = None
    total_ms: float = 0.0
    device_ms: float = 0.0
    preview_ms: float = 0.0


@dataclass(frozen=True)
class Queued:
    """Waiting. `position` counts the jobs before this one, `expected_wait_s` is an estimate."""

    position: int
    expected_wait_s: float


@dataclass(frozen=True)
class Started:
    """The device has begun. `settings` is the whole resolved request as a plain dict."""

    settings: dict[str, Any]
    steps: int
    weights: str  # "pocket", "official" or "random"
    notes: tuple[str, ...] = ()  # hints for the person: unknown words, truncated prompt


@dataclass(frozen=True)
class Step:
    """One step is done. `preview` is None where none was due."""

    index: int  # from 1
    total: int
    committed: Grid | None
    preview: Pixels | None
    preview_kind: Literal["decoder", "linear"] | None
    timings: Timings
    noise: float | None = None  # of a diffusion, 1 to 0
    bits: Bits | None = None  # of variants with binary tokens


@dataclass(frozen=True)
class Finished:
    """The picture. `picture` is its name for requests that start from it or fork it."""

    image: Pixels
    committed: Grid | None
    seed: int
    settings: dict[str, Any]
    steps: int
    timings: Timings
    picture: str = ""
    bits: Bits | None = None


@dataclass(frozen=True)
class Superseded:
    """A newer job of the same owner and slot took its place, or it was cancelled."""

    reason: Literal["newer", "cancelled", "closed"]


@dataclass(frozen=True)
class Failed:
    """It went wrong. `message` says what happened and what to do, for a person."""

    message: str
    kind: FailureKind = "error"


Event = Queued | Started | Step | Finished | Superseded | Failed
Terminal = Finished | Superseded | Failed
