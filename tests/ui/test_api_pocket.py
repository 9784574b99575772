"""Every named endpoint, called by `gradio_client` as a program would, with the shipped weights."""

from __future__ import annotations

import base64
import io
import json
import time
import zipfile
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest
from gradio_client import Client
from PIL import Image

from engine.engine import Engine
from models.loading import Loader
from models.sources import Sources
from tests.ui.conftest import Site, generous, serving
from tests.ui.world import PageWorld, start
from ui.batch.plan import request_of
from ui.grid.sheet import KEY
from ui.guard import RateLimit

VARIANTS = ["pocket-ar", "pocket-ar-joint"]
FOX = "a fox on a blue background"


@pytest.fixture(scope="module")
def pocket() -> Iterator[Site]:
    loader = Loader(Sources())
    engine = Engine(loader.load, VARIANTS, device=loader.device)
    assert engine.wait_ready(60)
    guard = generous()
    guard.pages = RateLimit(1000, 10_000)
    with engine, serving(engine, guard, most_pictures=12) as site:
        yield site


@pytest.fixture
def client(pocket: Site) -> Iterator[Client]:
    yield Client(pocket.address, verbose=False)
    assert pocket.rests()


def picture(uri: str) -> Image.Image:
    """Decoded to its last pixel."""
    image = Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2])))
    image.load()
    return image


def is_drawn(image: Image.Image) -> bool:
    """Neither empty nor of one colour."""
    small = np.asarray(image.convert("RGB").resize((16, 16)))
    return image.size == (128, 128) and len(np.unique(small.reshape(-1, 3), axis=0)) > 8


def test_status_and_variants_say_what_there_is(client: Client) -> None:
    cards = client.predict(api_name="/variants")
    assert [card["id"] for card in cards] == VARIANTS
    assert all(card["state"] == "ready" and card["weights"] == "pocket" for card in cards)
    status = client.predict(api_name="/status")
    assert status["running"] == status["waiting"] == 0 and status["max_batch"] >= 1


def test_generate_draws_and_repeats_what_its_settings_say(client: Client) -> None:
    answers = list(client.submit(FOX, seed=7, ar_iterations=6, api_name="/generate"))
    steps = [head for head, _ in answers if head["event"] == "step"]
    end, uri = answers[-1]
    assert end["event"] == "finished" and end["seed"] == 7 and is_drawn(picture(uri))
    assert steps and steps[-1]["total"] == 6
    settings = {key: value for key, value in end["settings"].items() if key != "preview"}
    assert list(client.submit(**settings, api_name="/generate"))[-1][1] == uri


def test_compare_draws_in_every_pane(client: Client) -> None:
    panes = [{"variant": "pocket-ar", "ar_iterations": 4}, {"variant": "pocket-ar-joint"}]
    answers = list(client.submit(FOX, panes, seed=3, api_name="/compare"))
    ends = {h["slot"]: (h, uri) for h, uri in answers if h["event"] == "finished"}
    assert sorted(ends) == ["pane 1", "pane 2"]
    assert [h["settings"]["variant"] for h, _ in ends.values()].count("pocket-ar") == 1
    assert all(is_drawn(picture(uri)) for _, uri in ends.values())


def test_grid_labels_its_cells_and_ends_with_their_sheet(client: Client) -> None:
    answers = list(
        client.submit(
            FOX, "ar_iterations: 2, 4", "seed: 1-2", flow_steps=None, cfg_scale=2,
            api_name="/grid",
        )
    )  # fmt: skip
    cells, (end, sheet) = answers[:-1], answers[-1]
    assert [h["done"] for h, _ in cells] == [1, 2, 3, 4] and {h["cells"] for h, _ in cells} == {4}
    for header, uri in cells:
        assert header["event"] == "finished" and is_drawn(picture(uri))
        assert header["settings"]["ar_iterations"] == header["axes"]["ar_iterations"]
        assert header["settings"]["cfg_scale"] == 2
    assert (end["event"], end["cells"], end["places"]) == ("sheet", 4, 4)
    text = json.loads(picture(sheet).text[KEY])  # type: ignore[attr-defined]
    assert text["axes"][0] == {"key": "ar_iterations", "values": [2, 4]}


def test_batch_tells_how_far_it_is_and_ends_with_a_zip(client: Client, pocket: Site) -> None:
    answers = list(
        client.submit(
            "a {red|blue} {apple|car}", kind="template", variants=VARIANTS, format="webp",
            settings={"ar_iterations": 2}, api_name="/batch",
        )
    )  # fmt: skip
    end = answers[-1]
    assert (end["state"], end["done"], end["total"], end["failed"]) == ("done", 8, 8, 0)
    done = [answer["done"] for answer in answers]
    assert done == sorted(done) and end["rate"] > 0
    archive = zipfile.ZipFile(io.BytesIO(httpx.get(pocket.address + end["zip"]).content))
    lines = [json.loads(line) for line in archive.read("metadata.jsonl").splitlines()]
    files = {name for name in archive.namelist() if name.endswith(".webp")}
    assert {line["file_name"] for line in lines} == files and len(files) == 8
    for line in lines:
        assert is_drawn(Image.open(io.BytesIO(archive.read(line["file_name"]))))
        assert request_of(line).ar_iterations == 2


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("/generate", {"prompt": FOX, "variant": "gpt"}, "gpt"),
        ("/compare", {"prompt": FOX, "panes": [{}] * 17}, "1 to 16"),
        ("/grid", {"prompt": FOX, "x": "seed: 0-8", "y": "cfg_scale: 1-8"}, "at most 64"),
        ("/grid", {"prompt": FOX, "x": "seed: 0-1", "y": "seed: 2-3"}, "same"),
        ("/grid", {"prompt": FOX, "x": "seed: 0-1", "y": "cfg_scale: 1", "variant": "x"}, "x"),
        ("/batch", {"prompts": "a fox\n" * 13}, "at most 12"),
        ("/batch", {"prompts": "{a|b|c} x\n" * 5, "kind": "template"}, "at most 12"),
        ("/batch", {"prompts": "{a|b}" * 900, "kind": "template"}, "4,000 characters"),
        ("/batch", {"prompts": FOX, "settings": {"cfg_scale": 99}}, "CFG scale"),
    ],
)
def test_too_much_and_nonsense_is_refused_in_words(
    client: Client, pocket: Site, name: str, values: dict[str, Any], words: str
) -> None:
    asked = pocket.asked
    with pytest.raises(Exception, match=words):
        client.predict(**values, api_name=name)
    assert pocket.asked == asked


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("/compare", {"prompt": FOX, "panes": [{"ar_iterations": 64}] * 4}),
        ("/grid", {"prompt": FOX, "x": "seed: 0-7", "y": "ar_iterations: 4, 64"}),
        ("/batch", {"prompts": FOX, "seeds": 40, "settings": {"ar_iterations": 64}}),
    ],
)
def test_a_caller_who_goes_away_leaves_no_job_behind(name: str, values: dict[str, Any]) -> None:
    """Half a minute of work, given up after its first answer."""
    with (
        start(PageWorld(step_s=0.03), VARIANTS, max_batch=2) as engine,
        serving(engine, most_pictures=100) as site,
    ):
        job = Client(site.address, verbose=False).submit(**values, api_name=name)
        end = time.monotonic() + 20
        while not job.outputs() and time.monotonic() < end:
            time.sleep(0.02)
        assert job.outputs()
        job.cancel()
        assert site.rests(5)
        counters = engine.status().counters
        assert counters.finished < counters.submitted
        time.sleep(0.5)
        assert engine.status().counters.submitted == counters.submitted


def test_two_grids_of_one_caller_do_not_take_each_others_place(client: Client) -> None:
    jobs = [
        client.submit(prompt, "seed: 0-1", "ar_iterations: 2, 3", api_name="/grid")
        for prompt in ("a cat", "a dog")
    ]
    assert [job.result()[0]["cells"] for job in jobs] == [4, 4]
    for job in jobs:
        assert {head["event"] for head, _ in job.outputs()} == {"finished", "sheet"}
