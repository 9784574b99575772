"""The desk: the lock, the line and the counters. Every ticket comes and goes through here.

Visitors' threads submit and withdraw, the worker takes batches and reports. One lock covers both,
held for microseconds and never while the device works.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Literal

from engine.events import Event, Failed, Finished, Started, Superseded
from engine.limits import EngineLimits
from engine.results import picture_key
from engine.scheduler import QueueFull, Scheduler, Ticket
from engine.status import Counters

PLACE_MARK = "#"  # between a slot and the place of one of its many pictures
_FORECAST_EVERY_S = 0.25
_CLOSED = "The server is shutting down. Please try again in a minute."


class EngineClosed(RuntimeError):
    """The engine is shutting down and takes nothing new."""


class Desk:
    """Thread-safe shell around the scheduler."""

    def __init__(self, limits: EngineLimits) -> None:
        self._changed = threading.Condition()  # re-entrant
        self._scheduler = Scheduler(limits)
        self._counters = Counters()
        self._changes = 0
        self._forecast_at = 0.0
        self._closed = False

    # ---- visitors ----

    def submit(self, ticket: Ticket) -> None:
        """Join the line; the older ticket of the same owner and slot leaves it.

        If that one draws the same picture, the new job takes over its progress instead. Raises
        `QueueFull` or `EngineClosed`.
        """
        with self._changed:
            if self._closed:
                raise EngineClosed(_CLOSED)
            self._counters.submitted += 1
            job = ticket.job
            older = self._scheduler.find(job.owner, job.slot)
            if older and picture_key(older.job.request) == picture_key(job.request):
                self._adopt(older, ticket)
                return
            try:
                older = self._scheduler.add(ticket)
            except QueueFull:
                self._counters.refused += 1
                raise
            if older:
                self._leave(older, "newer")
            position = self._scheduler.forecast_of(ticket)
            job.channel.put(position)
            self._notify()

    def _adopt(self, older: Ticket, ticket: Ticket) -> None:
        old_job, older.job = older.job, ticket.job
        self._counters.adopted += 1
        self._counters.supersedes += 1
        old_job.channel.put(Superseded("newer"))
        older.job.channel.put(self._scheduler.forecast_of(older))
        if older.started:
            older.job.channel.put(replace(older.started, settings=older.job.request.to_dict()))

    def withdraw(self, job_id: str, owner: str, slot: str) -> bool:
        """Cancel one job. False if it was over already."""
        with self._changed:
            ticket = self._scheduler.find(owner, slot)
            if ticket is None or ticket.job.id != job_id:
                return False
            self._drop(ticket, "cancelled")
            return True

    def withdraw_owner(self, owner: str) -> int:
        """Cancel everything of one owner; how many that were."""
        with self._changed:
            tickets = self._scheduler.of_owner(owner)
            for ticket in tickets:
                self._drop(ticket, "cancelled")
            return len(tickets)

    def withdraw_beyond(self, owner: str, slot: str, count: int) -> None:
        """A newer request of `count` pictures has the slot: an older one's further pictures go."""
        with self._changed:
            for ticket in self._scheduler.of_owner(owner):
                base, mark, place = ticket.job.slot.rpartition(PLACE_MARK)
                if mark and base == slot and place.isdecimal() and int(place) >= count:
                    self._scheduler.remove(ticket)
                    self._leave(ticket, "newer")

    def reuse(self, owner: str, slot: str) -> None:
        """A finished picture answers a new job; an older one in its slot is no longer wanted."""
        with self._changed:
            if self._closed:
                raise EngineClosed(_CLOSED)
            self._counters.submitted += 1
            self._counters.reused += 1
            older = self._scheduler.find(owner, slot)
            if older:
                self._scheduler.remove(older)
                self._leave(older, "newer")

    def close(self) -> None:
        with self._changed:
            self._closed = True
            for ticket in self._scheduler.tickets:
                self._drop(ticket, "closed")
            self._notify()

    @property
    def closed(self) -> bool:
        return self._closed

    def look(self) -> tuple[int, int, Counters]:
        """Waiting and running tickets, and a copy of the counters."""
        with self._changed:
            running = sum(ticket.state is not None for ticket in self._scheduler.tickets)
            return len(self._scheduler) - running, running, replace(self._counters)

    # ---- the worker ----

    @property
    def changes(self) -> int:
        return self._changes

    def poke(self) -> None:
        """Something the worker may be waiting for has happened."""
        with self._changed:
            self._notify()

    def wait(self, seen: int) -> None:
        """Sleep until something happens after `seen`, a former value of `changes`."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._changes != seen)

    def first(self) -> Ticket | None:
        """The head of the line, whether it can run or not."""
        with self._changed:
            tickets = self._scheduler.tickets
            return tickets[0] if tickets else None

    def next_batch(
        self,
        key_of: Callable[[Ticket], Hashable | None],
        limit_of: Callable[[Ticket], int],
    ) -> list[Ticket]:
        with self._changed:
            return self._scheduler.next_batch(key_of, limit_of)

    def of_variant(self, variant_id: str) -> list[Ticket]:
        with self._changed:
            return [t for t in self._scheduler.tickets if t.variant == variant_id]

    def begin(self, ticket: Ticket, started: Started) -> None:
        """The ticket's first step is about to be taken."""
        with self._changed:
            ticket.started = started
            if ticket.begun_at is None:
                ticket.begun_at = time.perf_counter()
            ticket.job.channel.put(replace(started, settings=ticket.job.request.to_dict()))

    def publish(self, ticket: Ticket, event: Event) -> None:
        """An event that is not the end; nothing for a ticket that has left."""
        with self._changed:
            if not ticket.gone and ticket.job.channel.put(event):
                self._counters.previews_dropped += 1

    def finish(self, ticket: Ticket, end: Callable[[Ticket], Finished] | Failed) -> None:
        """The end. Built under the lock, because an equal newer request may take the job over."""
        with self._changed:
            if not self._scheduler.remove(ticket):
                return
            event = end if isinstance(end, Failed) else end(ticket)
            if isinstance(event, Failed):
                self._counters.failed += 1
                if event.kind != "error":
                    self.count(**{f"failed_{event.kind}": 1})
            else:
                self._counters.finished += 1
            ticket.job.channel.put(event)
            ticket.state = None
            self._forecast()

    def count(self, **amounts: float) -> None:
        """Add to counters by name."""
        with self._changed:
            for name, amount in amounts.items():
                setattr(self._counters, name, getattr(self._counters, name) + amount)

    # ---- inside the lock ----

    def _drop(self, ticket: Ticket, reason: Literal["cancelled", "closed"]) -> None:
        self._scheduler.remove(ticket)
        self._leave(ticket, reason)

    def _leave(self, ticket: Ticket, reason: Literal["newer", "cancelled", "closed"]) -> None:
        if reason == "newer":
            self._counters.supersedes += 1
        else:
            self._counters.cancels += 1
        ticket.job.channel.put(Superseded(reason))

    def _forecast(self) -> None:
        """Tell those who wait where they are, now and then."""
        now = time.perf_counter()
        if now - self._forecast_at < _FORECAST_EVERY_S:
            return
        self._forecast_at = now
        for ticket, place in self._scheduler.forecast():
            ticket.job.channel.put(place)

    def _notify(self) -> None:
        self._changes += 1
        self._changed.notify_all()
