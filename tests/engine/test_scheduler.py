"""Who goes next: the line alone, without threads and without torch."""

from __future__ import annotations

from collections.abc import Hashable

import pytest

from engine.job import Job
from engine.limits import EngineLimits
from engine.requests import GenerationRequest
from engine.scheduler import QueueFull, Scheduler, Ticket

LIMITS = EngineLimits(max_batch=4, queue_size=100, queue_per_owner=64)


def ticket(owner: str, slot: str = "live", variant: str = "pocket-ar", steps: int = 12) -> Ticket:
    request = GenerationRequest(prompt="a cat", variant=variant)
    return Ticket(Job(request=request, owner=owner, slot=slot), steps=steps, step_s=0.1)


def key(one: Ticket) -> Hashable | None:
    return one.variant


def batch(line: Scheduler, limit: int = 4) -> list[Ticket]:
    """One step of the device, as the worker takes it."""
    chosen = line.next_batch(key, lambda _: limit)
    for one in chosen:
        one.state = one.state or object()
        one.done += 1
        if one.done == one.steps:
            line.remove(one)
    return chosen


def test_one_big_batch_does_not_starve_a_typist() -> None:
    line = Scheduler(LIMITS)
    for index in range(64):
        line.add(ticket("flood", f"batch-{index}"))
    for _ in range(5):
        batch(line)
    for _ in range(6):  # picture after picture
        mine = ticket("typist")
        line.add(mine)
        steps = 0
        while not mine.gone:
            batch(line)
            steps += 1
        assert steps <= 13, "the typist's picture took more than its own steps and one"


def test_a_flood_is_not_starved_by_typists_either() -> None:
    line = Scheduler(LIMITS)
    flood = [ticket("flood", f"batch-{index}") for index in range(8)]
    for one in flood:
        line.add(one)
    for _ in range(200):
        for typist in range(6):
            if line.find(f"typist-{typist}", "live") is None:
                line.add(ticket(f"typist-{typist}"))
        batch(line)
        if all(one.gone for one in flood):
            break
    assert all(one.gone for one in flood), "not served in 200 steps"


def test_what_has_begun_is_finished_first() -> None:
    line = Scheduler(LIMITS)
    for index in range(20):
        line.add(ticket(f"owner-{index}"))
    begun_at_once = 0
    while len(line):
        batch(line)
        begun_at_once = max(begun_at_once, sum(t.state is not None for t in line.tickets))
    assert begun_at_once <= 4, "pictures in progress hold memory"


def test_newest_wins_in_its_slot_only() -> None:
    line = Scheduler(LIMITS)
    first, other, newer = ticket("a"), ticket("a", "column-2"), ticket("a")
    assert line.add(first) is None
    assert line.add(other) is None
    assert line.add(newer) is first
    assert first.gone and not other.gone
    assert set(line.tickets) == {other, newer}


def test_superseding_costs_no_place_in_the_line() -> None:
    line = Scheduler(LIMITS)
    line.add(ticket("someone"))
    for _ in range(50):  # keystrokes that were never drawn
        line.add(ticket("typist"))
    rival = ticket("rival")
    line.add(rival)
    mine = line.find("typist", "live")
    assert mine is not None and mine.tag == rival.tag


def test_queue_full_names_the_wait_and_changes_nothing() -> None:
    line = Scheduler(EngineLimits(max_batch=2, queue_size=4, queue_per_owner=3))
    held = [ticket("a", "1"), ticket("a", "2"), ticket("a", "3"), ticket("b", "1")]
    for one in held:
        line.add(one)
    with pytest.raises(QueueFull, match="one visitor") as refusal:
        line.add(ticket("a", "4"))
    assert refusal.value.expected_wait_s > 0
    with pytest.raises(QueueFull, match="try again") as refusal:
        line.add(ticket("c"))
    assert refusal.value.expected_wait_s == pytest.approx(4 * 12 * 0.1 / 2)
    assert line.tickets == tuple(sorted(held, key=lambda one: one.rank))
    line.add(ticket("a", "1"))  # taking an own slot needs no room


def test_columns_of_a_comparison_stream_together() -> None:
    line = Scheduler(LIMITS)
    line.add(ticket("a", "left", "pocket-ar"))
    line.add(ticket("a", "right", "pocket-ar-joint"))
    order = [batch(line)[0].variant for _ in range(6)]
    assert order == ["pocket-ar", "pocket-ar-joint"] * 3


def test_tickets_that_cannot_run_hold_up_nobody() -> None:
    line = Scheduler(LIMITS)
    waiting, ready = ticket("a", variant="pocket-ar-joint"), ticket("b")
    line.add(waiting)
    line.add(ready)
    chosen = line.next_batch(lambda t: None if t is waiting else key(t), lambda _: 4)
    assert chosen == [ready]


def test_a_suspect_runs_alone() -> None:
    line = Scheduler(LIMITS)
    suspect, other = ticket("a"), ticket("b")
    suspect.alone = True
    line.add(suspect)
    line.add(other)
    assert line.next_batch(key, lambda _: 4) == [suspect]
    line.remove(suspect)
    assert line.next_batch(key, lambda _: 4) == [other]


def test_forecast_counts_places_and_waits() -> None:
    line = Scheduler(EngineLimits(max_batch=2))
    for index in range(6):
        line.add(ticket(f"owner-{index}"))
    places = [place for _, place in line.forecast()]
    assert [place.position for place in places] == list(range(6))
    assert places[0].expected_wait_s == places[1].expected_wait_s == 0
    assert places[4].expected_wait_s == pytest.approx(4 * 1.2 / 2)
    batch(line, 2)
    assert len(line.forecast()) == 4, "those that have begun don't wait"


def test_an_empty_line_remembers_nobody() -> None:
    line = Scheduler(LIMITS)
    for index in range(300):
        one = ticket(f"owner-{index}")
        line.add(one)
        line.remove(one)
    assert not line._owners and not line._turns
