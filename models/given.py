"""Starting from a picture: what a sampler is given, and how it holds on to what must not change.

A token model's own way to edit is to keep tokens and free others: inpainting frees the cells under
a mask, outpainting those of a border, a variation a random share of all. Which of the free cells
a share takes follows from the generation order, as if the kept tokens were those that the model
would have committed first; so a smaller share frees a part of what a larger one does, and no
random number is drawn for it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

STRENGTH_OF_WHOLE = 0.6  # where a picture is given and nobody says what may change
GIVEN = -1  # in a grid of committed tokens: kept from the picture the sample started from


@dataclass(frozen=True)
class Given:
    """A picture to start from. Tensors may live on any device.

    `strength`, over 0 to 1: token samplers free this share of the free cells; diffusion renoises
    the picture to this level of noise. Raises `ValueError` where nothing would be free.
    """

    latent: Tensor  # fp32 [C, h, w], in the autoencoder's scale
    free: Tensor  # bool [h, w]: cells that may change
    strength: float = 1.0

    def __post_init__(self) -> None:
        if self.latent.shape[1:] != self.free.shape:
            raise ValueError(
                f"A latent of {list(self.latent.shape)} needs a mask of "
                f"{list(self.latent.shape[1:])}, not {list(self.free.shape)}."
            )
        if not 0 < self.strength <= 1:
            raise ValueError(f"strength has to be over 0 and at most 1, not {self.strength}.")
        if not self.free.any():
            raise ValueError("No cell is free: there is nothing to draw.")

    @property
    def rows(self) -> Tensor:
        """The tokens, fp32 [T, C], row-major."""
        return self.latent.float().flatten(1).T.contiguous()


@dataclass(frozen=True)
class Anchor:
    """What holds a picture's kept tokens in place, on the sampler's device."""

    rows: Tensor  # fp32 [T, C]: the given tokens
    free: Tensor  # bool [T, 1]

    @classmethod
    def of(cls, given: Given, free: Tensor, device: torch.device) -> Anchor:
        """`free` is bool [T]; it may be a part of the cells that `given` frees."""
        return cls(given.rows.to(device), free[:, None].to(device))

    def hold(self, values: Tensor) -> Tensor:
        """[T, C] with the kept tokens put back, exactly as far as the number type goes."""
        return torch.where(self.free, values, self.rows.to(values.dtype))

    def hold_noised(self, z: Tensor, sigma: float, noise: Tensor) -> Tensor:
        """fp32 [T, C] with the kept tokens put back at a noise level of the rectified flow."""
        return torch.where(self.free, z, (1 - sigma) * self.rows + sigma * noise)


def open_order(order: Tensor, given: Given | None) -> Tensor:
    """The part of a generation order (int64 [T], CPU) that is free: the first entries, which are
    revealed last, up to the share that `strength` says. At least one cell."""
    if given is None:
        return order
    free = order[given.free.flatten().cpu()[order]]
    return free[: max(1, round(given.strength * len(free)))]


@dataclass(frozen=True)
class Opening:
    """What a token sampler begins with. All but the count live on the mask token's device."""

    order: Tensor  # int64 [free tokens]; the first entries are revealed last
    tokens: Tensor  # [T, C]: the mask token, or the picture's where that is kept
    committed_at: Tensor  # int16 [T]: 0 = masked, GIVEN = kept
    anchor: Anchor | None
    iterations: int

    @classmethod
    def of(cls, given: Given | None, order: Tensor, mask_token: Tensor, iterations: int) -> Opening:
        """`order` is the whole picture's, int64 [T] on the CPU; `mask_token` is [1, C];
        `iterations` are those of a whole picture."""
        total, device = len(order), mask_token.device
        tokens = mask_token.expand(total, -1).clone()
        committed = torch.zeros(total, dtype=torch.int16, device=device)
        order, anchor = open_order(order, given), None
        if given is not None:
            free = torch.zeros(total, dtype=torch.bool).index_fill_(0, order, True)
            anchor = Anchor.of(given, free, device)
            tokens = anchor.hold(tokens)
            committed.masked_fill_(~anchor.free[:, 0], GIVEN)
        iterations = scaled_iterations(iterations, len(order), total)
        return cls(order.to(device), tokens, committed, anchor, iterations)


def scaled_iterations(iterations: int, free: int, tokens: int) -> int:
    """AR iterations for `free` of `tokens` cells: in proportion, and never one without a token."""
    if free == tokens:
        return iterations
    return max(1, min(free, math.ceil(iterations * free / tokens)))
