"""How a finished picture came to be: enough to resume it from any of its steps.

Nothing is copied for it while a picture is drawn. Committed tokens never change, so a token
sampler's past follows from its end; the points of a flow are tensors that were made anyway.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from models.catalogue import SamplerKind
from models.contracts import SampleSettings
from models.given import GIVEN, Given


@dataclass(frozen=True)
class Trajectory:
    """A finished sample. `path` and `sigmas` are empty for samplers without a flow over all
    tokens (MLP head)."""

    kind: SamplerKind
    settings: SampleSettings
    steps: int
    latent: Tensor  # fp32 [C, h, w]
    committed: Tensor | None = None  # int16 [h, w]: step of each token, `GIVEN`; None: no tokens
    kept: Tensor | None = None  # bool [h, w]: cells of diffusion that were held; None = none
    counts: tuple[int, ...] = ()  # masked tokens before each AR iteration, 0 at the end
    path: tuple[Tensor, ...] = ()  # fp32 [T, C] each: where the flow stood after k steps
    sigmas: tuple[float, ...] = ()  # and at which noise level, `steps + 1` numbers
    global_token: Tensor | None = None  # [1, C]
    estimates: tuple[Tensor, ...] = ()  # [T, C] each: clean tokens foreseen by each step, where
    # they do not follow from the path

    @property
    def nbytes(self) -> int:
        named = (self.latent, self.committed, self.kept, self.global_token)
        tensors = (*named, *self.path, *self.estimates)
        return sum(t.numel() * t.element_size() for t in tensors if t is not None)

    @property
    def rows(self) -> Tensor:
        """The final tokens, fp32 [T, C]."""
        return self.latent.flatten(1).T.contiguous()

    def known(self, step: int) -> Tensor:
        """bool [h, w]: the tokens that were settled after so many steps."""
        if self.committed is not None:
            return (self.committed == GIVEN) | ((self.committed > 0) & (self.committed <= step))
        if self.kept is not None:
            return self.kept
        return torch.zeros_like(self.latent[0], dtype=torch.bool)

    def moment(self, step: int) -> Given:
        """What stood after `step` steps (fewer than all), in terms every sampler understands.

        Settled tokens are kept. Where a flow was under way, its estimate of the clean picture
        is given at the flow's noise level; at full noise there is no estimate and none is needed.
        """
        known = self.known(step)
        sigma = self.sigmas[step] if self.sigmas else 1.0
        if sigma >= 1 or step == 0:
            return Given(self.latent, ~known)
        estimate = self._estimate(step).T.unflatten(1, known.shape)
        return Given(torch.where(known, self.latent, estimate), ~known, strength=sigma)

    def _estimate(self, step: int) -> Tensor:
        """The clean tokens [T, C] that were foreseen after so many steps."""
        if self.estimates:
            return self.estimates[step - 1]
        before, now = self.sigmas[step - 1], self.sigmas[step]
        velocity = (self.path[step] - self.path[step - 1]) / (now - before)  # [T, C]
        return self.path[step] - now * velocity


def same_flow(a: SampleSettings, b: SampleSettings) -> bool:
    """Whether a point on one's flow is a point on the other's: it started from the same noise."""
    return a.seed == b.seed and a.temperature == b.temperature
