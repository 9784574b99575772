"""The goldens' fill rule: weights, inputs and orders from one integer hash, exact everywhere."""

from __future__ import annotations

import json
import math
import zlib
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

FOLDER = Path(__file__).parent / "golden"


def uniform(name: str, count: int) -> np.ndarray:
    """u(name, i) in -1..1 for i < count, float64."""
    h = np.arange(count, dtype=np.uint64) + zlib.crc32(name.encode())
    h &= 0xFFFFFFFF
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        h ^= h >> np.uint64(shift)
        h = (h * np.uint64(factor)) & np.uint64(0xFFFFFFFF)
    h ^= h >> np.uint64(16)
    return (h.astype(np.float64) + 0.5) / 2**31 - 1


def rule_input(name: str, *shape: int) -> Tensor:
    """Zero mean, unit variance."""
    values = math.sqrt(3) * uniform(name, math.prod(shape))
    return torch.from_numpy(values.astype(np.float32)).view(shape)


def rule_value(name: str, shape: torch.Size) -> Tensor:
    """What the rule puts into a parameter of this name."""
    values = uniform(name, shape.numel())
    if len(shape) >= 2:
        values = values * math.sqrt(3 / math.prod(shape[1:]))
    elif name.endswith(".weight"):
        values = 1 + 0.1 * values
    else:
        values = 0.1 * values
    return torch.from_numpy(values.astype(np.float32)).view(shape)


def fill(module: nn.Module, prefix: str = "") -> nn.Module:
    """Fill every parameter by the rule, in place."""
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.copy_(rule_value(prefix + name, parameter.shape))
    return module.eval()


def rule_order(row: int, tokens: int = 256) -> Tensor:
    """Generation order of a batch row."""
    return (77 * torch.arange(tokens) + 13 + 31 * row) % tokens


def golden(name: str) -> dict[str, Tensor]:
    return load_file(FOLDER / f"{name}.safetensors")


def golden_rule(name: str) -> dict:
    return json.loads((FOLDER / f"{name}.json").read_text())


def deviation(made: Tensor, expected: Tensor) -> float:
    """max |diff| / max |reference|; the goldens are held to 1e-4 in fp32."""
    assert made.shape == expected.shape, (made.shape, expected.shape)
    return float((made.detach().double() - expected.double()).abs().max() / expected.abs().max())
