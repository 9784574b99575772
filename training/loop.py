"""What every training stage shares: device and precision, averaging, checkpoints, logs, sheets."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel


def autocast(device: torch.device) -> AbstractContextManager[Any]:
    """bf16 arithmetic where the device has units for it; elsewhere fp32 is faster."""
    if device.type == "cuda":
        return torch.autocast("cuda", torch.bfloat16)
    if torch.cpu._is_avx512_bf16_supported():
        return torch.autocast("cpu", torch.bfloat16)
    return nullcontext()


def attention(device: torch.device) -> AbstractContextManager[None]:
    """On CPUs the fused attention's backward pass is slower than plain matrix products."""
    return sdpa_kernel(SDPBackend.MATH) if device.type == "cpu" else nullcontext()


def warmup_cosine(step: int, total: int, warmup: int = 200, floor: float = 0.02) -> float:
    """Learning-rate factor: linear warm-up, then a cosine down to `floor`."""
    if step < warmup:
        return (step + 1) / warmup
    progress = min((step - warmup) / max(total - warmup, 1), 1.0)
    return floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * progress))


class Average:
    """Exponential moving average of a module's parameters, in fp32."""

    def __init__(self, module: nn.Module, decay: float) -> None:
        self.decay = decay
        self.state = {n: p.detach().clone().float() for n, p in module.state_dict().items()}

    @torch.no_grad()
    def update(self, module: nn.Module, step: int) -> None:
        decay = min(self.decay, (1 + step) / (10 + step))  # forget the random start quickly
        ours, theirs = [], []
        for name, value in module.state_dict().items():
            ours.append(self.state[name])
            theirs.append(value.detach().float())
        torch._foreach_lerp_(ours, theirs, 1 - decay)


@dataclass
class Run:
    """A stage's folder: `checkpoint.pt` to resume from, `log.jsonl`, sample sheets.

    `budget_s` ends the stage by wall clock; `steps` by count. Whichever comes first. The schedule
    follows whichever of the two is further along.
    """

    folder: Path
    steps: int
    budget_s: float = math.inf
    save_every_s: float = 120.0
    step: int = 0
    spent_s: float = 0.0
    _started: float = field(default_factory=time.monotonic)
    _saved: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint.pt"

    @property
    def elapsed_s(self) -> float:
        return self.spent_s + time.monotonic() - self._started

    @property
    def progress(self) -> float:
        """0 at the start, 1 when the budget is used up."""
        return min(max(self.step / self.steps, self.elapsed_s / self.budget_s), 1.0)

    def resume(self) -> dict[str, Any] | None:
        """The last checkpoint's states, or None for a fresh start."""
        if not self.checkpoint.exists():
            return None
        saved: dict[str, Any] = torch.load(self.checkpoint, map_location="cpu", weights_only=True)
        self.step, self.spent_s = saved["step"], saved["spent_s"]
        print(f"{self.folder.name}: resuming at step {self.step}", flush=True)
        return saved

    def ticks(self) -> Iterator[int]:
        """Step numbers until the budget is used up. `step` counts the one at work as done, so
        that a checkpoint written during it is not repeated. A stopped process costs no budget."""
        while self.progress < 1.0:
            before, self.step = time.monotonic(), self.step + 1
            yield self.step - 1
            pause = time.monotonic() - before
            if pause > 20:  # no step takes this long: the process was stopped meanwhile
                self._started += pause

    def save(self, force: bool = False, **states: Any) -> None:
        if not force and time.monotonic() - self._saved < self.save_every_s:
            return
        partial = self.checkpoint.with_suffix(".partial")
        torch.save({"step": self.step, "spent_s": self.elapsed_s, **states}, partial)
        partial.replace(self.checkpoint)
        self._saved = time.monotonic()

    def log(self, **values: float) -> None:
        row = {"step": self.step, "seconds": round(self.elapsed_s, 1), **values}
        with (self.folder / "log.jsonl").open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(self.folder.name, json.dumps(row), flush=True)

    def sheet(self, name: str, pictures: Tensor, columns: int = 8) -> None:
        """Write pictures [N, 3, H, W] in 0..1 as one PNG."""
        save_sheet(self.folder / f"{name}.png", pictures, columns)


def averaged(run: Path) -> dict[str, Tensor]:
    """The averaged weights of a run."""
    state: dict[str, Tensor] = torch.load(run / "checkpoint.pt", weights_only=True)["average"]
    return state


def save_sheet(file: Path, pictures: Tensor, columns: int = 8) -> None:
    """Write pictures [N, 3, H, W] in 0..1 as one PNG, `columns` a row."""
    count, _, height, width = pictures.shape
    rows = math.ceil(count / columns)
    sheet = np.ones((rows * height, columns * width, 3), dtype=np.float32)
    for index, picture in enumerate(pictures.float().clamp(0, 1).permute(0, 2, 3, 1).cpu().numpy()):
        row, column = divmod(index, columns)
        sheet[row * height : (row + 1) * height, column * width : (column + 1) * width] = picture
    Image.fromarray((sheet * 255).round().astype(np.uint8)).save(file)
