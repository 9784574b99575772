"""Which device and which number type to run in."""

from __future__ import annotations

import torch


def pick_device(wanted: str | None = None) -> torch.device:
    """The device asked for, else CUDA/ROCm, Apple's MPS, or the CPU, whichever there is first."""
    if wanted:
        return torch.device(wanted)
    if torch.cuda.is_available():
        return torch.device("cuda")
    if torch.backends.mps.is_available():
        return torch.device("mps")
    return torch.device("cpu")


def weights_budget(device: torch.device) -> int | None:
    """Bytes of weights to keep on the device: 80 % of an accelerator's memory, as steps need some
    too. None (no bound) on the CPU, where the system swaps and says so."""
    if device.type != "cuda":
        return None
    return int(0.8 * torch.cuda.get_device_properties(device).total_memory)


def pick_dtype(device: torch.device) -> torch.dtype:
    """bf16 on CUDA/ROCm, fp16 on MPS, fp32 on CPUs (bf16 is 2 to 5 times slower on many)."""
    return {"cuda": torch.bfloat16, "mps": torch.float16}.get(device.type, torch.float32)
