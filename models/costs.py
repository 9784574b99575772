"""How much arithmetic a picture takes, as an estimate from a handful of counted coefficients.

`benchmarks.flop_parts` counts them; a test holds them to what the counter says today. Text is left
out: it is read once per prompt and kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from models.catalogue import Variant


@dataclass(frozen=True)
class Cost:
    """GFLOP (2 per multiply-add). All but `decode` are for one branch of guidance."""

    base: float
    per_iteration: float
    per_flow_step: float
    per_both: float  # for each flow step of each AR iteration
    decode: float


COSTS: Mapping[str, Cost] = MappingProxyType(
    {
        "pocket-ar": Cost(0.059843, 0.15591, 0.081961, 0.0, 1.392),
        "pocket-ar-joint": Cost(0.00069184, 0.18865, 0.0013107, 0.13096, 1.392),
        "pocket-e": Cost(0.0, 0.0, 0.18994, 0.0, 1.392),
        "pocket-e-dist": Cost(0.0, 0.0, 0.18994, 0.0, 1.392),
        "pocket-instella": Cost(0.16249, 0.0, 0.0, 0.0, 0.36569),
        "nitro-ar-gan": Cost(5.3662, 79.375, 12.71, 0.0, 2092.2),
        "nitro-ar-joint-gan": Cost(4.5834, 82.355, 0.1755, 45.726, 2092.2),
        "nitro-e": Cost(0.0, 0.0, 79.841, 0.0, 2092.2),
        "nitro-e-dist": Cost(0.0, 0.0, 79.841, 0.0, 2092.2),
        "nitro-e-grpo": Cost(0.0, 0.0, 79.841, 0.0, 2092.2),
        "nitro-e-1024": Cost(0.0, 0.0, 244.62, 0.0, 8368.6),
        "instella-diffusion": Cost(0.0, 0.0, 209.33, 0.0, 481.79),
        "instella-ar": Cost(207.83, 0.0, 0.0, 0.0, 481.79),
    }
)


def estimate_gflop(
    variant: Variant, ar_iterations: int, flow_steps: int, cfg_scale: float
) -> float | None:
    """GFLOP of one picture; None for a variant nobody has counted."""
    cost = COSTS.get(variant.id)
    if cost is None:
        return None
    branch = (
        cost.base
        + cost.per_iteration * ar_iterations
        + cost.per_flow_step * flow_steps
        + cost.per_both * ar_iterations * flow_steps
    )
    return (2 if cfg_scale != 1.0 else 1) * branch + cost.decode
