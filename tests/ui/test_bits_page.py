"""Binary tokens on the page: the raster, another size without a new generation, a kept prefix."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engine.engine import Engine
from models.catalogue import find_variant
from models.loading import Loader
from tests.ui.conftest import Site, serving
from tests.ui.live import Live
from ui.variants import cards

pytestmark = pytest.mark.browser
VARIANTS = ["pocket-instella", "pocket-ar-joint"]
PICTURE = "document.querySelector('.nc-picture').toDataURL()"
RASTER = "document.querySelector('.nc-raster').toDataURL()"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    votes = tmp_path_factory.mktemp("votes") / "votes.db"
    with Engine(Loader().load, VARIANTS) as engine:
        assert engine.wait_ready(60)
        with serving(engine, votes=votes) as made:
            yield made


@pytest.fixture
def live(page, site: Site) -> Iterator[Live]:
    visit = Live(page, site)
    yield visit
    assert not visit.complaints


def finished(live: Live) -> None:
    live.page.wait_for_selector(".nc-stage[data-state=finished]", timeout=30_000)


def test_bits_fill_in_sizes_change_and_a_prefix_stays(live: Live) -> None:
    page = live.page
    assert "64 tokens in a row" in page.inner_text("#nc-variant-card")
    empty = page.evaluate(RASTER)
    page.fill("#nc-prompt textarea", "a fox on a blue background")
    finished(live)
    assert page.evaluate(RASTER) != empty
    assert "64 tokens of 16 bits" in page.inner_text(".nc-bits-words")
    assert page.evaluate("document.querySelector('.nc-raster').width") == 64
    values = page.evaluate(RASTER)
    page.click(".nc-certain")
    assert page.evaluate(RASTER) != values
    page.click(".nc-certain")
    steps = live.site.engine.status().counters.steps
    page.select_option(".nc-size", "256")
    page.wait_for_function("document.querySelector('.nc-picture').width === 256")
    finished(live)
    assert live.site.engine.status().counters.steps == steps, "the tokens were drawn again"
    assert page.evaluate(RASTER) == values
    assert page.is_visible(".nc-timeline"), "the steps are the same"
    page.locator(".nc-prefix").fill("40")
    page.wait_for_function("document.querySelector('.nc-base').textContent.includes('first 40')")
    page.wait_for_function(
        "document.querySelector('[data-fact=step]').textContent.startsWith('24 / 24')"
    )
    finished(live)
    page.click(".nc-shelf li:last-child button")  # an older picture: nothing is kept any more
    page.wait_for_function("document.querySelector('.nc-prefix').value === '0'")
    assert page.inner_text(".nc-prefix-count") == "none"


def test_repainting_says_why_not_and_what_instead(live: Live) -> None:
    page = live.page
    page.fill("#nc-prompt textarea", "a cat")
    live.wait(shown="a cat")
    page.click("[data-choose=paint]")
    assert page.get_attribute(".nc-stage", "data-mode") == "look"
    words = page.inner_text(".nc-status")
    assert "no place in the picture" in words and "Keep its first tokens" in words


def test_scrubbing_moves_the_bits_too_and_a_fork_goes_on(live: Live) -> None:
    page = live.page
    page.fill("#nc-prompt textarea", "a cat on green")
    live.wait(shown="a cat on green")
    whole = page.evaluate(RASTER)
    page.wait_for_function("document.querySelector('.nc-film').children.length > 1")
    page.locator(".nc-scrub").fill("0")
    page.wait_for_function(f"{RASTER} !== {whole!r}")
    page.click(".nc-fork")
    page.fill("#nc-prompt textarea", "a dog on green")
    live.wait(shown="a dog on green")


def test_other_models_show_no_bits(live: Live) -> None:
    page = live.page
    page.click("#nc-variant label >> nth=1")
    page.wait_for_selector(".nc-bits", state="hidden")
    page.click("#nc-variant label >> nth=0")
    page.wait_for_selector(".nc-bits", state="visible")


def test_a_link_carries_the_size(live: Live) -> None:
    page = live.page
    page.goto(live.site.address + "?prompt=a+fox&variant=pocket-instella&seed=3&size=64")
    page.wait_for_function("document.querySelector('.nc-picture')?.width === 64", timeout=30_000)
    assert page.input_value(".nc-size") == "64"


def test_a_card_of_a_research_only_variant_has_its_notice(site: Site) -> None:
    variant = find_variant("instella-ar")
    assert "Research-Only RAIL-MS" in variant.research_only
    assert all("research_only" in card and "sizes" in card for card in cards(site.engine))


def test_beside_another_model_in_compare(live: Live) -> None:
    page = live.page
    page.click(".nc-pages a >> text=Compare")
    page.wait_for_selector(".nc-compare", state="visible")
    page.fill(".nc-compare-prompt", "a fox on blue")
    page.fill(".nc-compare-seed", "5")
    page.select_option(".nc-pane >> nth=0 >> select", "pocket-instella")
    page.select_option(".nc-pane >> nth=1 >> select", "pocket-ar-joint")
    page.click(".nc-compare-draw")
    for pane in (0, 1):
        page.wait_for_selector(
            f".nc-pane:nth-child({pane + 1})[data-state=finished]", timeout=30_000
        )
    facts = [page.inner_text(f".nc-pane >> nth={pane} >> .nc-pane-facts") for pane in (0, 1)]
    assert "64" in facts[0] and "128" in facts[0]  # tokens, and passes of two branches
    assert all("FLOP" in each and "MB" in each for each in facts)
    # One iteration and one flow step leave nothing to choose: CFG is the only control.
    shown = page.locator(".nc-pane >> nth=0 >> .nc-pane-numbers input:visible")
    assert shown.count() == 1 and page.locator(".nc-pane-numbers input:visible").count() > 2
    assert int(page.get_attribute(".nc-pane >> nth=0", "data-frames")) > 1
