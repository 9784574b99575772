"""What the page and the command line say about variants: the engine's answers as plain JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from engine.costs import COSTS
from engine.requests import (
    CFG_RANGE,
    MAX_CONTEXT,
    MAX_COUNT,
    MAX_PROMPT_CHARACTERS,
    MAX_SEED,
    STRENGTH_OF_WHOLE,
    STRENGTH_RANGE,
    TEMPERATURE_RANGE,
)

POCKET_EXAMPLES = (
    "a fox on a blue background",
    "a cat left of a dog",
    "three bananas on a purple background",
    "a rocket on black",
)
EXAMPLES = (
    "a red fox in fresh snow, morning light",
    "a glass teapot with jasmine flowers, studio photograph",
    "a lighthouse on a cliff in a storm, oil painting",
    "a bowl of ramen seen from above",
)


def cards(engine: Any) -> list[dict[str, Any]]:
    """One card per variant served: catalogue entry, state, weights, message."""
    states = {entry.id: entry for entry in engine.status().variants}
    return [_card(variant, states[variant.id]) for variant in engine.variants()]


def _card(variant: Any, entry: Any) -> dict[str, Any]:
    return {
        "id": variant.id,
        "title": variant.title,
        "summary": variant.summary,
        "resolution": variant.resolution,
        "grid": variant.grid,
        "tokens": variant.tokens,
        "sizes": list(variant.sizes),
        "research_only": variant.research_only if entry.weights != "random" else "",
        "sampler": variant.sampler,
        "geometry": "/".join(map(str, variant.geometry)),  # equal: one's fork goes on in the other
        "caption": variant.caption,
        "ar_iterations": asdict(variant.ar_iterations),
        "flow_steps": asdict(variant.flow_steps),
        "cfg_scale": {"default": variant.cfg_scale, "low": CFG_RANGE[0], "high": CFG_RANGE[1]},
        "cost": asdict(COSTS[variant.id]) if variant.id in COSTS else None,
        "embedded": variant.embedded,
        "examples": list(POCKET_EXAMPLES if variant.embedded else EXAMPLES),
        "parameters_m": variant.parameters_m,
        "licence": variant.licence,
        "published": [asdict(figure) for figure in variant.published],
        "memory_mb": round(entry.memory_bytes / 1e6, 1),
        "state": entry.state,
        "message": entry.message,
        "progress": round(entry.progress, 3),
        "weights": entry.weights,
    }


def limits() -> dict[str, Any]:
    """Ranges that hold for every variant."""
    return {
        "temperature": {"default": 1.0, "low": TEMPERATURE_RANGE[0], "high": TEMPERATURE_RANGE[1]},
        "seed": {"default": 0, "low": 0, "high": MAX_SEED},
        "preview_every": {"default": 1, "low": 0, "high": 64},
        "count": {"default": 1, "low": 1, "high": MAX_COUNT},
        "strength": {
            "default": STRENGTH_OF_WHOLE,  # of a whole picture; chosen cells change altogether
            "low": STRENGTH_RANGE[0],
            "high": STRENGTH_RANGE[1],
        },
        "context": {"default": 0, "low": 0, "high": MAX_CONTEXT},
        "prompt_characters": MAX_PROMPT_CHARACTERS,
    }


def status(engine: Any) -> dict[str, Any]:
    """What /canvas/status answers: the variants' cards, for an open page to follow loading."""
    return {"variants": cards(engine)}


def loading_words(engine: Any, variant_id: str) -> str:
    """What a picture of this variant waits for while the variant is not there yet; else ""."""
    for entry in engine.status().variants:
        if entry.id == variant_id and entry.state in ("waiting", "loading"):
            return f"{entry.title} is loading: {entry.message}"
    return ""


def describe_prompt(engine: Any, variant: str, prompt: str) -> dict[str, Any]:
    """For the hint under the prompt. Counts are None until the variant's encoder is loaded."""
    facts = engine.describe_prompt(variant, prompt)
    return {
        "tokens": facts.tokens,
        "limit": facts.limit,
        "unknown": list(facts.unknown),
        "nearest": list(facts.nearest),
        "truncated": facts.truncated,
        "unread": facts.unread,
    }
