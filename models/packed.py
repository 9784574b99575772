"""Weights in 8 bits: how Pocket's models are stored, so that all of them fit into the product.

A matrix is kept as int8 with one fp32 scale per output row (`<name>.row_scale`), which rounds each
weight by at most half a 127th of its row's largest. Everything else is fp16. When read, the tensors
have their official names and shapes again and are ordinary floats: nothing computes in 8 bits.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from models.weights import Shapes, WeightsError, difference, read_tensors

SCALE = ".row_scale"
FILE = "packed.safetensors"  # in a model's folder, in place of the library's own file
_LEVELS = 127
_SMALL = 4096  # values; below, a scale per row would save nothing worth having


def pack(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Float tensors as they are stored. Raises `ValueError` for values that are not finite."""
    out: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if not tensor.isfinite().all():
            raise ValueError(f"{name} has values that are not numbers.")
        if tensor.ndim < 2 or tensor.numel() < _SMALL:
            out[name] = tensor.half().contiguous()
            continue
        rows = tensor.float().flatten(1)  # [rows, columns]
        scale = rows.abs().amax(1) / _LEVELS
        scale = torch.where(scale == 0, torch.ones_like(scale), scale)
        levels = (rows / scale[:, None]).round().clamp(-_LEVELS, _LEVELS)
        out[name] = levels.to(torch.int8).view(tensor.shape).contiguous()
        out[name + SCALE] = scale
    return out


def unpack(stored: dict[str, Tensor]) -> dict[str, Tensor]:
    """The inverse of `pack`; tensors without a scale come back as they are.

    Raises `ValueError` for a scale without its matrix, a matrix without its scale, or a pair that
    does not fit together.
    """
    out = {name: t for name, t in stored.items() if not name.endswith(SCALE)}
    for name in stored:
        if name.endswith(SCALE) and name.removesuffix(SCALE) not in out:
            raise ValueError(f"{name} belongs to a matrix that is not there.")
    for name, tensor in out.items():
        scale = stored.get(name + SCALE)
        if (scale is None) != (tensor.dtype != torch.int8):
            raise ValueError(f"{name} is {_kind(tensor)}, and 8-bit matrices alone have a scale.")
        if scale is None:
            continue
        if tensor.ndim < 2 or scale.shape != tensor.shape[:1] or not scale.is_floating_point():
            raise ValueError(f"{name} of {list(tensor.shape)} has a scale of {list(scale.shape)}.")
        broad = scale.float().view(-1, *(1,) * (tensor.ndim - 1))
        out[name] = tensor.float() * broad
    return out


def tables_of(module: nn.Module) -> dict[str, Tensor]:
    """A model's tensors that are computed and not learnt (position codes); real ones also where the
    module is on the meta device. A file need not hold them."""
    names = module.state_dict().keys()
    return {n: b for n, b in module.named_buffers() if n in names and not b.is_meta}


def read_packed(
    file: Path, expected: Shapes, tables: dict[str, Tensor] | None = None
) -> dict[str, Tensor]:
    """A model's tensors from a file of `pack`, or one of plain floats. Those of `tables` may be
    missing there.

    Raises `WeightsError`, in words for a person, unless they are exactly `expected`.
    """
    try:
        tensors = {**(tables or {}), **unpack(read_tensors(file))}
    except ValueError as error:
        raise WeightsError(f"{file.name} is damaged: {error}") from None
    if problem := difference(expected, {name: tuple(t.shape) for name, t in tensors.items()}):
        raise WeightsError(f"{file.name} is not the file this model needs: {problem}")
    wrong = sorted(name for name, tensor in tensors.items() if not tensor.is_floating_point())
    if wrong:
        raise WeightsError(
            f"{file.name}: expected floating-point tensors, but {wrong[0]} is {_kind(tensors[wrong[0]])}."
        )
    return tensors


def _kind(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
