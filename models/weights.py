"""Reading a weights file: only safetensors, and only if it holds exactly what the model needs.

Errors are for a person with a file in their hands: which file, what was expected, what was found.
They may reach visitors of a public page, so they name files, not the server's folders.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

Shapes = Mapping[str, tuple[int, ...]]


class WeightsError(RuntimeError):
    """A weights file is missing, damaged, or not the one the model needs."""


def shapes_of(module: nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in module.state_dict().items()}


def read_tensors(file: Path, expected: Shapes | None = None) -> dict[str, Tensor]:
    """All tensors of a safetensors file, as stored; with `expected`, if they are exactly those.

    Raises `WeightsError` for a file that is missing, damaged or not the one expected.
    """
    if not file.is_file():
        raise WeightsError(f"{file.name} does not exist. Expected a safetensors file of that name.")
    try:
        with safe_open(file, framework="pt") as stored:
            names = stored.keys()
            if expected is not None:
                found = {name: tuple(stored.get_slice(name).get_shape()) for name in names}
                if problem := difference(expected, found):
                    raise WeightsError(f"{file.name} is not the file this model needs: {problem}")
            return {name: stored.get_tensor(name) for name in names}
    except SafetensorError as error:
        raise WeightsError(
            f"{file.name} ({file.stat().st_size:,} bytes) is not a complete safetensors file "
            f"({error}). It was probably cut off while downloading: delete it and download again."
        ) from None


def read_weights(file: Path, expected: Shapes) -> dict[str, Tensor]:
    """A model's tensors, as stored. Raises `WeightsError` unless they are exactly `expected` and
    floating-point."""
    tensors = read_tensors(file, expected)
    wrong = sorted(name for name, tensor in tensors.items() if not tensor.is_floating_point())
    if wrong:
        kind = str(tensors[wrong[0]].dtype).removeprefix("torch.")
        raise WeightsError(
            f"{file.name}: expected floating-point tensors, but {wrong[0]} is {kind}."
        )
    return tensors


def difference(expected: Shapes, found: Shapes) -> str | None:
    """What is wrong with a file's tensors, in one sentence; None if nothing is."""
    missing, extra = sorted(set(expected) - set(found)), sorted(set(found) - set(expected))
    if missing or extra:
        parts = [f"expected {len(expected)} tensors, found {len(found)}"]
        if missing:
            parts.append(f"{len(missing)} missing, the first {missing[0]!r}")
        if extra:
            parts.append(f"{len(extra)} unknown, the first {extra[0]!r}")
        return "; ".join(parts) + "."
    for name, shape in expected.items():
        if found[name] != shape:
            return f"{name} has shape {list(found[name])}, expected {list(shape)}."
    return None


def load_into(module: nn.Module, tensors: dict[str, Tensor], dtype: torch.dtype) -> nn.Module:
    """Give a module built on the meta device its tensors, in the number type. Buffers stay."""
    module.load_state_dict(
        {name: t.to(dtype) for name, t in tensors.items()}, strict=True, assign=True
    )
    return module.eval().requires_grad_(False)


def random_tensors(expected: Shapes, seed: int = 0) -> dict[str, Tensor]:
    """Random values of sane size under the expected names: for measuring where nothing can be
    downloaded. Pictures made with them mean nothing."""
    generator = torch.Generator().manual_seed(seed)
    tensors = {}
    for name, shape in expected.items():
        if len(shape) >= 2:
            fan_in = max(1, torch.Size(shape[1:]).numel())
            tensors[name] = torch.randn(shape, generator=generator) / fan_in**0.5
        else:
            tensors[name] = torch.full(shape, 1.0 if name.endswith(".weight") else 0.0)
    return tensors
