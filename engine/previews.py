"""Previews: which kind is worth its time, and making them.

A preview may take a set share of its picture's device time, counted per picture. Within it the
real decoder is preferred, then the cheap way (a linear map, or a small decoder where the
autoencoder comes with one); where not even that fits at every step, previews
thin out. There is none at the last step, where the picture itself follows at once.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from engine.clock import Clock
from engine.events import Pixels
from engine.limits import EngineLimits
from engine.linear import LinearPreview, TrainedPreview, practice_pictures, veil
from engine.requests import PreviewMode
from models.contracts import LoadedVariant
from models.pixels import to_pixels

PreviewKind = Literal["decoder", "linear"]

_log = logging.getLogger(__name__)
_PRACTICE_S = 2.0  # at most this long is spent on practice pictures at start
_PENDING = 4  # finished pictures kept to learn from when the device is idle


@dataclass(frozen=True)
class PreviewSituation:
    """What a decision depends on: one picture, after one of its steps. Times in seconds."""

    mode: PreviewMode
    every: int
    step: int  # from 1
    steps: int
    device_s: float  # its share of device time so far, previews not counted
    preview_s: float
    decoder_cost_s: float | None  # None = cannot
    linear_cost_s: float | None


def due(now: PreviewSituation) -> bool:
    """Whether the settings ask for a preview after this step."""
    wanted = now.mode != "off" and now.every > 0
    return wanted and now.step < now.steps and now.step % now.every == 0


def choose(now: PreviewSituation, share: float) -> PreviewKind | None:
    """The best preview that keeps the picture's previews within their share, if one is due."""
    if not due(now):
        return None
    left = (now.steps - 1) // now.every - (now.step // now.every) + 1  # this one included
    budget = share * now.device_s * now.steps / now.step

    def fits(cost: float, pictures: int) -> bool:
        return now.preview_s + cost * pictures <= budget

    decoder, linear = now.decoder_cost_s, now.linear_cost_s
    if now.mode == "auto" and decoder is not None and fits(decoder, left):
        return "decoder"
    if linear is None:
        return None
    on_pace = now.preview_s + linear <= budget * now.step / now.steps
    return "linear" if fits(linear, left) or on_pace else None


class Previews:
    """Makes previews and keeps the linear maps, one per autoencoder. The worker's alone."""

    def __init__(self, limits: EngineLimits, clock: Clock) -> None:
        self._limits = limits
        self._clock = clock
        self._maps: dict[str, LinearPreview | TrainedPreview] = {}
        self._pending: deque[tuple[LoadedVariant, Tensor, Tensor]] = deque(maxlen=_PENDING)

    def costs(self, variant_id: str, autoencoder: str) -> tuple[float | None, float | None]:
        """Seconds for one preview by the decoder and by the map; None where there is none yet."""
        ready = autoencoder in self._maps and self._maps[autoencoder].ready
        linear = (self._clock.linear[variant_id].value or 0.0) if ready else None
        return self._clock.decode[variant_id].value, linear

    def declined(self, variant_id: str) -> None:
        """A preview was due and looked too dear; it will be tried again some time."""
        self._clock.linear[variant_id].relax()

    def make(
        self,
        kind: PreviewKind,
        loaded: LoadedVariant,
        latents: Tensor,
        shown: Tensor | None,
    ) -> list[Pixels]:
        """One preview per latent [N, C, h, w], all in one go; measures what it took.

        `shown` is bool [N, h, w]: tokens that are there; None = all.
        """
        begin = time.perf_counter()
        if kind == "decoder":
            pixels = veil(loaded.autoencoder.decode(latents), shown)
        else:
            pixels = self._maps[loaded.variant.autoencoder].render(latents, shown)
        out = to_pixels(_sized(pixels, loaded.variant.resolution, self._limits.preview_pixels))
        if kind == "linear":
            each = (time.perf_counter() - begin) / len(out)
            self._clock.linear[loaded.variant.id].add(each)
        return out

    # ---- learning ----

    def practise(self, loaded: LoadedVariant) -> None:
        """Learn from made-up pictures, so that the very first picture has previews."""
        variant = loaded.variant
        begin = time.perf_counter()
        for picture in practice_pictures(24, variant.resolution, variant.grid or 8)[:, None]:
            if time.perf_counter() - begin > _PRACTICE_S:
                return
            try:
                latents = loaded.autoencoder.encode(picture)
            except Exception:  # not every autoencoder comes with its encoder
                _log.info("%s has no encoder to practise previews with", variant.autoencoder)
                return
            if not self.learn(loaded, latents, picture):
                return

    def remember(self, loaded: LoadedVariant, latents: Tensor, pixels: Tensor) -> None:
        """A finished picture to learn from, when there is time."""
        known = self._maps.get(loaded.variant.autoencoder)
        if known is None or known.learning:
            self._pending.append((loaded, latents, pixels))

    def learn_pending(self) -> bool:
        """Learn from one remembered picture; false if there is none. Call when idle."""
        if not self._pending:
            return False
        self.learn(*self._pending.popleft())
        return True

    def forget(self, variant_id: str) -> None:
        """Keep nothing of a variant that was dropped; its autoencoder's map stays."""
        kept = [item for item in self._pending if item[0].variant.id != variant_id]
        self._pending = deque(kept, maxlen=_PENDING)

    def learn(self, loaded: LoadedVariant, latents: Tensor, pixels: Tensor) -> bool:
        """Teach the map a decoded picture now; false once it has learnt enough."""
        variant = loaded.variant
        known = self._maps.get(variant.autoencoder)
        if known is None:
            known = self._maps[variant.autoencoder] = self._cheap(loaded, latents, pixels)
        known.learn(latents, pixels)
        return known.learning

    def _cheap(
        self, loaded: LoadedVariant, latents: Tensor, pixels: Tensor
    ) -> LinearPreview | TrainedPreview:
        if loaded.preview is not None:
            return TrainedPreview(loaded.preview)
        return LinearPreview(
            channels=latents.shape[1],
            pixels_per_token=pixels.shape[-1] // latents.shape[-1],
            resolution=loaded.variant.resolution,
            limit=self._limits.preview_pixels,
        )


def _sized(pixels: Tensor, resolution: int, limit: int) -> Tensor:
    """At the picture's size, or at the preview limit where the picture is larger."""
    size = min(resolution, limit)
    if pixels.shape[-1] == size:
        return pixels
    mode = "area" if pixels.shape[-1] > size else "bilinear"
    return torch.nn.functional.interpolate(pixels, size=(size, size), mode=mode)
