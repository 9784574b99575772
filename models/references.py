"""Pictures and masks as users of code have them, made into what a sampler starts from."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from models.contracts import LoadedVariant
from models.given import STRENGTH_OF_WHOLE, Given
from models.masks import from_picture, grown
from models.photos import as_rgb, fitted

ImageInput = Image.Image | NDArray | Tensor


def given_from(
    loaded: LoadedVariant,
    image: ImageInput,
    mask_image: ImageInput | None,
    strength: float | None,
    context: int,
) -> Given:
    """The start of an edit. `mask_image` is bright where the picture may change.

    `image` is a PIL picture, an array [H, W, 3], a tensor [3, H, W] (uint8, or float in 0..1), or
    a latent [C, h, w] of this variant's, which is used as it is. Others are cropped to a square
    and scaled. Raises `ValueError` for other shapes and for masks that free nothing.
    """
    variant = loaded.variant
    mask = np.ones((variant.grid, variant.grid), dtype=bool)
    if mask_image is not None:
        painted = np.asarray(_square(_pil(mask_image).convert("L")))
        mask = grown(from_picture(painted, variant.grid), context)
    if strength is None:
        strength = STRENGTH_OF_WHOLE if mask_image is None else 1.0
    return Given(_latent(loaded, image), torch.from_numpy(mask), strength)


def _latent(loaded: LoadedVariant, image: ImageInput) -> Tensor:
    """fp32 [C, h, w]"""
    variant = loaded.variant
    grid = (variant.grid, variant.grid)
    if isinstance(image, Tensor) and image.ndim == 3 and image.shape[0] > 4:
        if tuple(image.shape[1:]) != grid:
            raise ValueError(f"A latent of {variant.title} is [C, {grid[0]}, {grid[1]}].")
        return image.float()
    pixels = fitted(as_rgb(_pil(image)), variant.resolution).pixels
    batch = torch.from_numpy(pixels).permute(2, 0, 1)[None].float() / 255
    return loaded.autoencoder.encode(batch)[0].float()


def _pil(image: ImageInput) -> Image.Image:
    if isinstance(image, Image.Image):
        return image
    if isinstance(image, Tensor):
        rows_last = image.permute(1, 2, 0) if image.ndim == 3 else image
        image = (rows_last if image.dtype == torch.uint8 else rows_last.float()).cpu().numpy()
    values = image[:, :, 0] if image.ndim == 3 and image.shape[2] == 1 else image
    if values.ndim not in (2, 3) or (values.ndim == 3 and values.shape[2] not in (3, 4)):
        raise ValueError(f"A picture is [H, W, 3] or [3, H, W], a mask [H, W]; got {image.shape}.")
    if values.dtype != np.uint8:
        values = (np.clip(values.astype(np.float64), 0, 1) * 255).round().astype(np.uint8)
    return Image.fromarray(values)


def _square(image: Image.Image) -> Image.Image:
    """The middle, as `fitted` crops it."""
    width, height = image.size
    side = min(width, height)
    left, top = (width - side) // 2, (height - side) // 2
    return image.crop((left, top, left + side, top + side))
