"""Merging a LoRA adapter into weights once, at load: W + alpha / r * B A.

Reads a folder as PEFT writes it; rank, alpha and targets come from the adapter's own config. Only
what plain linear and 1x1 layers need is supported; anything else is refused in words.
"""

from __future__ import annotations

import json
from pathlib import Path

from torch import Tensor

from models.weights import WeightsError, read_tensors

_PREFIX = "base_model.model."


def merge_lora(weights: dict[str, Tensor], folder: Path) -> dict[str, Tensor]:
    """The weights with the adapter's change added, in fp32. Raises `WeightsError`."""
    config_file = folder / "adapter_config.json"
    if not config_file.is_file():
        raise WeightsError(f"{folder.name} holds no adapter_config.json: it is no PEFT adapter.")
    config = json.loads(config_file.read_text())
    if config.get("peft_type") != "LORA" or config.get("use_dora") or config.get("bias") != "none":
        raise WeightsError(f"{folder.name} is not a plain LoRA adapter without biases.")
    tensors = read_tensors(folder / "adapter_model.safetensors")
    merged, targets = dict(weights), 0
    for name, down in tensors.items():
        if not name.endswith(".lora_A.weight"):
            continue
        layer = name.removeprefix(_PREFIX).removesuffix(".lora_A.weight")
        up = tensors.get(name.replace(".lora_A.", ".lora_B."))
        target = f"{layer}.weight"
        if up is None or target not in weights:
            raise WeightsError(f"{folder.name} changes {target!r}, which this model does not have.")
        scale = _scale(config, layer, rank=down.shape[0])
        change = scale * (up.float().flatten(1) @ down.float().flatten(1))
        if change.numel() != weights[target].numel():
            raise WeightsError(
                f"{folder.name}: the change of {target} has {change.numel()} values, expected "
                f"{weights[target].numel()}."
            )
        merged[target] = weights[target].float() + change.view(weights[target].shape)
        targets += 1
    if targets == 0:
        raise WeightsError(f"{folder.name} holds no LoRA matrices.")
    return merged


def _scale(config: dict, layer: str, rank: int) -> float:
    """alpha / r, or alpha / sqrt(r) where the adapter says so; patterns override alpha."""
    alpha = float(config["lora_alpha"])
    for pattern, value in (config.get("alpha_pattern") or {}).items():
        if layer == pattern or layer.endswith(f".{pattern}"):
            alpha = float(value)
    return alpha / rank**0.5 if config.get("use_rslora") else alpha / rank
