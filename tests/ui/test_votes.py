"""Votes: what they are worth, that none is lost, and that nothing tells before the vote."""

from __future__ import annotations

import csv
import io
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np
import pytest

from models.catalogue import CATALOGUE, find_variant
from tests.ui.conftest import Site, serving
from tests.ui.world import PageWorld, start
from ui.frames import unpack
from ui.votes.matches import Match, NoMatch, OpenMatches, make_match, pairs
from ui.votes.ratings import MEAN, POINTS, rated
from ui.votes.store import COLUMNS, AlreadyVoted, Vote, VoteStore, VotesUnavailable, default_file

NAMES = ("a", "b", "c", "d", "e")
STRENGTHS = np.array([1.0, 0.5, 0.0, -0.4, -1.1])


def simulated(seed: int, count: int = 2000, ties: float = 0.0) -> list[tuple[str, str, str]]:
    random = np.random.default_rng(seed)
    out = []
    for _ in range(count):
        i, j = random.choice(len(NAMES), 2, replace=False)
        chance = 1 / (1 + np.exp(STRENGTHS[j] - STRENGTHS[i]))
        if random.random() < ties:
            choice = "tie"
        else:
            choice = "left" if random.random() < chance else "right"
        out.append((NAMES[i], NAMES[j], choice))
    return out


# ---- ratings ----


def test_two_thousand_votes_recover_the_order_and_cover_the_strengths_at_95_percent() -> None:
    truth = dict(zip(NAMES, MEAN + POINTS * (STRENGTHS - STRENGTHS.mean()), strict=True))
    covered = []
    for seed in range(60):
        rows = rated(simulated(seed))
        assert [row.variant for row in rows] == list(NAMES), seed
        for row in rows:
            assert row.low is not None and row.high is not None
            covered.append(row.low <= truth[row.variant] <= row.high)
    assert 0.91 <= np.mean(covered) <= 0.985


def test_ties_draw_together_and_both_bad_moves_nobody() -> None:
    plain = {row.variant: row.rating for row in rated(simulated(1))}
    tied = {row.variant: row.rating for row in rated(simulated(1, ties=0.5))}
    assert tied["a"] - tied["e"] < plain["a"] - plain["e"]  # type: ignore[operator]
    votes = simulated(2)
    bad = [("a", "b", "both bad")] * 500
    for before, after in zip(rated(votes), rated(votes + bad), strict=True):
        assert before.rating == pytest.approx(after.rating)
    assert sum(row.votes for row in rated(bad)) == 1000 and rated(bad)[0].rating is None


def test_who_wins_every_time_keeps_a_finite_rating() -> None:
    rows = rated([("a", "b", "left")] * 50)
    assert [row.variant for row in rows] == ["a", "b"]
    assert all(row.rating is not None and abs(row.rating - MEAN) < 2000 for row in rows)
    assert rows[0].win_rate == 1.0 and rated([]) == []


def test_sides_do_not_matter() -> None:
    votes = simulated(3)
    swap = {"left": "right", "right": "left", "tie": "tie"}
    turned = [(right, left, swap[choice]) for left, right, choice in votes]
    for one, other in zip(rated(votes), rated(turned), strict=True):
        assert one.rating == pytest.approx(other.rating)


# ---- matches ----


def test_the_same_variant_never_meets_itself_and_sizes_are_equal() -> None:
    for seed in range(300):
        match = make_match(seed, CATALOGUE)
        left, right = find_variant(match.left), find_variant(match.right)
        assert left.id != right.id and left.resolution == right.resolution


def test_a_match_follows_from_its_seed_and_both_sides_and_all_pairs_occur() -> None:
    variants = [variant for variant in CATALOGUE if variant.embedded]
    assert make_match(5, variants) == make_match(5, variants)
    seen = {(m.left, m.right) for m in (make_match(seed, variants) for seed in range(400))}
    assert seen == {each for a, b in pairs(variants) for each in ((a.id, b.id), (b.id, a.id))}
    assert make_match(5, variants, "my own words").prompt == "my own words"
    assert make_match(5, variants).picture_seed == make_match(5, variants, "x").picture_seed


def test_without_two_of_a_size_there_is_no_match() -> None:
    with pytest.raises(NoMatch, match="two models that draw at the same size"):
        make_match(1, [find_variant("pocket-ar"), find_variant("nitro-e")])


def test_open_matches_are_bounded_and_belong_to_one() -> None:
    open_matches, match = OpenMatches(most=3), Match(1, "x", "a", "b", 2)
    names = [f"match {n}" for n in range(4)]
    for name in names:
        open_matches.add(name, "me", match)
    assert open_matches.get(names[0], "me") is None
    assert open_matches.get(names[3], "me") is match and open_matches.get(names[3], "you") is None


# ---- the file ----


def vote(name: str, choice: str = "left") -> Vote:
    return Vote(
        name, 7, 'a "fox",\nred 🦊', "pocket-ar", "pocket-ar-joint", 11, choice, "2026", "v"
    )


def test_fifty_voters_at_once_lose_nothing_and_count_once(tmp_path: Path) -> None:
    stores = [VoteStore(tmp_path / "votes.db") for _ in range(5)]  # as from several processes

    def voter(number: int) -> int:
        kept = 0
        for turn in range(10):
            for _ in range(2):  # everybody is impatient and clicks twice
                try:
                    stores[number % 5].add(vote(f"{number}-{turn}"))
                    kept += 1
                except AlreadyVoted:
                    pass
        return kept

    with ThreadPoolExecutor(50) as crowd:
        assert sum(crowd.map(voter, range(50))) == 500
    assert len({each.match for each in stores[0].votes()}) == 500 == len(stores[0].votes())


def test_a_crash_in_mid_write_loses_no_vote_that_was_acknowledged(tmp_path: Path) -> None:
    program = textwrap.dedent(
        """
        import sys
        from pathlib import Path
        from ui.votes.store import Vote, VoteStore
        store, number = VoteStore(Path(sys.argv[1])), 0
        while True:
            name = f"{sys.argv[2]}-{number}"
            store.add(Vote(name, 1, "x" * 2000, "a", "b", 2, "left", "2026", "v"))
            print(name, flush=True)
            number += 1
        """
    )
    acknowledged: set[str] = set()
    for turn in range(3):
        child = subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path / "votes.db"), str(turn)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        assert child.stdout is not None
        for _ in range(40):
            acknowledged.add(child.stdout.readline().strip())
        os.kill(child.pid, signal.SIGKILL)
        acknowledged |= {line.strip() for line in child.stdout if line.endswith("\n")}
        child.wait()
    kept = {each.match for each in VoteStore(tmp_path / "votes.db").votes()}
    assert acknowledged <= kept and len(acknowledged) >= 120
    assert len(kept) <= len(acknowledged) + 3  # at most the one at work, each time


def test_a_file_that_cannot_be_written_to_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    store = VoteStore(tmp_path / "file" / "votes.db")
    for call in (store.votes, lambda: store.add(vote("m"))):
        with pytest.raises(VotesUnavailable, match="NITRO_VOTES"):
            call()
    (tmp_path / "damaged.db").write_bytes(b"no database at all" * 100)
    with pytest.raises(VotesUnavailable, match="NITRO_VOTES"):
        VoteStore(tmp_path / "damaged.db").votes()


def test_where_votes_are_kept(tmp_path: Path) -> None:
    assert default_file({"NITRO_VOTES": "/x/y.db"}) == Path("/x/y.db")
    assert default_file({"XDG_DATA_HOME": "/d"}) == Path("/d/nitro-canvas/votes.db")


# ---- over HTTP ----


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    file = tmp_path_factory.mktemp("votes") / "votes.db"
    with (
        start(PageWorld(step_s=0.002), ("pocket-ar", "pocket-ar-joint")) as engine,
        serving(engine, votes=file) as made,
    ):
        yield made


class Voter:
    def __init__(self, site: Site) -> None:
        self.http = httpx.Client(base_url=site.address, timeout=60)
        session = self.http.post("canvas/session").json()["session"]
        self.http.headers["x-nitro-session"] = session

    def drawn(self, address: str = "votes/match", **body: str) -> tuple[bytes, list]:
        answer = self.http.post(address, json=body)
        assert answer.status_code == 200, answer.text
        return answer.content, list(unpack(answer.content))

    def votes(self, match: str, choice: str = "left") -> httpx.Response:
        return self.http.post("votes/vote", json={"match": match, "choice": choice})


def match_of(messages: list) -> dict:
    assert messages[0][0]["event"] == "match"
    return messages[0][0]


def pictures(messages: list) -> dict[str, bytes]:
    return {header["slot"]: body for header, body in messages if header["event"] == "picture"}


def test_nothing_that_is_sent_before_the_vote_names_a_variant(site: Site) -> None:
    voter = Voter(site)
    raw, messages = voter.drawn(prompt="a fox")
    for variant in CATALOGUE:
        for word in (variant.id, variant.title):
            assert word.encode() not in raw
    header = match_of(messages)
    assert set(header) == {"event", "match", "prompt"} and header["prompt"] == "a fox"
    # Both pictures come at the very end, left first, whoever was quicker.
    assert [h["event"] for h, _ in messages[-2:]] == ["picture", "picture"]
    assert [h["slot"] for h, _ in messages[-2:]] == ["left", "right"]
    assert {frozenset(h) for h, _ in messages[-2:]} == {frozenset({"event", "slot", "width"})}
    told = voter.votes(header["match"], "right").json()
    assert {told["left"], told["right"]} == {"pocket-ar", "pocket-ar-joint"}


def test_a_match_is_voted_on_once_and_by_its_own_visitor(site: Site) -> None:
    voter, other = Voter(site), Voter(site)
    match = match_of(voter.drawn()[1])["match"]
    assert other.votes(match).status_code == 404
    assert voter.votes(match, "best").status_code == 400
    assert voter.votes(match, "tie").status_code == 200
    assert voter.votes(match, "left").status_code == 409
    board = voter.http.get("votes/board").json()
    assert board["votes"] >= 1 and board["pairs"][0]["pair"] == ["pocket-ar", "pocket-ar-joint"]
    row = next(
        r for r in csv.DictReader(io.StringIO(voter.http.get("votes/votes.csv").text))
        if r["match"] == match
    )  # fmt: skip
    assert row["choice"] == "tie" and "voter" not in row
    assert list(row) == [name for name in COLUMNS if name != "voter"]


def test_a_replay_is_the_match_again_pixel_for_pixel(site: Site) -> None:
    voter = Voter(site)
    _, messages = voter.drawn()
    match = match_of(messages)["match"]
    answer = voter.http.post("votes/replay", json={"match": match})
    assert answer.status_code == 404  # not before the vote: it would tell
    told = voter.votes(match).json()
    _, again = Voter(site).drawn("votes/replay", match=match)
    assert pictures(again) == pictures(messages) and len(pictures(again)) == 2
    assert match_of(again)["left"] == told["left"] and match_of(again)["prompt"]


def test_a_broken_picture_ends_the_match_without_names(site: Site) -> None:
    raw, messages = Voter(site).drawn(prompt="explode")
    assert any(header["event"] == "failed" for header, _ in messages)
    assert not pictures(messages) and b"pocket" not in raw.lower()
    assert Voter(site).votes(match_of(messages)["match"]).status_code == 404  # nobody saw them


def test_other_sites_and_strange_bodies_are_refused_in_words(site: Site) -> None:
    voter = Voter(site)
    for body in ([1], {"match": 5, "choice": "left"}, {"choice": "left"}):
        answer = voter.http.post("votes/vote", json=body)
        assert answer.status_code == 400 and answer.json()["error"]
    answer = voter.http.post(
        "votes/match",
        json={},
        headers={"origin": "https://evil.example", "sec-fetch-site": "cross-site"},
    )
    assert answer.status_code == 403
    assert httpx.post(f"{site.address}votes/match", json={}).status_code == 401
    assert voter.http.post("votes/match", json={"prompt": "x" * 3000}).status_code == 400


# ---- in the browser ----


@pytest.mark.browser
def test_vote_with_the_keyboard_then_the_names_and_the_table(page, site: Site) -> None:
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(site.address + "#vote")
    page.wait_for_selector(".nc-vote", state="visible")
    page.wait_for_selector('[data-ready="yes"]', state="attached")
    page.click(".nc-vote-next")
    page.wait_for_selector(".nc-vote[data-state=asking]", timeout=60_000)
    shown = page.inner_text(".nc-vote-pair") + page.inner_text(".nc-vote-status")
    assert "Pocket" not in shown
    assert page.evaluate(
        "() => !document.querySelector('.nc-vote').outerHTML.split('nc-board')[0].includes('pocket')"
    )
    page.keyboard.press("ArrowLeft")
    page.wait_for_selector(".nc-vote[data-state=told]")
    names = {page.inner_text(f"[data-side={side}] figcaption") for side in ("left", "right")}
    assert names == {"Pocket AR", "Pocket AR Joint"}
    page.wait_for_selector(".nc-board-table tbody tr")
    assert page.get_attribute("[data-choice=left]", "aria-pressed") == "true"
    before = page.evaluate("document.querySelector('[data-side=left] canvas').toDataURL()")
    page.keyboard.press("n")
    page.wait_for_selector(".nc-vote[data-state=asking]", timeout=60_000)
    assert page.inner_text("[data-side=left] figcaption") == ""
    page.click(".nc-board-last summary")
    page.click(".nc-board-last li:first-child button")
    page.wait_for_selector(".nc-vote[data-state=told]", timeout=60_000)
    assert page.evaluate("document.querySelector('[data-side=left] canvas').toDataURL()") == before
    assert not complaints
