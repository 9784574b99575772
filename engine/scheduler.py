"""Who goes next. Plain data and arithmetic: no torch, no threads, no clock.

Fairness is start-time fair queueing. A ticket gets a tag when it joins: the device time its owner
has been promised so far, but never less than that of the tickets in service, so that idling earns
no credit. Lowest tag first. An owner with 64 tickets therefore holds 64 rising tags, and somebody
who comes later with one ticket stands before all but the first of them. Tags never change, hence
a ticket that has begun is finished before later ones begin, and none starves.

Batching is continuous: before every step the line is walked anew, and tickets with equal keys
share the step whatever their progress.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

from engine.events import Queued, Started
from engine.job import Job
from engine.limits import EngineLimits
from engine.pictures import Kept
from engine.results import Result


class QueueFull(RuntimeError):
    """No room. The message is for the person; `expected_wait_s` says when to try again."""

    def __init__(self, message: str, expected_wait_s: float) -> None:
        super().__init__(message)
        self.expected_wait_s = expected_wait_s


@dataclass(eq=False)
class Ticket:
    """A job's place in the line and its progress on the device."""

    job: Job
    steps: int  # an estimate until the sampler has said
    step_s: float  # expected device seconds per step
    tag: float = 0.0
    order: int = 0
    done: int = 0
    gone: bool = False  # left the line; whatever the device still computes for it is discarded
    alone: bool = False  # its batch failed: try again without company
    key: Hashable | None = None  # the sampler's batch key, once asked
    base: Kept | None = None  # the picture it starts from, held so that it cannot go missing
    again: Result | None = None  # the finished picture, to be decoded at another size
    state: Any = None  # the sampler's; None = not begun
    begun_at: float | None = None
    first_frame_at: float | None = None
    device_s: float = 0.0
    preview_s: float = 0.0
    started: Started | None = None

    @property
    def variant(self) -> str:
        return self.job.request.variant

    @property
    def remaining_s(self) -> float:
        return max(0, self.steps - self.done) * self.step_s

    @property
    def rank(self) -> tuple[float, int]:
        return (self.tag, self.order)

    def restart(self) -> None:
        """Back to the first step. The seed decides all randomness: the picture stays the same."""
        self.state = None
        self.done = 0


@dataclass
class _Owner:
    promised: float = 0.0  # the tag of this owner's next ticket
    slots: dict[str, Ticket] = field(default_factory=dict)


class Scheduler:
    """The line of tickets. Its user holds a lock around every call."""

    def __init__(self, limits: EngineLimits) -> None:
        self._limits = limits
        self._line: list[Ticket] = []  # by rank
        self._owners: dict[str, _Owner] = {}
        self._now = 0.0  # the lowest tag in service
        self._orders = 0
        self._turns: dict[Hashable, int] = {}  # when a key last had a step
        self._turn = 0

    def __len__(self) -> int:
        return len(self._line)

    @property
    def tickets(self) -> tuple[Ticket, ...]:
        return tuple(self._line)

    def find(self, owner: str, slot: str) -> Ticket | None:
        held = self._owners.get(owner)
        return held.slots.get(slot) if held else None

    def of_owner(self, owner: str) -> tuple[Ticket, ...]:
        held = self._owners.get(owner)
        return tuple(held.slots.values()) if held else ()

    def add(self, ticket: Ticket) -> Ticket | None:
        """Join the line. Returns the ticket that had this owner's slot and has left it.

        Raises `QueueFull`, and then nothing has changed.
        """
        name, slot = ticket.job.owner, ticket.job.slot
        older = self.find(name, slot)
        if older is None:
            self._check_room(name, ticket)
        else:
            self.remove(older)
        owner = self._owners.setdefault(name, _Owner())
        ticket.tag = max(self._now, owner.promised)
        ticket.order = self._orders = self._orders + 1
        owner.promised = ticket.tag + ticket.remaining_s
        owner.slots[slot] = ticket
        bisect.insort(self._line, ticket, key=lambda t: t.rank)
        return older

    def remove(self, ticket: Ticket) -> bool:
        """Leave the line, done or not; what was promised and not used is given back."""
        if ticket.gone:
            return False
        ticket.gone = True
        self._line.remove(ticket)
        owner = self._owners[ticket.job.owner]
        del owner.slots[ticket.job.slot]
        owner.promised -= ticket.remaining_s
        self._forget()
        return True

    def next_batch(
        self,
        key_of: Callable[[Ticket], Hashable | None],
        limit_of: Callable[[Ticket], int],
    ) -> list[Ticket]:
        """The tickets that share the next step, best first; empty if none can run.

        `key_of` is None for a ticket that has to wait, else tickets with equal keys may share.
        """
        keys = [(ticket, key_of(ticket)) for ticket in self._line]
        ready = [(ticket, key) for ticket, key in keys if key is not None]
        if not ready:
            return []
        self._now = max(self._now, ready[0][0].tag)
        lead, key = self._lead(ready)
        self._turn += 1
        self._turns[key] = self._turn
        if lead.alone:
            return [lead]
        mates = [t for t, other in ready if other == key and not t.alone]
        return mates[: max(1, limit_of(lead))]

    def _lead(self, ready: list[tuple[Ticket, Hashable]]) -> tuple[Ticket, Hashable]:
        """The first of the line, or another column of its owner whose turn was longer ago."""
        owner = ready[0][0].job.owner
        columns: dict[Hashable, tuple[Ticket, Hashable]] = {}
        for ticket, key in ready:
            if ticket.job.owner == owner and key not in columns:
                columns[key] = (ticket, key)
            if len(columns) == self._limits.columns_together:
                break
        return min(columns.values(), key=lambda column: self._turns.get(column[1], 0))

    def forecast(self) -> list[tuple[Ticket, Queued]]:
        """Place and expected wait of every ticket that has not begun."""
        out = []
        ahead_s = 0.0
        for position, ticket in enumerate(self._line):
            if ticket.state is None:
                out.append((ticket, Queued(position, self._wait_s(position, ahead_s))))
            ahead_s += ticket.remaining_s
        return out

    def forecast_of(self, ticket: Ticket) -> Queued:
        """One ticket's place and expected wait."""
        position = self._line.index(ticket)
        ahead_s = sum(other.remaining_s for other in self._line[:position])
        return Queued(position, self._wait_s(position, ahead_s))

    def expected_wait_s(self) -> float:
        """How long somebody at the end of the line would wait."""
        return self._wait_s(len(self._line), sum(ticket.remaining_s for ticket in self._line))

    def _wait_s(self, position: int, ahead_s: float) -> float:
        """Full batches share their steps; with room in the batch there is nothing to wait for."""
        batch = self._limits.max_batch
        return ahead_s / batch if position >= batch else 0.0

    def _check_room(self, name: str, ticket: Ticket) -> None:
        mine = len(self.of_owner(name))
        if mine >= self._limits.queue_per_owner:
            wait = ticket.remaining_s
            raise QueueFull(
                f"You have {mine} pictures waiting already, as many as one visitor may. They are "
                f"kept; send more in about {_seconds(wait)}, as they finish.",
                wait,
            )
        if len(self._line) >= self._limits.queue_size:
            wait = max(self.expected_wait_s(), min(t.remaining_s for t in self._line))
            raise QueueFull(
                f"{len(self._line)} pictures are waiting, as many as fit. Please try again in "
                f"about {_seconds(wait)}.",
                wait,
            )

    def _forget(self) -> None:
        """Owners without tickets and without a promise ahead of the others leave no trace."""
        if not self._line:
            self._owners.clear()
            self._turns.clear()
            self._now = 0.0
            return
        idle = [n for n, o in self._owners.items() if not o.slots and o.promised <= self._now]
        for name in idle:
            del self._owners[name]


def _seconds(wait: float) -> str:
    whole = max(1, round(wait))
    return "1 second" if whole == 1 else f"{whole} seconds"
