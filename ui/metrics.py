"""The engine's numbers in Prometheus' text format.

They are read from the engine when somebody asks, so that drawing pays nothing for them; the
registry belongs to one server. `prometheus_client` writes the format. It is optional: without it
the page works, and this says what is missing.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from engine.measures import Distribution
from ui.guard import Guard

MISSING = (
    "Metrics need the package prometheus_client, which is not installed here. Install it with "
    "`pip install prometheus_client` and start the server again."
)


class MetricsMissing(RuntimeError):
    """The package that writes them is not installed. The message says how to get it."""


class Metrics:
    """What one server can tell. Raises `MetricsMissing` when it is made without the package."""

    def __init__(self, engine: Any, guard: Guard) -> None:
        try:
            import prometheus_client as client
        except ImportError:
            raise MetricsMissing(MISSING) from None
        self._engine, self._guard = engine, guard
        self._registry = client.CollectorRegistry()
        self._registry.register(self)
        client.ProcessCollector(registry=self._registry)

    def render(self, accept: str = "") -> tuple[bytes, str]:
        """Everything as it is now, and its content type. `accept` is the asker's header."""
        from prometheus_client.exposition import choose_encoder

        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type

    def collect(self) -> Iterator[Any]:
        """For the registry: every family of the engine and of this server."""
        status = self._engine.status()
        yield from _line(status)
        yield from _pictures(status.counters)
        yield from _steps(self._engine.measures())
        yield from _memory(status, self._engine.measures().device_bytes)
        refused = {str(code): float(count) for code, count in self._guard.refused()}
        yield _counter(
            "nitro_http_refusals",
            "Requests that were not served, by HTTP status.",
            refused,
            "status",
        )


def _line(status: Any) -> Iterator[Any]:
    yield _gauge("nitro_queue_depth", "Pictures that wait for their first step.", status.waiting)
    yield _gauge("nitro_pictures_in_progress", "Pictures that have begun.", status.running)
    yield _gauge(
        "nitro_batch_size_limit", "Most pictures that may share a step now.", status.max_batch
    )
    ready = {entry.id: float(entry.state == "ready") for entry in status.variants}
    yield _gauge("nitro_variant_ready", "1 if the variant can draw.", ready, "variant")


def _pictures(counted: Any) -> Iterator[Any]:
    results = {
        "finished": counted.finished,
        "reused": counted.reused,
        "failed": counted.failed,
        "superseded": counted.supersedes,
        "cancelled": counted.cancels,
        "refused": counted.refused,
    }
    yield _counter(
        "nitro_requests",
        "Pictures that were asked for, by how that ended: drawn, given again, failed, superseded "
        "by a newer request, cancelled, or refused because the queue was full.",
        results,
        "result",
    )
    kinds = {
        "out_of_memory": counted.failed_out_of_memory,
        "broken_picture": counted.failed_broken_picture,
        "unavailable": counted.failed_unavailable,
    }
    kinds["error"] = counted.failed - sum(kinds.values())
    yield _counter("nitro_failures", "Pictures that failed, by reason.", kinds, "reason")
    yield _counter(
        "nitro_out_of_memory",
        "Steps and decodes that did not fit into the memory; most succeed in smaller batches.",
        counted.out_of_memory,
    )
    yield _counter(
        "nitro_retries", "Pictures begun again after their batch failed.", counted.retried
    )
    yield _counter("nitro_previews", "Previews that were made.", counted.previews)
    yield _counter(
        "nitro_frames_dropped",
        "Steps that nobody had read when the next one came.",
        counted.previews_dropped,
    )
    stages = {
        "prepare": counted.prepare_s,
        "step": counted.step_s,
        "preview": counted.preview_s,
        "decode": counted.decode_s,
    }
    yield _counter("nitro_device_seconds", "Time the device was busy, by stage.", stages, "stage")


def _steps(measured: Any) -> Iterator[Any]:
    yield _histogram("nitro_step_duration_seconds", "Time of one step.", measured.step_s)
    yield _histogram("nitro_batch_size", "Pictures that shared a step.", measured.batch_size)


def _memory(status: Any, device_bytes: int | None) -> Iterator[Any]:
    account = status.memory
    parts = {"own": float(account.own_bytes), "shared": float(account.shared_bytes)}
    yield _gauge(
        "nitro_weights_bytes",
        "Weights on the device: variants' own, and shared parts.",
        parts,
        "part",
    )
    if account.budget_bytes is not None:
        yield _gauge(
            "nitro_weights_budget_bytes", "Bound on weights on the device.", account.budget_bytes
        )
    if device_bytes is not None:
        yield _gauge(
            "nitro_device_allocated_bytes",
            "Memory that torch had allocated on the device when a picture was last finished.",
            device_bytes,
        )


def _counter(
    name: str, text: str, values: float | Mapping[str, float], label: str | None = None
) -> Any:
    from prometheus_client.core import CounterMetricFamily

    return _filled(CounterMetricFamily(name, text, labels=[label] if label else None), values)


def _gauge(
    name: str, text: str, values: float | Mapping[str, float], label: str | None = None
) -> Any:
    from prometheus_client.core import GaugeMetricFamily

    return _filled(GaugeMetricFamily(name, text, labels=[label] if label else None), values)


def _filled(family: Any, values: float | Mapping[str, float]) -> Any:
    """One sample, or one per value of the label."""
    if not isinstance(values, Mapping):
        family.add_metric([], values)
        return family
    for label, value in values.items():
        family.add_metric([label], value)
    return family


def _histogram(name: str, text: str, by_variant: Mapping[str, Distribution]) -> Any:
    from prometheus_client.core import HistogramMetricFamily
    from prometheus_client.utils import floatToGoString

    family = HistogramMetricFamily(name, text, labels=["variant"])
    for variant, seen in by_variant.items():
        bounds = [*map(floatToGoString, seen.bounds), "+Inf"]
        cumulated = itertools.accumulate(seen.counts)
        family.add_metric([variant], list(zip(bounds, cumulated, strict=True)), seen.total)
    return family
