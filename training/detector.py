"""What is in a picture of the Pocket world: a detector that knows the sprites and no model.

Template matching. Every object, untinted and in every tint, is pasted on the picture's own
background colour at each size of the world; a template fits a place as well as its mean squared
difference from the picture there is small. The best fits that do not overlap are the detections.
Nothing here was learnt from generated pictures.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from training.world.render import sprite
from training.world.scenes import CANVAS, WorldConfig
from training.world.vocabulary import COLOURS, OBJECTS, TINTS

SIZES = (*WorldConfig.single_sizes, WorldConfig.group_size)
SCALE = 4  # templates and pictures are compared at a quarter of the size
# A place counts as an object if its best template explains this share of what differs from the
# background there.
ACCEPT = 0.45


@dataclass(frozen=True)
class Detection:
    """One object found: centre in pixels, size, and the share of the difference explained."""

    name: str
    tint: str | None
    x: float
    y: float
    size: int
    fit: float


@dataclass(frozen=True)
class Found:
    """All that was found in a picture."""

    background: str
    items: tuple[Detection, ...]


def background_of(picture: NDArray[np.float32]) -> tuple[str, NDArray[np.float32]]:
    """The named colour nearest to the median of the picture's border, and that median."""
    border = np.concatenate(
        [picture[:3].reshape(-1, 3), picture[-3:].reshape(-1, 3), picture[:, :3].reshape(-1, 3),
         picture[:, -3:].reshape(-1, 3)]
    )  # fmt: skip
    median = np.median(border, axis=0)
    distances = {
        name: float(np.abs(median - np.array(rgb) / 255).sum()) for name, rgb in COLOURS.items()
    }
    return min(distances, key=distances.__getitem__), median.astype(np.float32)


@dataclass
class _Templates:
    """All templates of one size: premultiplied colours and alphas, at the working scale."""

    size: int
    names: list[str]
    tints: list[str | None]
    colour: Tensor  # [K, 3, s, s]
    alpha: Tensor  # [K, 1, s, s]


@dataclass
class Detector:
    """Finds the world's objects. Build once; `find` takes a picture RGB in 0..1, [128, 128, 3]."""

    tinted: bool = True
    _templates: list[_Templates] = field(default_factory=list)

    def __post_init__(self) -> None:
        for size in SIZES:
            labels = [(name, None) for name in OBJECTS]
            if self.tinted:
                labels += [(name, tint) for name in OBJECTS for tint in TINTS]
            stamps = np.stack([_shrunk(sprite(name, size, tint)) for name, tint in labels])
            stack = torch.from_numpy(stamps).permute(0, 3, 1, 2)
            self._templates.append(
                _Templates(
                    size,
                    [name for name, _ in labels],
                    [tint for _, tint in labels],
                    stack[:, :3].contiguous(),
                    stack[:, 3:].contiguous(),
                )
            )

    @torch.inference_mode()
    def find(self, picture: NDArray[np.float32]) -> Found:
        """Objects by falling fit, none overlapping another by more than a third of its box."""
        background, median = background_of(picture)
        small = torch.from_numpy(_shrunk(picture)).permute(2, 0, 1)  # [3, 32, 32]
        difference = small - torch.from_numpy(median)[:, None, None]
        candidates = [
            detection
            for templates in self._templates
            for detection in _matches(difference, torch.from_numpy(median), templates)
        ]
        kept: list[Detection] = []
        for candidate in sorted(candidates, key=lambda d: -d.fit):
            if all(_apart(candidate, other) for other in kept):
                kept.append(candidate)
        return Found(background, tuple(kept))


def _shrunk(picture: NDArray[np.float32]) -> NDArray[np.float32]:
    """The mean over SCALE x SCALE pixels; the size is rounded down to whole cells."""
    side = picture.shape[0] // SCALE
    trimmed = torch.from_numpy(np.ascontiguousarray(picture)).permute(2, 0, 1)[None]
    small = F.interpolate(trimmed, size=(side, side), mode="area")
    return small[0].permute(1, 2, 0).numpy()


def _matches(difference: Tensor, median: Tensor, templates: _Templates) -> list[Detection]:
    """Places where a template of this size explains enough of what is not background.

    With d the picture minus the background and t the template minus the background (zero outside
    the glyph), the squared error over the box is |d|^2 - 2 d.t + |t|^2; its share of |d|^2 that
    is gone is the fit.
    """
    shape = templates.colour - templates.alpha * median[None, :, None, None]  # [K, 3, s, s]
    side = shape.shape[-1]
    energy = F.conv2d(difference.square()[None], torch.ones(1, 3, side, side))[0, 0]  # [h, w]
    product = F.conv2d(difference[None], shape)[0]  # [K, h, w]
    own = shape.square().sum((1, 2, 3))[:, None, None]
    fit = (2 * product - own) / energy.clamp(min=0.02 * side * side * 0.1)
    best, which = fit.max(0)
    found = []
    flat = best.flatten()
    for index in flat.argsort(descending=True)[:12].tolist():
        if flat[index] < ACCEPT:
            break
        row, column = divmod(index, best.shape[1])
        k = int(which[row, column])
        centre_x, centre_y = (column + side / 2) * SCALE, (row + side / 2) * SCALE
        found.append(
            Detection(
                templates.names[k], templates.tints[k], centre_x, centre_y, templates.size,
                float(flat[index]),
            )
        )  # fmt: skip
    return found


def _apart(a: Detection, b: Detection) -> bool:
    reach = (a.size + b.size) / 2
    overlap_x = max(0.0, reach - abs(a.x - b.x))
    overlap_y = max(0.0, reach - abs(a.y - b.y))
    return overlap_x * overlap_y < min(a.size, b.size) ** 2 / 3


assert CANVAS % SCALE == 0
