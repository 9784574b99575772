"""What a picture begins with: nothing, a given picture, or another one's trajectory.

A finished picture's own latent is used wherever it fits, so that what is kept of it is exactly
what was committed; only uploads and pictures of another geometry go through the encoder, once.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from engine.limits import EngineLimits
from engine.lru import Lru
from engine.pictures import Kept
from engine.requests import GenerationRequest, InvalidRequest
from models.catalogue import find_variant
from models.contracts import LoadedVariant, SampleState
from models.given import Given
from models.masks import grown, parse_mask
from models.trajectory import Trajectory


def check_base(request: GenerationRequest, kept: Kept | None) -> None:
    """Whether a resolved request can start from what is kept for it.

    Raises `InvalidRequest`. Another owner's picture and one that is gone look alike.
    """
    if kept is None:
        raise InvalidRequest(
            "The picture to start from is not kept here (any more). Send it again, or draw it "
            "again from its settings."
        )
    if not request.fork_of:
        return
    past = kept.trajectory
    if past is None:
        raise InvalidRequest(
            "This picture was sent, not drawn here, so it has no steps to fork from. Start from it "
            "with `picture` instead."
        )
    drawn_by, wanted = find_variant(kept.variant), find_variant(request.variant)
    if drawn_by.geometry != wanted.geometry:
        raise InvalidRequest(
            f"{wanted.title} cannot go on with a picture of {drawn_by.title}: their latents differ. "
            "Start from the finished picture with `picture` instead."
        )
    if request.fork_step >= past.steps:
        raise InvalidRequest(
            f"This picture has {past.steps} steps, so a fork step is from 0 to {past.steps - 1}; "
            f"got {request.fork_step}."
        )


class Inputs:
    """The worker's alone."""

    def __init__(self, limits: EngineLimits) -> None:
        self._latents: Lru[tuple[str, str, int], Tensor] = Lru(limits.latents_cached)

    def begin(
        self,
        loaded: LoadedVariant,
        request: GenerationRequest,
        base: Kept | None,
        again: Trajectory | None,
        prompt: Any,
        unconditional: Any,
    ) -> SampleState:
        """The sampler's state before the first step that is left to take; none is with `again`,
        the picture itself, which is to be decoded once more."""
        sampler, settings = loaded.sampler, request.settings()
        if again is not None:
            return sampler.resume(
                settings, prompt, unconditional, trajectory=again, step=again.steps
            )
        if base is None:
            return sampler.start(settings, prompt, unconditional)
        if request.fork_of:
            assert base.trajectory is not None, "checked when it was asked for"
            return sampler.resume(
                settings,
                prompt,
                unconditional,
                trajectory=base.trajectory,
                step=request.fork_step,
            )
        mask = grown(parse_mask(request.free, *loaded.variant.shape), request.context)
        latent = self.latent(loaded, base)
        given = Given(latent, torch.from_numpy(mask), request.strength or 1.0)
        return sampler.start(settings, prompt, unconditional, given=given)

    def latent(self, loaded: LoadedVariant, base: Kept) -> Tensor:
        """fp32 [C, h, w] of a kept picture in the variant's geometry."""
        variant = loaded.variant
        if base.trajectory and find_variant(base.variant).geometry == variant.geometry:
            return base.trajectory.latent
        key = (base.name, variant.autoencoder, variant.resolution)
        found = self._latents.get(key)
        if found is None:
            pixels = torch.from_numpy(base.pixels.copy()).permute(2, 0, 1)[None].float() / 255
            side = variant.resolution
            if pixels.shape[2] != side:
                pixels = torch.nn.functional.interpolate(
                    pixels, size=(side, side), mode="bicubic", antialias=True
                ).clamp(0, 1)
            found = loaded.autoencoder.encode(pixels)[0].float()
            self._latents.put(key, found)
        return found
