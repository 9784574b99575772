"""The tools for language models, called by the protocol's own client."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar

import anyio
import pytest
from PIL import Image

import app
from tests.ui.conftest import Site, serving
from tests.ui.world import PageWorld, is_of, mean_colour, start
from ui import mcp_tools
from ui.commands.serve import wants_mcp
from ui.metadata import read_settings

pytest.importorskip("mcp", reason="the extra `mcp` is not installed: pip install 'mcp>=1.21,<2'")

T = TypeVar("T")
VARIANTS = ("pocket-ar", "pocket-ar-joint")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    votes = tmp_path_factory.mktemp("votes") / "votes.db"
    with (
        start(PageWorld(step_s=0.01), VARIANTS) as engine,
        serving(engine, votes=votes, mcp=True) as made,
    ):
        yield made


def with_session(site: Site, use: Callable[[Any], Awaitable[T]]) -> T:
    """What a program gets from a session with the server."""
    from mcp import ClientSession
    from mcp.client.streamable_http import streamable_http_client

    async def visit() -> T:
        async with (
            streamable_http_client(f"{site.address}gradio_api/mcp/") as (read, write, _),
            ClientSession(read, write) as session,
        ):
            await session.initialize()
            return await use(session)

    return anyio.run(visit)


def call(site: Site, name: str, **arguments: Any) -> Any:
    return with_session(site, lambda session: session.call_tool(name, arguments))


def image(answer: Any) -> bytes:
    assert not answer.isError, answer.content
    (found,) = [part for part in answer.content if part.type == "image"]
    assert found.mimeType == "image/png"
    return base64.b64decode(found.data)


def test_only_what_makes_sense_to_a_model_is_listed_and_explained(site: Site) -> None:
    tools = {tool.name: tool for tool in with_session(site, lambda s: s.list_tools()).tools}
    assert set(tools) == {"generate", "grid", "variants", "status"}
    for tool in tools.values():
        assert len(tool.description) > 40
        for name, schema in tool.inputSchema["properties"].items():
            assert len(schema["description"]) > 10, (tool.name, name)
    assert tools["generate"].inputSchema["required"] == ["prompt"]
    assert set(tools["grid"].inputSchema["required"]) == {"prompt", "x", "y"}


def test_variants_and_status_are_json(site: Site) -> None:
    cards = json.loads(call(site, "variants").content[0].text)
    assert [card["id"] for card in cards] == list(VARIANTS)
    assert cards[0]["state"] == "ready" and cards[0]["ar_iterations"]["default"] >= 1
    assert json.loads(call(site, "status").content[0].text) == {"waiting": 0, "running": 0}


def test_generate_returns_the_picture_with_its_settings_inside(site: Site) -> None:
    made = image(call(site, "generate", prompt="a fox", seed=5, ar_iterations=3))
    assert is_of(mean_colour(made), "a fox")
    url = call(site, "generate", prompt="a fox", seed=5, ar_iterations=3).content[1].text
    assert site.address in url
    import httpx

    settings = read_settings(httpx.get(url.partition(": ")[2]).content)
    assert (settings["prompt"], settings["seed"], settings["ar_iterations"]) == ("a fox", 5, 3)


def test_grid_returns_one_sheet(site: Site) -> None:
    data = image(call(site, "grid", prompt="a fox", x="cfg_scale: 1, 3", y="seed: 0-1"))
    with Image.open(io.BytesIO(data)) as sheet:
        assert sheet.width > 2 * 128 and sheet.height > 2 * 128


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("generate", {"prompt": ""}, "empty"),
        ("generate", {"prompt": "a fox", "variant": "gpt"}, "gpt"),
        ("generate", {"prompt": "explode"}, "broken"),
        ("grid", {"prompt": "a fox", "x": "seed: 0-5", "y": "cfg_scale: 1-5"}, "at most 16"),
    ],
)
def test_what_cannot_be_drawn_is_said_in_words(
    site: Site, name: str, arguments: dict[str, Any], words: str
) -> None:
    answer = call(site, name, **arguments)
    assert answer.isError and words in answer.content[0].text


def test_two_models_at_once_do_not_take_each_others_place(site: Site) -> None:
    """Gradio calls for all of them through one client, one session."""
    prompts = [f"picture {n}" for n in range(4)]
    pictures: dict[str, bytes] = {}

    async def use(session: Any) -> None:
        async def one(prompt: str) -> None:
            answer = await session.call_tool("generate", {"prompt": prompt, "ar_iterations": 20})
            pictures[prompt] = image(answer)

        async with anyio.create_task_group() as group:
            for prompt in prompts:
                group.start_soon(one, prompt)

    with_session(site, use)
    assert all(is_of(mean_colour(pictures[prompt]), prompt) for prompt in prompts)


def test_another_sites_page_cannot_use_the_tools(site: Site) -> None:
    import httpx

    asked = site.asked
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": "generate", "arguments": {"prompt": "a fox"}}}  # fmt: skip
    headers = {"accept": "application/json, text/event-stream",
               "origin": "https://evil.example", "sec-fetch-site": "cross-site"}  # fmt: skip
    answer = httpx.post(f"{site.address}gradio_api/mcp/", json=body, headers=headers, timeout=30)
    assert "not allowed here" in answer.text and site.asked == asked


def test_without_the_package_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(mcp_tools.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(app, "make_engine", lambda *_: pytest.fail("an engine was made"))
    assert app.main(["serve", "--mcp"]) == 1
    assert 'pip install "mcp' in capsys.readouterr().err


def test_without_being_asked_for_there_are_no_tools(tmp_path: Any) -> None:
    import httpx

    with (
        start(PageWorld(), VARIANTS) as engine,
        serving(engine, votes=tmp_path / "votes.db") as plain,
    ):
        assert httpx.post(f"{plain.address}gradio_api/mcp/", json={}).status_code in (404, 405)
        names = httpx.get(f"{plain.address}gradio_api/info").json()["named_endpoints"]
    assert sorted(names) == ["/batch", "/compare", "/generate", "/grid", "/status", "/variants"]
    assert [wants_mcp({"NITRO_MCP": text}) for text in ("", "0", "1")] == [False, False, True]
    with pytest.raises(SystemExit, match="NITRO_MCP"):
        wants_mcp({"NITRO_MCP": "yes"})
