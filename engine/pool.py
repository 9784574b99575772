"""The warm pool: which variants are loaded, where their weights are, and what they weigh.

A short-lived loader thread reads weights, so that the first variant serves while the next one
downloads; everything else happens in the worker. Beyond the memory budget the least recently used
variant is set aside: moved to the host where the device is an accelerator, dropped and loaded
again on demand where the device is the host itself. A variant that fails to load says why; the
others serve.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from engine.failures import is_out_of_memory
from engine.status import LoadState, MemoryAccount, VariantStatus
from models.catalogue import Variant
from models.contracts import LoadedVariant, module_bytes
from models.weights import WeightsError

Progress = Callable[[float, str], None]  # part done (0..1) and what is being done
Load = Callable[[str, Progress], LoadedVariant]

_log = logging.getLogger(__name__)
_ASIDE = "Set aside to save memory; the next request brings it back."


@dataclass
class _Entry:
    variant: Variant
    place: int  # in the configured order
    state: LoadState = "waiting"
    message: str = "Waiting to be loaded."
    progress: float = 0.0
    loaded: LoadedVariant | None = None
    own_bytes: int = 0  # remembered when dropped
    on_device: bool = False
    aside: bool = False
    used: float = 0.0

    @property
    def settled(self) -> bool:
        return self.state in ("ready", "failed") or self.aside

    @property
    def staleness(self) -> tuple[float, int]:
        """Sorts the first to be set aside first: longest unused, then last in the order."""
        return (self.used, -self.place)


class Pool:
    """Thread-safe. Methods that touch weights (`admit`, `activate`, `want`) are the worker's."""

    def __init__(
        self,
        load: Load,
        variants: Sequence[Variant],
        device: torch.device,
        budget_bytes: int | None,
        notify: Callable[[], None],
        on_drop: Callable[[str], None],
    ) -> None:
        self._load = load
        self._device = device
        self._budget = budget_bytes
        self._notify = notify
        self._on_drop = on_drop
        self._changed = threading.Condition(threading.RLock())
        self._entries = {v.id: _Entry(v, place) for place, v in enumerate(variants)}
        self._to_load = [v.id for v in variants]
        self._arrivals: list[tuple[str, LoadedVariant]] = []
        self._loader: threading.Thread | None = None
        self._closed = False

    # ---- any thread ----

    def variants(self) -> tuple[Variant, ...]:
        return tuple(entry.variant for entry in self._entries.values())

    def ready(self) -> tuple[str, ...]:
        """The variants that can draw. Without the lock, which is held while weights move."""
        return tuple(e.variant.id for e in self._entries.values() if e.state == "ready")

    def failure(self, variant_id: str) -> str | None:
        """Why the variant cannot be used, if it failed to load."""
        with self._changed:
            entry = self._entries[variant_id]
            return entry.message if entry.state == "failed" else None

    def get(self, variant_id: str) -> LoadedVariant | None:
        """The variant if it is ready."""
        with self._changed:
            entry = self._entries[variant_id]
            return entry.loaded if entry.state == "ready" else None

    def status(self) -> tuple[VariantStatus, ...]:
        with self._changed:
            return tuple(
                VariantStatus(
                    id=entry.variant.id,
                    title=entry.variant.title,
                    state=entry.state,
                    message=entry.message,
                    progress=entry.progress,
                    weights=entry.loaded.weights if entry.loaded else None,
                    memory_bytes=entry.own_bytes,
                    on_device=entry.on_device,
                )
                for entry in self._entries.values()
            )

    def memory(self) -> MemoryAccount:
        """What is on the device now."""
        with self._changed:
            entries = list(self._entries.values())
            own = sum(entry.own_bytes for entry in entries if entry.on_device)
            shared = {
                name: module_bytes(part)
                for entry in entries
                if entry.loaded is not None
                for name, part in entry.loaded.shared
            }
            return MemoryAccount(own, sum(shared.values()), self._budget)

    def wait_settled(self, timeout: float | None) -> bool:
        """Until every variant is ready, failed or set aside."""
        with self._changed:
            entries = self._entries.values()
            self._changed.wait_for(
                lambda: self._closed or all(entry.settled for entry in entries), timeout
            )
            return all(entry.settled for entry in entries)

    def close(self, timeout: float) -> None:
        with self._changed:
            self._closed = True
            self._to_load.clear()
            self._arrivals.clear()
            loader = self._loader
            self._changed.notify_all()
        if loader is not None:
            loader.join(timeout)

    # ---- loading ----

    def start_loading(self) -> None:
        with self._changed:
            if self._loader is None and self._to_load and not self._closed:
                self._loader = threading.Thread(
                    target=self._load_queued, name="engine-loader", daemon=True
                )
                self._loader.start()

    def _load_queued(self) -> None:
        while True:
            with self._changed:
                if self._closed or not self._to_load:
                    self._loader = None
                    return
                entry = self._entries[self._to_load.pop(0)]
                entry.state, entry.message, entry.aside = "loading", "Loading.", False
            self._load_one(entry)

    def _load_one(self, entry: _Entry) -> None:
        name = entry.variant.id

        def progress(part: float, message: str) -> None:
            with self._changed:
                entry.progress, entry.message = min(1.0, max(0.0, part)), message

        try:
            loaded = self._load(name, progress)
        except WeightsError as error:
            _log.warning("Loading %s failed: %s", name, error)
            self.reject(name, str(error))
            return
        except Exception as error:
            _log.warning("Loading %s failed", name, exc_info=True)
            if is_out_of_memory(error):
                self.reject(
                    name,
                    "there is not enough memory for its weights. Serve fewer variants "
                    "(NITRO_VARIANTS) or set NITRO_MEMORY_GB lower, so that others make room.",
                )
                return
            self.reject(name, str(error) or type(error).__name__)
            return
        with self._changed:
            if not self._closed:
                self._arrivals.append((name, loaded))
        self._notify()

    # ---- the worker ----

    def arrived(self) -> tuple[str, LoadedVariant] | None:
        """A variant that was read and has to be warmed, then admitted or rejected."""
        with self._changed:
            return self._arrivals.pop(0) if self._arrivals else None

    def warming(self, variant_id: str) -> None:
        with self._changed:
            entry = self._entries[variant_id]
            entry.progress, entry.message = 1.0, "Warming up."

    def admit(self, variant_id: str, loaded: LoadedVariant) -> None:
        """The variant serves from now on."""
        with self._changed:
            entry = self._entries[variant_id]
            entry.loaded, entry.own_bytes = loaded, loaded.memory_bytes
            entry.state, entry.message, entry.progress = "ready", "Ready.", 1.0
            entry.on_device = True
            self._make_room()
            self._changed.notify_all()

    def reject(self, variant_id: str, message: str) -> None:
        with self._changed:
            entry = self._entries[variant_id]
            entry.state, entry.message, entry.loaded = "failed", message, None
            entry.on_device = entry.aside = False
            self._changed.notify_all()
        self._notify()

    def want(self, variant_id: str) -> None:
        """Have a variant that was dropped loaded again."""
        with self._changed:
            entry = self._entries[variant_id]
            if not entry.aside or entry.state != "waiting":
                return
            entry.used = time.monotonic()
            entry.message, entry.aside = "Loading again.", False
            self._make_room(entry)
            self._to_load.insert(0, variant_id)
        self.start_loading()

    def activate(self, variant_id: str) -> LoadedVariant | None:
        """The variant with its weights on the device, or None if it isn't ready."""
        with self._changed:
            entry = self._entries[variant_id]
            if entry.loaded is None or entry.state != "ready":
                return None
            entry.used = time.monotonic()
            if not entry.on_device:
                self._make_room(entry)
                entry.loaded.move(self._device)
                entry.on_device, entry.message = True, "Ready."
            return entry.loaded

    def _make_room(self, coming: _Entry | None = None) -> None:
        """Set variants aside until the budget holds, `coming` included."""
        if self._budget is None:
            return
        extra = coming.own_bytes if coming and not coming.on_device else 0
        here = [e for e in self._entries.values() if e.on_device and e is not coming]
        for entry in sorted(here, key=lambda e: e.staleness):
            if self.memory().total_bytes + extra <= self._budget or (
                coming is None and sum(e.on_device for e in here) == 1
            ):
                return
            self._set_aside(entry)

    def _set_aside(self, entry: _Entry) -> None:
        _log.info("%s is set aside: the memory budget is used up", entry.variant.id)
        entry.on_device, entry.message = False, _ASIDE
        if self._device.type == "cpu":
            entry.loaded, entry.state, entry.aside = None, "waiting", True
            self._on_drop(entry.variant.id)
        elif entry.loaded is not None:
            entry.loaded.move(torch.device("cpu"))
