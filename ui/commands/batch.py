"""Draw many prompts into a folder or a zip; interrupted, the same command goes on."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from engine.requests import GenerationRequest, find_variant
from ui.batch.archive import collecting_folder, discard, is_complete, pack
from ui.batch.ledger import FAILURES, Ledger
from ui.batch.plan import Plan, Task
from ui.batch.progress import Progress
from ui.batch.prompts import Entry, read_prompts
from ui.batch.runner import BatchBroken, Runner
from ui.batch.template import expand
from ui.commands.options import add_sampling_options, sampling
from ui.commands.terminal import say, wait_until_ready
from ui.metadata import png, webp

DONE, FAILED, REFUSED = 0, 1, 2  # and 128 + the signal that stopped it
MAX_SEEDS = 100_000
_TOLD_FAILURES = 5
_LOG_EVERY_S = 30.0


def add_options(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "prompts",
        nargs="?",
        type=Path,
        help="a prompt a line, or .csv with a `prompt` column, or .jsonl; further columns and keys "
        "are settings of their line (seed, cfg_scale, ...)",
    )
    what.add_argument(
        "--template",
        action="append",
        help='all combinations: "a {red|blue} {cat|dog}"; may be given several times',
    )
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--out", type=Path, metavar="DIR", help="folder for pictures and metadata")
    where.add_argument("--zip", type=Path, metavar="FILE", help="one zip file instead")
    parser.add_argument(
        "--variants", default="pocket-ar", metavar="A,B", help="each prompt with each of them"
    )
    parser.add_argument("--seeds", type=int, default=1, help="pictures per prompt; default: 1")
    parser.add_argument("--seed", type=int, default=0, help="the first of them; default: 0")
    add_sampling_options(parser)
    parser.add_argument("--format", choices=("png", "webp"), default="png", help="webp: lossless")
    parser.add_argument(
        "--exact",
        action="store_true",
        help="one picture at a time: bit for bit what `generate` draws. Together they are drawn "
        "faster, and a colour may differ by 1 of 255",
    )


def run(options: argparse.Namespace, make_engine: Callable[..., Any]) -> int:
    """0: every picture is there; 1: some failed; 2: refused; 128 + n: stopped by signal n."""
    ledger = None
    try:
        plan = _plan(options)
        folder = options.out if options.zip is None else collecting_folder(options.zip)
        if options.zip is not None and is_complete(options.zip, plan):
            discard(folder, plan)
            print(f"{options.zip}: all {len(plan):,} pictures are there; nothing to draw.")
            return DONE
        ledger = Ledger(folder, plan)
        code = _draw(plan, ledger, options.exact, make_engine)
    except (ValueError, BatchBroken) as error:  # every reader and checker raises a kind of it
        say("")
        print(error, file=sys.stderr)
        return FAILED if isinstance(error, BatchBroken) else REFUSED
    except OSError as error:
        say("")
        print(f"The batch could not be written: {error}.", file=sys.stderr)
        return REFUSED
    finally:
        if ledger is not None:
            ledger.close()
    return _deliver(plan, ledger, options.zip, code)


def _plan(options: argparse.Namespace) -> Plan:
    """What the command asks for. Raises a `ValueError` in words for what cannot be drawn."""
    variants = tuple(dict.fromkeys(v.strip() for v in options.variants.split(",") if v.strip()))
    settings = {name: value for name, value in sampling(options).items() if value is not None}
    if not 1 <= options.seeds <= MAX_SEEDS:
        raise ValueError(f"--seeds has to be from 1 to {MAX_SEEDS:,}; got {options.seeds}.")
    if not variants:
        raise ValueError("--variants names no variant; see `python app.py variants`.")
    for variant in variants:  # so that a setting that no prompt could have fails now, and once
        GenerationRequest("x", variant, seed=options.seed, **settings).resolved()
    if options.template is not None:
        entries = tuple(Entry(text) for each in options.template for text in expand(each))
    else:
        entries = read_prompts(options.prompts)
    return Plan(
        entries, variants, options.seeds, options.seed, settings, options.format, options.exact
    )


def _draw(plan: Plan, ledger: Ledger, exact: bool, make_engine: Callable[..., Any]) -> int:
    before = ledger.count
    if before == len(plan):
        return DONE
    if before:
        print(f"{before:,} of {len(plan):,} pictures are there already; going on.", file=sys.stderr)
    variants = _variants(ledger)
    engine = make_engine(variants or list(plan.variants), max_batch=1 if exact else None)
    try:
        wait_until_ready(engine)
        _check_any(engine)
        teller = _Teller()
        progress = Progress(len(plan), before)
        encode = webp if plan.format == "webp" else png
        runner = Runner(engine, ledger, encode, progress, teller)
        with _signals(runner.stop) as received:
            runner.run()
        say("")
    finally:
        engine.close()
    if received:
        print(
            f"Stopped; {ledger.count:,} of {len(plan):,} pictures are there. The same command "
            "goes on from here.",
            file=sys.stderr,
        )
        return 128 + received[0]
    return FAILED if ledger.failed else DONE


def _variants(ledger: Ledger) -> list[str]:
    """Those that what is left will be drawn with."""
    found: dict[str, None] = {}
    for task in ledger.open_tasks():
        found[str(task.values["variant"])] = None
    known = []
    for name in found:
        try:
            known.append(find_variant(name).id)
        except KeyError:
            pass  # its pictures will say so
    return known


def _check_any(engine: Any) -> None:
    """Without a single variant there is nothing to go on for. Raises `BatchBroken`."""
    entries = engine.status().variants
    if all(entry.state == "failed" for entry in entries):
        words = " ".join(f"{entry.title} is not available: {entry.message}" for entry in entries)
        raise BatchBroken(words)


def _deliver(plan: Plan, ledger: Ledger, target: Path | None, code: int) -> int:
    """Say how it went, and pack the zip unless there is more to come."""
    if code > FAILED:
        return code
    place, failures = ledger.folder, ledger.folder / FAILURES
    if target is not None:
        place = target
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            pack(ledger.folder, target, plan)
        except OSError as error:
            print(f"{target} could not be written: {error}.", file=sys.stderr)
            return FAILED
        if code == DONE:
            discard(ledger.folder, plan)
    print(f"{place}: {ledger.count:,} pictures")
    if ledger.failed:
        print(
            f"{ledger.failed:,} could not be drawn; {failures} says why. The same command tries "
            "them again.",
            file=sys.stderr,
        )
    return code


class _Teller:
    """Progress on the terminal, or a line now and then in a log; the first failures in full."""

    def __init__(self) -> None:
        self._failures = 0
        self._logged = time.monotonic()

    def __call__(self, task: Task | None, text: str) -> None:
        if task is not None:
            self._failures += 1
            if self._failures <= _TOLD_FAILURES:
                say("")
                print(f"{task.file_name} failed: {text}", file=sys.stderr)
        elif sys.stderr.isatty():
            say(text)
        elif time.monotonic() - self._logged >= _LOG_EVERY_S:
            self._logged = time.monotonic()
            print(text, file=sys.stderr, flush=True)


@contextmanager
def _signals(stop: Callable[[], None]) -> Iterator[list[int]]:
    """Ctrl+C and SIGTERM call `stop`, and are listed; a second one ends at once."""
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield received
        return
    before = {which: signal.getsignal(which) for which in (signal.SIGINT, signal.SIGTERM)}

    def handle(number: int, _frame: Any) -> None:
        received.append(number)
        for which, handler in before.items():
            signal.signal(which, handler)
        stop()

    for which in before:
        signal.signal(which, handle)
    try:
        yield received
    finally:
        for which, handler in before.items():
            signal.signal(which, handler)
