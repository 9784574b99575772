"""The Numbers page: what is measured is measured, by one at a time, and can be stopped."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import httpx
import pytest

from tests.deploy.sources import ROOT
from tests.ui.conftest import Site, serving
from tests.ui.world import PageWorld, start
from ui.numbers.desk import Busy, NumbersDesk, measuring_allowed
from ui.numbers.measure import ALONE, MeasuringFailed, measure, summed_up

VARIANTS = ("pocket-ar", "pocket-ar-joint")


def test_the_median_counts_and_half_the_range_is_told() -> None:
    assert summed_up([10, 100, 12, 11, 14]) == (12, 45)


def test_latency_and_throughput_are_those_of_the_engine() -> None:
    world = PageWorld(step_s=0.01)
    shares: list[float] = []
    with start(world, VARIANTS, max_batch=4) as engine:
        made = measure(engine, "pocket-ar", "now", lambda: False, shares.append)
    assert made is not None and made.runs == ALONE and made.batch == 4 and made.company == 0
    steps = 24  # the variant's default; the world sleeps in each
    assert steps * 10 <= made.latency_ms < 3 * steps * 10
    # Four share each step, so they take hardly longer than one.
    assert 1000 / made.latency_ms < made.throughput <= 4.4 * 1000 / made.latency_ms
    assert shares == sorted(shares) and shares[-1] == 1.0 and len(shares) == 1 + ALONE + 4


def test_it_stops_at_once_and_leaves_nothing_in_the_engine() -> None:
    world = PageWorld(step_s=0.05)
    with start(world, VARIANTS) as engine:
        desk = NumbersDesk(engine)
        desk.start(list(VARIANTS))
        with pytest.raises(Busy, match="already"):
            desk.start(["pocket-ar"])
        time.sleep(0.3)
        desk.stop()
        assert desk._thread is not None
        desk._thread.join(3)
        told = desk.look()
        assert not told["running"] and "Stopped" in told["message"] and not told["measured"]
        for _ in range(40):
            status = engine.status()
            if not status.waiting + status.running:
                break
            time.sleep(0.05)
        assert not status.waiting + status.running


def test_a_picture_that_fails_says_why_and_the_next_variant_is_measured() -> None:
    world = PageWorld(step_s=0.001)
    with start(world, ("nitro-ar-gan", "pocket-ar-joint")) as engine:
        with pytest.raises(MeasuringFailed, match="weights"):
            measure(engine, "nitro-ar-gan", "now", lambda: False, lambda share: None)
        desk = NumbersDesk(engine)
        desk.start(["nitro-ar-gan", "pocket-ar-joint"])
        assert desk._thread is not None
        desk._thread.join(20)
        assert [each["variant"] for each in desk.look()["measured"]] == ["pocket-ar-joint"]


def test_hosts_can_switch_it_off() -> None:
    assert measuring_allowed({}) and not measuring_allowed({"NITRO_MEASURE": "off"})
    assert not measuring_allowed({"SPACE_ID": "x"})
    assert measuring_allowed({"SPACE_ID": "x", "NITRO_MEASURE": "on"})


def test_the_readme_s_table_is_the_page_s() -> None:
    stored = json.loads((ROOT / "assets/pocket/pocketeval.json").read_text("utf-8"))
    readme = (ROOT / "README.md").read_text("utf-8")
    for name, scores in stored["variants"].items():
        line = f"| {name} | " + " | ".join(f"{value:.2f}" for value in scores.values()) + " |"
        assert line in readme, line


# ---- over HTTP and in the browser ----


@pytest.fixture(scope="module")
def world() -> PageWorld:
    return PageWorld(step_s=0.004)


@pytest.fixture(scope="module")
def site(world: PageWorld, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    votes = tmp_path_factory.mktemp("votes") / "votes.db"
    with start(world, VARIANTS, max_batch=4) as engine, serving(engine, votes=votes) as made:
        yield made


def test_unknown_models_and_strangers_are_refused(site: Site) -> None:
    http = httpx.Client(base_url=site.address)
    assert http.post("numbers/measure", json={"variants": ["pocket-ar"]}).status_code == 401
    http.headers["x-nitro-session"] = http.post("canvas/session").json()["session"]
    for body in ({}, {"variants": []}, {"variants": ["nitro-e"]}, [1]):
        answer = http.post("numbers/measure", json=body)
        assert answer.status_code == 400 and "pocket-ar-joint" in answer.json()["error"]


@pytest.mark.browser
def test_measure_in_the_browser_then_stop_another_one(page, site: Site, world: PageWorld) -> None:
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(site.address + "#numbers")
    page.wait_for_selector(".nc-numbers", state="visible")
    page.wait_for_selector(".nc-quality tbody tr")
    assert page.inner_text(".nc-plot") == "Measure, and the models appear here."
    page.click(".nc-measure")
    page.wait_for_selector(".nc-numbers[data-state=measuring]")
    page.wait_for_selector(".nc-numbers[data-state=resting]", timeout=60_000)
    cells = page.inner_text(".nc-speed tbody tr >> nth=0").split("\t")
    assert " ms ± " in cells[1] and "at once" in cells[2] and "FLOP" in cells[3]
    assert page.locator(".nc-plot circle").count() == 2
    assert "Pocket AR Joint: " in page.text_content("#nc-plot-text")
    page.reload()  # the server and the browser remember
    page.wait_for_selector(".nc-plot circle")
    world.step_s = 0.05
    page.click(".nc-measure")
    page.wait_for_selector(".nc-numbers[data-state=measuring]")
    page.click(".nc-measure-stop")
    page.wait_for_selector(".nc-numbers[data-state=resting]", timeout=10_000)
    assert "Stopped" in page.inner_text(".nc-numbers-status")
    assert page.locator(".nc-plot circle").count() == 2 and not complaints
