"""The routes with the real engine behind them (and a model that costs nothing)."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from starlette.applications import Starlette

from tests.engine.fakes import FakeWorld
from tests.ui.world import is_of, mean_colour, start
from ui.frames import unpack
from ui.guard import SESSION_HEADER
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
