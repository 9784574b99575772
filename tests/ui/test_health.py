"""What the server says to those who watch it: probes and Prometheus."""

from __future__ import annotations

import asyncio
import re
import sys
import threading
import time

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families as families
from starlette.applications import Starlette

from engine.limits import EngineLimits
from tests.engine.fakes import FakeWorld, end, request
from tests.ui.world import PageWorld, start
from ui.guard import Guard
from ui.health import HealthRoutes
from ui.stream import CanvasRoutes


def ask(engine, path: str, guard: Guard | None = None, **headers: str) -> httpx.Response:
    """One GET to a server of its own."""
    return get(HealthRoutes(engine, guard or Guard()), path, **headers)


def get(routes: HealthRoutes, path: str, **headers: str) -> httpx.Response:
    async def once() -> httpx.Response:
        transport = httpx.ASGITransport(Starlette(routes=routes.routes()))
        async with httpx.AsyncClient(transport=transport, base_url="http://canvas") as client:
            return await client.get(path, headers=headers)

    return asyncio.run(once())


def values(answer: httpx.Response) -> dict[str, float]:
    """Samples by name and labels, as `nitro_requests_total{result=finished}`."""
    out = {}
    for family in families(answer.text):
        for sample in family.samples:
            labels = ",".join(f"{k}={v}" for k, v in sorted(sample.labels.items()))
            out[sample.name + (f"{{{labels}}}" if labels else "")] = sample.value
    return out


@pytest.fixture
def engine():
    with start(PageWorld(step_s=0), results_cached=8) as made:
        yield made


# ---- probes ----


def test_health_follows_the_worker():
    with start(FakeWorld(), ["pocket-ar"]) as engine:
        assert (ask(engine, "/healthz").status_code, ask(engine, "/healthz").text) == (200, "ok")
    stopped = ask(engine, "/healthz")
    assert stopped.status_code == 503 and "stopped" in stopped.text


def test_it_is_ready_once_one_variant_is_and_says_before_what_it_waits_for():
    world = FakeWorld()
    world.gates["pocket-ar"] = first = threading.Event()
    world.gates["pocket-ar-joint"] = second = threading.Event()
    with start(world, ["pocket-ar", "pocket-ar-joint"], wait=False) as engine:
        early = ask(engine, "/readyz")
        assert early.status_code == 503 and "Pocket AR: " in early.text
        assert ask(engine, "/healthz").status_code == 200
        first.set()
        assert end(engine.submit(request(), "me"))
        assert ask(engine, "/readyz").status_code == 200  # the second is still loading
        second.set()
    late = ask(engine, "/readyz")
    assert late.status_code == 503 and "stopped" in late.text


def test_without_any_weights_it_is_never_ready_and_says_why():
    with start(PageWorld(), ["nitro-ar-gan"]) as engine:
        answer = ask(engine, "/readyz")
    assert answer.status_code == 503 and "its weights are not here yet" in answer.text


# ---- metrics ----


def test_names_follow_the_conventions(engine):
    answer = ask(engine, "/metrics")
    kinds = {"counter", "gauge", "histogram"}
    found = [each for each in families(answer.text) if each.name.startswith("nitro_")]
    assert len(found) >= 15
    for family in found:
        assert re.fullmatch(r"nitro_[a-z]+(_[a-z]+)*", family.name), family.name
        assert family.type in kinds and family.documentation.endswith(".")
        assert not re.search(r"_(ms|milliseconds|mb|kb|gb|percent)\b", family.name)
        if family.type == "counter":
            assert all(sample.name.endswith("_total") for sample in family.samples)
        else:
            assert not family.name.endswith("_total")
        if re.search("duration|device_seconds", family.name):
            assert "_seconds" in family.name
        if re.search("weights|memory|allocated", family.name) and family.type == "gauge":
            assert family.name.endswith("_bytes")


def test_content_type_and_the_newer_format_for_those_who_ask(engine):
    plain = ask(engine, "/metrics")
    assert plain.headers["content-type"].startswith("text/plain; version=")
    assert plain.headers["cache-control"] == "no-store"
    newer = ask(engine, "/metrics", accept="application/openmetrics-text; version=1.0.0")
    assert newer.headers["content-type"].startswith("application/openmetrics-text")
    assert newer.text.endswith("# EOF\n")


def test_values_move_with_what_is_drawn(engine):
    before = values(ask(engine, "/metrics"))
    end(engine.submit(request(ar_iterations=3), "me"))
    end(engine.submit(request(ar_iterations=3), "me"))  # the same again costs nothing
    end(engine.submit(request("explode"), "me"))
    end(engine.submit(request(variant="nitro-ar-gan"), "me"))
    after = values(ask(engine, "/metrics"))
    moved = {name: after[name] - before[name] for name in after if name.startswith("nitro_")}
    assert moved["nitro_requests_total{result=finished}"] == 1
    assert moved["nitro_requests_total{result=reused}"] == 1
    assert moved["nitro_requests_total{result=failed}"] == 2
    assert moved["nitro_failures_total{reason=broken_picture}"] == 1
    assert moved["nitro_failures_total{reason=unavailable}"] == 1
    assert moved["nitro_failures_total{reason=error}"] == 0
    assert moved["nitro_step_duration_seconds_count{variant=pocket-ar}"] == 3
    assert moved["nitro_step_duration_seconds_bucket{le=+Inf,variant=pocket-ar}"] == 3
    assert moved["nitro_batch_size_bucket{le=1.0,variant=pocket-ar}"] == 3
    assert moved["nitro_batch_size_sum{variant=pocket-ar}"] == 3
    assert moved["nitro_device_seconds_total{stage=step}"] > 0
    assert after["nitro_variant_ready{variant=pocket-ar}"] == 1
    assert after["nitro_variant_ready{variant=nitro-ar-gan}"] == 0
    assert after["nitro_weights_bytes{part=own}"] == 2048
    assert after["nitro_queue_depth"] == after["nitro_pictures_in_progress"] == 0
    assert after["nitro_batch_size_limit"] == EngineLimits().max_batch
    if sys.platform == "linux":
        assert after["process_resident_memory_bytes"] > 1e6


def test_the_line_supersedes_cancels_refusals_and_dropped_frames():
    world = PageWorld()
    go = threading.Event()
    with start(world, ["pocket-ar"], max_batch=1, queue_size=3, queue_per_owner=3) as engine:
        world.samplers["pocket-ar"].before_step = lambda states: go.wait(10)
        older = engine.submit(request("older"), "me")
        newer = engine.submit(request("newer", ar_iterations=4), "me")
        waiting = [engine.submit(request(f"{n}"), "other", f"{n}") for n in range(2)]
        with pytest.raises(Exception, match="as many as fit"):
            engine.submit(request("one more"), "third")
        during = values(ask(engine, "/metrics"))
        assert during["nitro_queue_depth"] + during["nitro_pictures_in_progress"] == 3
        for job in waiting:
            engine.cancel(job)
        go.set()
        while not newer.done:  # nobody reads its steps
            time.sleep(0.01)
        end(older)
        end(newer)
        after = values(ask(engine, "/metrics"))
    assert after["nitro_requests_total{result=superseded}"] == 1
    assert after["nitro_requests_total{result=cancelled}"] == 2
    assert after["nitro_requests_total{result=refused}"] == 1
    assert after["nitro_frames_dropped_total"] == 3


def test_refused_requests_are_counted_by_status(engine):
    guard = Guard()
    routes = CanvasRoutes(engine, guard).routes()

    async def knock() -> None:
        transport = httpx.ASGITransport(Starlette(routes=routes))
        async with httpx.AsyncClient(transport=transport, base_url="http://canvas") as client:
            for _ in range(2):
                await client.post("/canvas/stream", json={})
            await client.post("/canvas/session", headers={"origin": "https://evil.example"})

    asyncio.run(knock())
    found = values(ask(engine, "/metrics", guard))
    assert found["nitro_http_refusals_total{status=401}"] == 2
    assert found["nitro_http_refusals_total{status=403}"] == 1


def test_two_servers_in_one_process_count_for_themselves(engine):
    with start(PageWorld(step_s=0), ["pocket-ar"]) as other:
        one, two = HealthRoutes(engine, Guard()), HealthRoutes(other, Guard())
        end(other.submit(request(ar_iterations=1), "me"))
        name = "nitro_requests_total{result=finished}"
        assert values(get(one, "/metrics"))[name] == 0
        assert values(get(two, "/metrics"))[name] == 1


def test_without_the_package_it_says_what_to_install(engine, monkeypatch):
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    answer = ask(engine, "/metrics")
    assert answer.status_code == 501 and "pip install prometheus_client" in answer.text
    assert ask(engine, "/healthz").status_code == ask(engine, "/readyz").status_code == 200


def test_the_page_serves_all_three(site):
    for path in ("healthz", "readyz", "metrics"):
        assert httpx.get(f"{site.address}{path}").status_code == 200
