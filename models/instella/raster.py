"""Bits as a picture of their own: one byte a bit, its value and how sure it is."""

from __future__ import annotations

import torch
from torch import Tensor


def raster_of(bits: Tensor, certainty: Tensor) -> Tensor:
    """uint8 [tokens, bits]: bit 7 is the value, bits 0 to 6 the certainty, 0 to 127.

    `bits` are 0 or 1; `certainty` is in 0..1: |2 p - 1| of the probability p that it is 1.
    """
    sure = (certainty.clamp(0, 1) * 127).round()
    return (bits * 128 + sure).to(torch.uint8)
