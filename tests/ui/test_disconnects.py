"""Visitors who leave, who stop reading, who wait long: the engine serves the others meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import socket
import threading
import time
from collections.abc import Callable
from urllib.parse import urlsplit

import httpx
import numpy as np
import pytest

from engine.job import Channel
from tests.engine.fakes import FakeWorld
from tests.ui.conftest import serving
from tests.ui.world import PageWorld, is_of, mean_colour, start
from ui.frames import unpack
from ui.guard import SESSION_HEADER, Guard, RateLimit
from ui.stream import CanvasRoutes


def ask(prompt: str, **settings) -> dict:
    return {"requests": [{"slot": "live", "request": {"prompt": prompt, **settings}}]}


def until(true: Callable[[], bool], seconds: float = 15) -> bool:
    """Generous: on an idle machine it is true at once."""
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        time.sleep(0.02)
    return true()


@pytest.fixture(scope="module")
def quick():
    """A site whose steps take almost no time, with no pace to keep."""
    free = Guard(pages=RateLimit(1e6, 10**6), addresses=RateLimit(1e6, 10**6))
    with start(PageWorld(step_s=0.003)) as engine, serving(engine, free) as made:
        yield made


def test_two_hundred_aborts_leave_the_worker_serving_everybody_his_own(quick):
    """Each visitor aborts three of four pictures somewhere; whatever arrives is his own."""
    ended = {"whole": 0, "aborted": 0}

    async def visit(name: int) -> None:
        chance = random.Random(name)
        async with httpx.AsyncClient(base_url=quick.address, timeout=60) as client:
            client.headers[SESSION_HEADER] = (await client.post("canvas/session")).json()["session"]
            for turn in range(34):
                prompt = f"visitor {name} turn {turn}"
                cut = chance.uniform(0, 0.08) if turn % 4 else None
                body = ask(prompt, ar_iterations=8)
                got = b""
                async with client.stream("POST", "canvas/stream", json=body) as answer:
                    assert answer.status_code == 200
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(cut):
                            async for part in answer.aiter_raw():
                                got += part
                check(got, prompt, whole=cut is None)

    def check(got: bytes, prompt: str, whole: bool) -> None:
        messages = []
        try:
            for message in unpack(got):
                messages.append(message)
        except ValueError:
            assert not whole
        end = messages[-1][0]["event"] if messages else ""
        ended["whole" if end == "finished" else "aborted"] += 1
        assert not whole or end == "finished"
        for header, picture in messages:
            if "settings" in header:
                assert header["settings"]["prompt"] == prompt
            if header["event"] == "finished":
                assert is_of(mean_colour(picture), prompt)

    async def everybody() -> None:
        await asyncio.gather(*(visit(name) for name in range(8)))

    asyncio.run(everybody())
    assert ended["aborted"] >= 50 and ended["whole"] >= 8 * 9
    assert quick.rests() and quick.engine.alive


def test_a_reader_that_stops_reading_holds_nothing_up(monkeypatch):
    """64 big frames to a client that reads none: steps go on, and only the newest is kept."""
    noise = np.random.default_rng(0).integers(0, 255, 700_000, np.uint8).tobytes()

    async def big(self, pixels, quality):
        return b"\xff\xd8" + noise

    monkeypatch.setattr("ui.frontdesk.FrontDesk.jpeg", big)
    channels: list[Channel] = []
    put = Channel.put

    def watched(channel: Channel, event) -> bool:
        if channel not in channels:
            channels.append(channel)
        return put(channel, event)

    monkeypatch.setattr(Channel, "put", watched)
    with start(PageWorld(step_s=0.005), ["pocket-ar"]) as engine, serving(engine) as site:
        session = httpx.post(f"{site.address}canvas/session").json()["session"]
        place = urlsplit(site.address)
        with socket.socket() as reader:
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            reader.connect((place.hostname, place.port))
            body = json.dumps(ask("slow", ar_iterations=64)).encode()
            reader.sendall(
                f"POST /canvas/stream HTTP/1.1\r\nhost: {place.netloc}\r\n{SESSION_HEADER}: "
                f"{session}\r\ncontent-length: {len(body)}\r\n\r\n".encode()
                + body
            )
            assert until(lambda: site.engine.status().counters.finished == 1)
            assert engine.status().counters.steps == 64
            assert len(channels) == 1 and channels[0].dropped > 40
            assert not channels[0].over  # the end waits for him
            with httpx.Client(base_url=site.address, timeout=30) as other:
                other.headers[SESSION_HEADER] = other.post("canvas/session").json()["session"]
                answer = other.post("canvas/stream", json=ask("quick", ar_iterations=2))
                assert list(unpack(answer.content))[-1][0]["event"] == "finished"


def call_data(prompt: str, ar_iterations: int = 4) -> list:
    """The Gradio event's inputs, in order."""
    given = [prompt, "pocket-ar", 0, ar_iterations, None, None, "constant", 1.0, 1]
    return given + [None] * 9  # null is the default, for what has one


def test_leaving_the_second_transport_cancels(site):
    """Gradio's event stream, closed in the middle of a picture."""
    before = site.engine.status().counters.cancels
    data = call_data("a fox", ar_iterations=64)
    with httpx.Client(base_url=site.address, timeout=30) as client:
        call = client.post("gradio_api/call/generate", json={"data": data}).json()["event_id"]
        with client.stream("GET", f"gradio_api/call/generate/{call}") as answer:
            lines = answer.iter_lines()
            while '"step"' not in next(lines):
                pass
    assert site.rests()
    assert site.engine.status().counters.cancels == before + 1


def test_the_second_transport_is_guarded_too(site):
    foreign = {"origin": "https://evil.example", "sec-fetch-site": "cross-site"}
    asked = site.asked
    with httpx.Client(base_url=site.address, timeout=30) as client:
        address = "gradio_api/call/generate"
        call = client.post(address, json={"data": call_data("a fox")}, headers=foreign).json()[
            "event_id"
        ]
        assert "not allowed here" in client.get(f"{address}/{call}").text
        call = client.post(address, json={"data": call_data("x" * 100_000)}).json()["event_id"]
        assert "larger than 64 KiB" in client.get(f"{address}/{call}").text
    assert site.asked == asked


def test_who_waits_hears_why():
    """While a variant loads nothing happens; the stream says so, again and again."""
    world = FakeWorld()
    world.gates["pocket-ar"] = gate = threading.Event()
    with start(world, ["pocket-ar"], wait=False) as engine:
        messages = asyncio.run(_wait(CanvasRoutes(engine, heartbeat_s=0.05), gate))
    waiting = [header for header, _ in messages if header["event"] == "waiting"]
    assert len(waiting) >= 3
    assert waiting[0]["message"] == "Pocket AR is loading: Reading weights."
    assert messages[-1][0]["event"] == "finished"


async def _wait(routes: CanvasRoutes, gate) -> list:
    from starlette.applications import Starlette

    transport = httpx.ASGITransport(Starlette(routes=routes.routes()))
    async with httpx.AsyncClient(transport=transport, base_url="http://canvas") as client:
        client.headers[SESSION_HEADER] = (await client.post("/canvas/session")).json()["session"]
        asyncio.get_running_loop().call_later(0.4, gate.set)
        answer = await client.post("/canvas/stream", json=ask("a fox", ar_iterations=2))
        return list(unpack(answer.content))
