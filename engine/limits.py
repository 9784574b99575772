"""What the engine may use, in one place. Every bound it keeps is a number here."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class EngineLimits:
    """Bounds on batches, queues, caches and memory.

    `pictures_*` bound what is kept to start from: uploads, and finished pictures with their
    trajectories (whose tensors stay on the device), for each owner and for all of them.

    `memory_bytes` bounds the weights held on the device (None = no bound); `preview_share` is the
    part of a picture's device time its previews may take.
    """

    max_batch: int = 8
    queue_size: int = 512
    queue_per_owner: int = 128
    columns_together: int = 4  # variants of one owner that stream side by side
    prompts_cached: int = 128
    contexts_cached: int = 64
    conditioning_bytes: int = 512 * 2**20  # of each of these two
    results_cached: int = 128
    results_bytes: int = 64 * 2**20
    pictures_per_owner: int = 96  # more than one request may ask for
    pictures_bytes_per_owner: int = 128 * 2**20
    pictures_bytes: int = 512 * 2**20
    latents_cached: int = 64  # of pictures that were encoded
    memory_bytes: int | None = None
    preview_share: float = 0.08
    preview_pixels: int = 256

    def __post_init__(self) -> None:
        for name in ("max_batch", "queue_size", "queue_per_owner", "columns_together"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} has to be at least 1; got {getattr(self, name)}.")
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and value < 0:
                raise ValueError(f"{field.name} must not be negative; got {value}.")
