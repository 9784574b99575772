"""One measurement at a time, in a thread of its own; the last numbers stay while the server runs."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from ui.numbers.measure import Measurement, MeasuringFailed, measure


class Busy(RuntimeError):
    """A measurement is under way. The message is for a person."""


class NumbersDesk:
    """Thread-safe."""

    def __init__(self, engine: Any, allowed: bool = True) -> None:
        self._engine, self.allowed = engine, allowed
        self._torch = version("torch")
        self._lock = threading.Lock()
        self._kept: dict[str, Measurement] = {}
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._now = ""  # the variant at work
        self._share = 0.0
        self._message = ""

    def start(self, variants: Sequence[str]) -> None:
        """Measure these, one after another. Raises `Busy`."""
        with self._lock:
            if self._thread is not None and self._thread.is_alive():
                raise Busy("Somebody is measuring already; their numbers will be here soon.")
            self._stop.clear()
            self._message, self._share, self._now = "", 0.0, variants[0]
            self._thread = threading.Thread(
                target=self._run, args=[list(variants)], name="numbers", daemon=True
            )
            self._thread.start()

    def stop(self) -> None:
        """What is measured is kept."""
        self._stop.set()

    def look(self) -> dict[str, Any]:
        """For a page, as plain JSON."""
        with self._lock:
            running = self._thread is not None and self._thread.is_alive()
            return {
                "allowed": self.allowed,
                "running": running,
                "variant": self._now if running else "",
                "share": self._share if running else 0.0,
                "message": self._message,
                "machine": {"device": self._engine.device_name, "torch": self._torch},
                "measured": [asdict(each) for each in self._kept.values()],
            }

    def _run(self, variants: list[str]) -> None:
        for place, variant in enumerate(variants):

            def tell(share: float, place: int = place) -> None:
                self._share = (place + share) / len(variants)

            self._now = variant
            try:
                at = datetime.now(UTC).isoformat(timespec="seconds")
                made = measure(self._engine, variant, at, self._stop.is_set, tell)
            except MeasuringFailed as error:
                self._message = str(error)
                continue
            except Exception as error:  # a full queue, a closing engine
                self._message = f"Measuring ended: {error}"
                return
            if made is None:
                self._message = "Stopped; what was measured before is kept."
                return
            with self._lock:
                self._kept[variant] = made


def measuring_allowed(environ: Mapping[str, str] = os.environ) -> bool:
    """NITRO_MEASURE, "off" to forbid; without it, not on Spaces, where others share the device."""
    given = environ.get("NITRO_MEASURE", "off" if "SPACE_ID" in environ else "on")
    return given != "off"
