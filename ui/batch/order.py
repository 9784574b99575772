"""What a page or a program asks for as a batch, read into a plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from engine.requests import GenerationRequest, InvalidRequest, find_variant
from ui.batch.plan import Format, Plan
from ui.batch.prompts import Entry, parse_prompts
from ui.batch.template import combinations, expand

KINDS = ("text", "csv", "jsonl", "template")
SETTINGS = ("ar_iterations", "flow_steps", "cfg_scale", "cfg_schedule", "temperature", "size")
MAX_SEEDS = 1000
MAX_TEMPLATE = 4000  # characters of a line


def read_order(order: Mapping[str, Any], limit: int) -> Plan:
    """A plan of an order: `prompts` (text), `kind` (how to read them), `variants`, `seeds` per
    prompt, the first `seed`, `format`, and `settings` that hold for all.

    `limit` is how many pictures a template may stand for. Raises a `ValueError` in words for what
    cannot be read or could not be drawn for any prompt.
    """
    prompts, kind = order.get("prompts"), order.get("kind", "text")
    if not isinstance(prompts, str):
        raise InvalidRequest("`prompts` has to be text.")
    if kind not in KINDS:
        raise InvalidRequest(f"`kind` is one of {', '.join(KINDS)}; got {str(kind)[:40]!r}.")
    variants = order.get("variants", ["pocket-ar"])
    if not isinstance(variants, list) or not variants:
        raise InvalidRequest("`variants` has to be a list of at least one model's id.")
    settings = order.get("settings") or {}
    if not isinstance(settings, dict) or set(settings) - set(SETTINGS):
        raise InvalidRequest(f"`settings` may hold {', '.join(SETTINGS)}.")
    settings = {key: value for key, value in settings.items() if value is not None}
    seeds, seed, form = order.get("seeds", 1), order.get("seed", 0), order.get("format", "png")
    if not isinstance(seeds, int) or isinstance(seeds, bool) or not 1 <= seeds <= MAX_SEEDS:
        raise InvalidRequest(f"`seeds` is a whole number from 1 to {MAX_SEEDS}.")
    if form not in ("png", "webp"):
        raise InvalidRequest("`format` is png or webp.")
    chosen = tuple(dict.fromkeys(str(variant) for variant in variants))
    for variant in chosen:  # what no prompt could have fails now, and once
        GenerationRequest("x", variant, seed=seed, **settings).resolved()
    if kind == "template":
        entries = _expanded(prompts, limit)
    else:
        entries = parse_prompts(prompts, kind)
    return Plan(entries, chosen, seeds, seed, settings, cast(Format, form))


def _expanded(templates: str, limit: int) -> tuple[Entry, ...]:
    """Every combination of every line; counted before they are made, for they may be many."""
    entries: list[Entry] = []
    for line in filter(None, map(str.strip, templates.splitlines())):
        if len(line) > MAX_TEMPLATE:
            raise InvalidRequest(f"A template may have at most {MAX_TEMPLATE:,} characters.")
        made = expand(line, limit)
        if len(entries) + combinations(line) > limit:
            raise InvalidRequest(
                f"The templates stand for more than {limit:,} prompts; at most {limit:,} are drawn "
                "in one batch here. Shorten a list."
            )
        entries += map(Entry, made)
    if not entries:
        raise InvalidRequest("There is no template. Write one a line.")
    return tuple(entries)


def expected_seconds(plan: Plan, engine: Any) -> float | None:
    """By the engine's own measurements; None where a model has not drawn yet."""
    status = engine.status()
    total = 0.0
    for count, task in enumerate(plan.tasks()):
        if count >= 2000:  # so many are alike on average
            return total * len(plan) / count
        try:
            request = task.request()
        except InvalidRequest:
            continue  # fails at once
        step = status.step_ms.get(request.variant)
        if step is None:
            return None
        steps = find_variant(request.variant).steps(
            request.ar_iterations or 1, request.flow_steps or 1
        )
        total += (steps * step + status.decode_ms.get(request.variant, 0.0)) / 1000
    return total
