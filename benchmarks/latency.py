"""How long a picture takes on this machine, and what previews and caches change.

    python -m benchmarks.latency [--variants pocket-ar,...] [--weights random] [--json]

Each variant draws through the engine, as the page does. Every figure is the median of `--runs`
pictures; ratios compare runs of the same process, so they hold when the machine is noisy. With
`--weights random` full-size published variants run without any download.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.published_way import published_way_s
from engine.engine import Engine
from engine.events import Failed, Finished, Step
from engine.limits import EngineLimits
from engine.requests import GenerationRequest
from models.catalogue import CATALOGUE, find_variant
from models.loading import Loader
from models.sources import Sources


@dataclass(frozen=True)
class Timing:
    """One picture, in milliseconds."""

    total: float
    first_frame: float | None
    steps: int
    previews: float


def draw(engine: Engine, request: GenerationRequest) -> Timing:
    """Draw one picture and time it from outside."""
    begin = time.perf_counter()
    job, first = engine.submit(request, owner="benchmark"), None
    for event in job.events():
        if isinstance(event, Step) and event.preview is not None and first is None:
            first = 1000 * (time.perf_counter() - begin)
        if isinstance(event, Failed):
            raise SystemExit(f"{request.variant}: {event.message}")
        if isinstance(event, Finished):
            total = 1000 * (time.perf_counter() - begin)
            return Timing(total, first, event.steps, event.timings.preview_ms)
    raise SystemExit(f"{request.variant}: the picture was never finished.")


def measure(engine: Engine, variant_id: str, runs: int) -> dict[str, Any]:
    """Median times of new prompts, repeated prompts, and repeated prompts without previews."""
    base = GenerationRequest(prompt="a fox on a blue background", variant=variant_id)
    draw(engine, base)
    new, repeated, bare = [], [], []
    for run in range(runs):
        # In turn, so that a drifting machine hits all three alike.
        prompt = f"{('fox', 'owl', 'cat', 'rocket')[run % 4]} number {run}"
        new.append(draw(engine, replace(base, prompt=prompt, seed=run + 1)))
        repeated.append(draw(engine, replace(base, seed=run + 1)))
        bare.append(draw(engine, replace(base, seed=run + 1, preview="off")))

    def median(values: list[Timing], name: str = "total") -> float:
        return statistics.median(getattr(value, name) for value in values)

    frames = [t.first_frame for t in repeated if t.first_frame is not None]
    return {
        "steps": repeated[0].steps,
        "new_prompt_ms": round(median(new), 1),
        "repeat_prompt_ms": round(median(repeated), 1),
        "first_frame_ms": round(statistics.median(frames), 1) if frames else None,
        "without_previews_ms": round(median(bare), 1),
        "preview_share": round(median(repeated, "previews") / median(repeated), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--variants", default=",".join(v.id for v in CATALOGUE if v.embedded))
    parser.add_argument("--weights", default="", help='a folder, or "random" for full-size noise')
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument(
        "--published-way", action="store_true", help="also time Nitro-AR the published way"
    )
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    loader, names = Loader(Sources(weights=args.weights)), args.variants.split(",")
    results = {}
    for name in names:
        limits = EngineLimits(results_cached=0)  # every picture is drawn
        engine = Engine(loader.load, [name], device=loader.device, limits=limits)
        engine.wait_ready(None)
        results[name] = measure(engine, name, args.runs)
        engine.close()
        if args.published_way and find_variant(name).family == "nitro-ar":
            seconds = published_way_s(loader.load(name), args.runs)
            results[name]["published_way_ms"] = round(1000 * seconds, 1)
            results[name]["ratio_to_published_way"] = round(
                results[name]["repeat_prompt_ms"] / (1000 * seconds), 3
            )
    if args.json:
        print(json.dumps({"device": str(loader.device), "variants": results}, indent=2))
        return
    columns = list(dict.fromkeys(column for row in results.values() for column in row))
    print("| variant | " + " | ".join(column.replace("_", " ") for column in columns) + " |")
    print("|---|" + "---:|" * len(columns))
    for name, row in results.items():
        print(f"| {name} | " + " | ".join(str(row.get(column, "")) for column in columns) + " |")


if __name__ == "__main__":
    main()
