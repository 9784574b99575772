"""Muon for matrices, AdamW for the rest.

Muon (Jordan et al., 2024) orthogonalises the momentum of each weight matrix with a Newton-Schulz
iteration. Matrices of one shape are stacked and iterated together, in the precision the device is
quick in; torch's own version insists on bf16, which is unusable on CPUs without bf16 units.
"""

from __future__ import annotations

from collections import defaultdict

import torch
from torch import Tensor, nn

_COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # the quintic of the original, tuned for slope at zero


def orthogonalised(batch: Tensor, dtype: torch.dtype, steps: int = 5) -> Tensor:
    """The nearest semi-orthogonal matrices, roughly: [n, rows, columns] -> the same, in fp32."""
    a, b, c = _COEFFICIENTS
    x = batch.to(dtype)
    tall = x.shape[1] > x.shape[2]
    if tall:
        x = x.mT
    x = x / (x.float().norm(dim=(1, 2), keepdim=True).to(dtype) + 1e-7)
    for _ in range(steps):
        square = x @ x.mT
        x = a * x + (b * square + c * square @ square) @ x
    return (x.mT if tall else x).float()


class MuonAdamW(torch.optim.Optimizer):
    """Hidden matrices by Muon; embeddings, norms, biases, in- and output layers by AdamW.

    Both use one learning rate: Muon's update is scaled to the root mean square AdamW's has.
    """

    def __init__(
        self, modules: list[nn.Module], lr: float, by_adam: set[str], weight_decay: float = 0.01
    ) -> None:
        matrices, others = [], []
        for module in modules:
            for name, parameter in module.named_parameters():
                if not parameter.requires_grad:
                    continue
                hidden = parameter.ndim >= 2 and not any(part in name for part in by_adam)
                (matrices if hidden else others).append(parameter)
        groups = [{"params": matrices, "muon": True}, {"params": others, "muon": False}]
        super().__init__(groups, {"lr": lr, "weight_decay": weight_decay})
        self.count = 0
        half = matrices[0].device.type == "cuda" or torch.cpu._is_avx512_bf16_supported()
        self.dtype = torch.bfloat16 if half else torch.float32

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        self.count += 1
        for group in self.param_groups:
            parameters = [p for p in group["params"] if p.grad is not None]
            torch._foreach_mul_(parameters, 1 - group["lr"] * group["weight_decay"])
            if group["muon"]:
                self._muon(parameters, group["lr"])
            else:
                self._adam(parameters, group["lr"])

    def _muon(self, parameters: list[Tensor], lr: float, momentum: float = 0.95) -> None:
        by_shape: dict[tuple[int, int], list[Tensor]] = defaultdict(list)
        for parameter in parameters:
            by_shape[(parameter.shape[0], parameter[0].numel())].append(parameter)
        for (rows, columns), members in by_shape.items():
            updates = []
            for parameter in members:
                state = self.state[parameter]
                if "momentum" not in state:
                    state["momentum"] = torch.zeros_like(parameter)
                state["momentum"].lerp_(parameter.grad, 1 - momentum)
                updates.append(parameter.grad.lerp(state["momentum"], momentum).flatten(1))
            directions = orthogonalised(torch.stack(updates), self.dtype)
            scale = 0.2 * max(rows, columns) ** 0.5
            for parameter, direction in zip(members, directions, strict=True):
                parameter.sub_(direction.view_as(parameter), alpha=lr * scale)

    def _adam(self, parameters: list[Tensor], lr: float) -> None:
        betas, eps = (0.9, 0.98), 1e-8
        for parameter in parameters:
            state = self.state[parameter]
            if "first" not in state:
                state["first"] = torch.zeros_like(parameter)
                state["second"] = torch.zeros_like(parameter)
            state["first"].lerp_(parameter.grad, 1 - betas[0])
            state["second"].lerp_(parameter.grad.square(), 1 - betas[1])
            first = state["first"] / (1 - betas[0] ** self.count)
            second = state["second"] / (1 - betas[1] ** self.count)
            parameter.addcdiv_(first, second.sqrt() + eps, value=-lr)

    def state_dict(self) -> dict:
        return {**super().state_dict(), "count": self.count}

    def load_state_dict(self, state_dict: dict) -> None:
        self.count = state_dict["count"]
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "count"})
