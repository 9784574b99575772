"""Batches from a page and from programs: what is ordered is drawn once, kept, and fetched whole."""

from __future__ import annotations

import io
import json
import time
import zipfile
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from gradio_client import Client
from PIL import Image

from tests.ui.batches import VARIANTS, order
from tests.ui.conftest import Site, serving
from tests.ui.world import PageWorld, is_of, mean_colour, start
from ui.batch.plan import request_of


@pytest.fixture(scope="module")
def world() -> PageWorld:
    return PageWorld(step_s=0.002)


@pytest.fixture(scope="module")
def site(world: PageWorld, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    votes = tmp_path_factory.mktemp("votes") / "votes.db"
    with start(world, VARIANTS) as engine, serving(engine, votes=votes, most_pictures=40) as made:
        yield made


@pytest.fixture
def visitor(site: Site) -> httpx.Client:
    http = httpx.Client(base_url=site.address, timeout=60)
    http.headers["x-nitro-session"] = http.post("canvas/session").json()["session"]
    return http


def until(http: httpx.Client, run: str, *states: str) -> dict[str, Any]:
    for _ in range(600):
        told = http.get(f"batch/{run}").json()
        if told["state"] in states:
            return told
        time.sleep(0.05)
    raise AssertionError(told)


def zipped(http: httpx.Client, run: str) -> tuple[list[dict[str, Any]], dict[str, bytes]]:
    archive = zipfile.ZipFile(io.BytesIO(http.get(f"batch/{run}/pictures.zip").content))
    lines = [json.loads(line) for line in archive.read("metadata.jsonl").splitlines()]
    return lines, {name: archive.read(name) for name in archive.namelist()}


def test_a_template_becomes_a_zip_with_metadata(visitor: httpx.Client) -> None:
    told = visitor.post("batch/plan", json=order(seeds=2)).json()
    assert (told["prompts"], told["pictures"]) == (4, 16) and told["expected_s"] > 0
    run = visitor.post("batch/start", json=order(seeds=2, format="webp")).json()["run"]
    end = until(visitor, run, "done")
    assert end["done"] == 16 and end["failed"] == 0 and len(end["newest"]) == 12
    lines, files = zipped(visitor, run)
    assert len(lines) == 16 and len({line["file_name"] for line in lines}) == 16
    for line in lines:
        assert is_of(mean_colour(files[line["file_name"]]), line["prompt"])
        assert request_of(line).seed in (0, 1)
    thumb = visitor.get(f"batch/{run}/thumbnail/{end['newest'][0]}")
    assert Image.open(io.BytesIO(thumb.content)).size == (96, 96)
    assert visitor.get(f"batch/{run}/thumbnail/../plan").status_code == 404


def test_a_stopped_batch_goes_on_without_drawing_anything_twice(
    visitor: httpx.Client, world: PageWorld
) -> None:
    world.step_s = 0.02
    lines = "\n".join(f"prompt {n}" for n in range(12))
    run = visitor.post("batch/start", json=order(prompts=lines, kind="text")).json()["run"]
    while visitor.get(f"batch/{run}").json()["done"] < 3:
        time.sleep(0.02)
    assert visitor.get(f"batch/{run}/pictures.zip").status_code == 409
    again = visitor.post("batch/start", json=order())
    assert again.status_code == 429 and "yours" in again.json()["error"]
    visitor.post(f"batch/{run}/stop")
    stopped = until(visitor, run, "stopped")
    assert 3 <= stopped["done"] < 24
    kept, _ = zipped(visitor, run)
    assert len(kept) == stopped["done"]
    world.step_s = 0.002
    visitor.post(f"batch/{run}/resume")
    assert until(visitor, run, "done")["done"] == 24
    whole, _ = zipped(visitor, run)
    assert len({line["file_name"] for line in whole}) == len(whole) == 24
    assert [line for line in whole if line in kept] == sorted(kept, key=lambda l: l["file_name"])


def test_what_cannot_be_drawn_is_told_and_the_rest_is_there(visitor: httpx.Client) -> None:
    text = "a fox\nexplode\na cat"
    run = visitor.post(
        "batch/start", json=order(prompts=text, kind="text", variants=["pocket-ar"])
    ).json()["run"]
    end = until(visitor, run, "done")
    assert (end["done"], end["failed"]) == (2, 1) and "000001.png" in end["faults"][0]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"prompts": ""}, "no template"),
        ({"prompts": "a {b"}, "brace"),
        ({"prompts": "x", "kind": "tsv"}, "text, csv"),
        ({"prompts": "{a|b|c|d|e|f|g} {a|b|c|d|e|f|g}"}, "at most 40"),
        ({"prompts": "x\n" * 41, "kind": "text"}, "at most 40"),
        ({"variants": ["nitro-e"]}, "not served here"),
        ({"variants": []}, "at least one"),
        ({"variants": ["pocket-ax"]}, "pocket-ax"),
        ({"settings": {"cfg_scale": 99}}, "CFG scale"),
        ({"settings": {"picture": "x"}}, "may hold"),
        ({"seeds": 0}, "1 to 1000"),
        ({"format": "gif"}, "png or webp"),
        ({"prompts": '{"promt": "x"}', "kind": "jsonl"}, "promt"),
    ],
)
def test_an_order_that_makes_no_sense_is_refused_in_words(
    visitor: httpx.Client, changes: dict[str, Any], words: str
) -> None:
    answer = visitor.post("batch/start", json=order(**changes))
    assert answer.status_code == 400 and words in answer.json()["error"], answer.text


def test_nobody_without_the_name_and_no_other_site_gets_at_a_batch(visitor: httpx.Client) -> None:
    assert visitor.get("batch/guessed").status_code == 404
    strange = {"origin": "https://evil.example", "sec-fetch-site": "cross-site"}
    assert visitor.post("batch/start", json=order(), headers=strange).status_code == 403
    del visitor.headers["x-nitro-session"]
    assert visitor.post("batch/start", json=order()).status_code == 401


# ---- named endpoints ----


@pytest.fixture(scope="module")
def client(site: Site) -> Client:
    return Client(site.address, verbose=False)


def test_the_grid_endpoint_streams_cells_and_ends_with_the_sheet(client: Client) -> None:
    job = client.submit(
        "a fox", "cfg_scale: 1-2", "prompt: a red fox | a blue cat", "", "pocket-ar-joint", 5,
        api_name="/grid",
    )  # fmt: skip
    answers = list(job)
    cells, (end, sheet) = answers[:-1], answers[-1]
    assert len(cells) == 4 and all(header["event"] == "finished" for header, _ in cells)
    for header, uri in cells:
        picture = httpx.get(uri).content if uri.startswith("http") else decoded(uri)
        assert is_of(mean_colour(picture), header["axes"]["prompt"])
        assert header["settings"]["cfg_scale"] == header["axes"]["cfg_scale"]
    assert end == {"event": "sheet", "cells": 4, "places": 4}
    assert Image.open(io.BytesIO(decoded(sheet))).format == "PNG"
    with pytest.raises(Exception, match="goes nowhere"):
        client.predict("a fox", "seed: 4-2", "cfg_scale: 1, 2", api_name="/grid")
    with pytest.raises(Exception, match="at most 64"):
        client.predict("a fox", "seed: 0-9", "cfg_scale: 1-8", api_name="/grid")


def decoded(uri: str) -> bytes:
    import base64

    return base64.b64decode(uri.partition(",")[2])


def test_the_batch_endpoint_tells_how_far_it_is_and_where_the_zip_is(
    client: Client, site: Site
) -> None:
    job = client.submit("a {red|blue} fox", "template", api_name="/batch")
    answers = list(job)
    assert answers[-1]["state"] == "done" and answers[-1]["done"] == 2
    lines = zipfile.ZipFile(io.BytesIO(httpx.get(site.address + answers[-1]["zip"]).content))
    assert len(lines.read("metadata.jsonl").splitlines()) == 2
    with pytest.raises(Exception, match="at most 40"):
        client.predict("{a|b|c|d|e|f|g} {a|b|c|d|e|f|g}", "template", api_name="/batch")


def test_a_caller_who_goes_away_leaves_no_batch_behind(client: Client, site: Site) -> None:
    before = site.engine.status().counters.finished
    job = client.submit("\n".join(f"words {n}" for n in range(40)), api_name="/batch")
    while not job.outputs() and not job.done():
        time.sleep(0.05)
    assert job.outputs()
    job.cancel()
    for _ in range(200):
        status = site.engine.status()
        if not status.waiting and not status.running:
            break
        time.sleep(0.05)
    assert status.counters.finished - before < 40


# ---- in the browser ----


@pytest.mark.browser
def test_order_watch_reload_and_fetch_in_the_browser(page, site: Site, world: PageWorld) -> None:
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    world.step_s = 0.01
    page.goto(site.address + "#batch")
    page.wait_for_selector(".nc-batch", state="visible")
    page.wait_for_selector('[data-ready="yes"]', state="attached")
    page.fill(".nc-batch-prompts", "a {red|blue|green} {cat|dog}")
    page.fill(".nc-batch-seeds", "2")
    page.click(".nc-batch-more summary")
    page.fill("[data-setting=ar_iterations]", "99")
    page.wait_for_selector(".nc-batch-size[data-kind=error]")
    assert "AR iterations" in page.inner_text(".nc-batch-size")
    page.fill("[data-setting=ar_iterations]", "3")
    page.wait_for_function(
        "document.querySelector('.nc-batch-size').textContent.includes('6 prompts, 12 pictures')"
    )
    page.click(".nc-batch-start")
    page.wait_for_selector(".nc-batch-newest img")
    page.reload()
    page.wait_for_selector(".nc-batch[data-state=done]", timeout=60_000)
    assert page.input_value(".nc-batch-prompts") == "a {red|blue|green} {cat|dog}"
    assert page.input_value("[data-setting=ar_iterations]") == "3"
    assert "12 of 12 pictures" in page.inner_text(".nc-batch-status")
    page.wait_for_function(
        "[...document.querySelectorAll('.nc-batch-newest img')].every((i) => i.naturalWidth === 96)"
    )
    with page.expect_download() as waiting:
        page.click(".nc-batch-zip")
    archive = zipfile.ZipFile(waiting.value.path())
    names = archive.namelist()
    lines = [json.loads(line) for line in archive.read("metadata.jsonl").splitlines()]
    assert {line["ar_iterations"] for line in lines} == {3}
    assert sum(name.endswith(".png") for name in names) == 12 and "metadata.jsonl" in names
    page.fill(".nc-batch-prompts", "a {b")
    page.wait_for_selector(".nc-batch-size[data-kind=error]")
    assert not complaints


@pytest.mark.browser
def test_a_csv_that_is_dropped_is_read_as_one(page, site: Site) -> None:
    page.goto(site.address + "#batch")
    page.wait_for_selector('[data-ready="yes"]', state="attached")
    page.wait_for_selector(".nc-batch", state="visible")
    page.set_input_files(
        ".nc-batch-file",
        {"name": "p.csv", "mimeType": "text/csv", "buffer": b"prompt,seed\na fox,3\na cat,4\n"},
    )
    page.wait_for_function(
        "document.querySelector('.nc-batch-size').textContent.includes('2 prompts, 2 pictures')"
    )
    assert page.input_value(".nc-batch-kind") == "csv"


@pytest.mark.browser
@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 390)])
def test_nobody_trips_over_the_page_and_a_phone_shows_all_of_it(
    page, site: Site, scheme: Any, width: int
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    page.set_viewport_size({"width": width, "height": 844})
    page.goto(site.address + "#batch")
    page.wait_for_selector('[data-ready="yes"]', state="attached")
    page.wait_for_selector(".nc-batch", state="visible")
    # Gradio follows the system's scheme a moment after the page is there.
    dark = "true" if scheme == "dark" else "false"
    page.wait_for_function(f"document.body.classList.contains('dark') === {dark}")
    page.fill(".nc-batch-prompts", "a fox")
    page.click(".nc-batch-more summary")
    page.click(".nc-batch-start")
    page.wait_for_selector(".nc-batch[data-state=done]", timeout=30_000)
    page.wait_for_selector(".nc-batch-newest img")
    page.mouse.move(0, 0)
    page.wait_for_timeout(500)  # the pressed button's colour takes a moment to be its own again
    found = Axe().run(page).response["violations"]
    serious = [rule["id"] for rule in found if rule["impact"] in ("serious", "critical")]
    assert not serious
    assert page.evaluate("document.documentElement.scrollWidth") <= width
