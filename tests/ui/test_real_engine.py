"""The routes with the real engine behind them (and a model that costs nothing)."""

from __future__ import annotations

import asyncio
import threading

import httpx
import pytest
from starlette.applications import Starlette

from engine.requests import GenerationRequest
from tests.engine.fakes import FakeWorld
from tests.ui.world import is_of, mean_colour, start
from ui.frames import unpack
from ui.frontdesk import FrontDesk
from ui.guard import SESSION_HEADER, Guard, RateLimit
from ui.stream import CanvasRoutes


@pytest.fixture
def engine():
    world = FakeWorld()
    with start(world, ["pocket-ar"]) as made:
        yield made


async def session(client: httpx.AsyncClient) -> None:
    answer = await client.post("/canvas/session")
    client.headers[SESSION_HEADER] = answer.json()["session"]


async def draw(client: httpx.AsyncClient, prompt: str, slot: str = "live") -> list:
    request = {"prompt": prompt, "ar_iterations": 4}
    body = {"requests": [{"slot": slot, "request": request}]}
    answer = await client.post("/canvas/stream", json=body)
    assert answer.status_code == 200, answer.text
    return list(unpack(answer.content))


def test_each_stream_gets_its_own_picture(engine):
    app = Starlette(routes=CanvasRoutes(engine).routes())

    async def visit(number: int) -> None:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://canvas") as client:
            await session(client)
            for turn in range(5):
                prompt = f"visitor {number} turn {turn}"
                end, picture = (await draw(client, prompt))[-1]
                assert end["event"] == "finished" and end["settings"]["prompt"] == prompt
                assert is_of(mean_colour(picture), prompt)

    async def all_of_them() -> None:
        await asyncio.gather(*(visit(number) for number in range(6)))

    asyncio.run(all_of_them())


def test_hints_and_cards_come_from_the_engine(engine):
    app = Starlette(routes=CanvasRoutes(engine).routes())

    async def visit() -> None:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://canvas") as client:
            await session(client)
            facts = await client.get(
                "/canvas/describe", params={"variant": "pocket-ar", "prompt": "a fox"}
            )
            assert facts.json()["tokens"] == 2 and facts.json()["unknown"] == ["fox"]
            card = (await client.get("/canvas/status")).json()["variants"][0]
            assert card["id"] == "pocket-ar" and card["state"] == "ready"
            assert card["weights"] == "random"

    asyncio.run(visit())


def test_too_fast_is_refused_with_a_wait(engine):
    guard = Guard(pages=RateLimit(0.25, 3, clock=lambda: 0.0))
    app = Starlette(routes=CanvasRoutes(engine, guard).routes())

    async def visit() -> httpx.Response:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://canvas") as client:
            await session(client)
            for _ in range(3):
                await draw(client, "a fox")
            body = {"requests": [{"request": {"prompt": "a fox"}}]}
            return await client.post("/canvas/stream", json=body)

    answer = asyncio.run(visit())
    assert answer.status_code == 429 and answer.headers["retry-after"] == "4"
    assert "too many requests" in answer.json()["error"]


def test_of_several_pictures_all_are_asked_for_or_none(engine):
    """The second one is not served here; the first must not be drawn for nobody."""
    app = Starlette(routes=CanvasRoutes(engine).routes())

    async def visit() -> httpx.Response:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://canvas") as client:
            await session(client)
            slots = [
                {"slot": variant, "request": {"prompt": "a fox", "variant": variant}}
                for variant in ("pocket-ar", "pocket-ar-joint")
            ]
            return await client.post("/canvas/stream", json={"requests": slots})

    answer = asyncio.run(visit())
    assert answer.status_code == 400 and "not served here" in answer.json()["error"]
    assert engine.status().counters.finished == 0


def test_who_leaves_while_asking_leaves_no_job(engine):
    """Cancelled while the engine is still busy with the lock."""

    async def leave() -> None:
        desk = FrontDesk(engine)
        task = asyncio.create_task(desk.submit("me", [("live", GenerationRequest("a fox"))]))
        await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.sleep(0.05)
        lock.release()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0.3)

    submit, lock = engine.submit, threading.Lock()
    lock.acquire()

    def slow_submit(*arguments):
        with lock:
            return submit(*arguments)

    engine.submit = slow_submit
    asyncio.run(leave())
    status = engine.status()
    assert status.counters.submitted == 1 and status.waiting == status.running == 0
