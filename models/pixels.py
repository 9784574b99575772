"""Pictures as the rest of the world wants them: 8 bits a channel, on the host."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor


def to_pixels(
    pictures: Tensor, rounding: Literal["truncate", "round"] = "truncate"
) -> list[NDArray[np.uint8]]:
    """[N, 3, H, W] in 0..1 to N arrays uint8 [H, W, 3].

    Nitro-AR's published pipeline truncates, Nitro-E's rounds.
    """
    values = pictures.float().clamp(0, 1) * 255
    whole = (values.round() if rounding == "round" else values).byte()
    return list(whole.permute(0, 2, 3, 1).contiguous().cpu().numpy())
