"""How the Instella goldens' weights and inputs are rebuilt: their own rule, exact everywhere."""

from __future__ import annotations

import math
import zlib

import numpy as np
import torch
from torch import Tensor, nn


def uniform(name: str, *shape: int) -> np.ndarray:
    """u in 0..1, float64: murmur3's finaliser of index plus the name's checksum."""
    h = np.arange(math.prod(shape), dtype=np.uint64) + zlib.crc32(name.encode())
    h &= 0xFFFFFFFF
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        h ^= h >> np.uint64(shift)
        h = (h * np.uint64(factor)) & np.uint64(0xFFFFFFFF)
    h ^= h >> np.uint64(16)
    return (h.astype(np.float64) / 2**32).reshape(shape)


def picture(name: str, *shape: int) -> Tensor:
    """Pixels in -1..1."""
    return torch.from_numpy((2 * uniform(name, *shape) - 1).astype(np.float32))


def coins(name: str, *shape: int) -> Tensor:
    """Fair bits."""
    return torch.from_numpy((uniform(name, *shape) < 0.5).astype(np.float32))


def fill(module: nn.Module) -> nn.Module:
    """Fill every parameter by the rule, in place."""
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            values = 2 * uniform(name, *parameter.shape) - 1
            if name.endswith(".weight") and parameter.ndim >= 2:
                values = values * math.sqrt(3 / math.prod(parameter.shape[1:]))
            elif name.endswith(".weight"):
                values = 1 + 0.1 * values
            else:
                values = 0.5 * values
            parameter.copy_(torch.from_numpy(values.astype(np.float32)))
    return module.eval()
