"""The routes of blind votes. Before its vote nothing that is sent says which variant drew what:
not the headers, not the order of arrival, not an error's words."""

from __future__ import annotations

import hashlib
import secrets
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from engine.events import Event, Failed, Finished, Step, Superseded
from engine.requests import InvalidRequest, clean_prompt
from ui.bodies import read_json
from ui.frames import FINISHED_QUALITY, pack
from ui.frontdesk import FrontDesk, Place
from ui.guard import Guard, Refusal
from ui.stream import HEARTBEAT_S, NO_STORE, LiveStream
from ui.votes.matches import SIDES, Match, NoMatch, OpenMatches, make_match
from ui.votes.ratings import rated
from ui.votes.store import CHOICES, AlreadyVoted, Vote, VoteStore, VotesUnavailable, as_csv


class Blind:
    """What is sent of one match: how far both are, and both pictures at once when both are there."""

    def __init__(
        self,
        name: str,
        match: Match,
        desk: FrontDesk,
        named: bool,
        seen: Callable[[], None] = lambda: None,
    ) -> None:
        """`seen` is called when both pictures are about to be sent: now it can be voted on."""
        self._name, self._match, self._desk, self._named = name, match, desk, named
        self._seen = seen
        self._shares = dict.fromkeys(SIDES, 0.0)
        self._finished: dict[str, Finished] = {}
        self._told = False

    async def message(self, place: Place, event: Event) -> bytes:
        """The bytes for an event; often none."""
        begin = b"" if self._told else pack(self._header())
        self._told = True
        return begin + await self._body(place.slot, event)

    async def _body(self, side: str, event: Event) -> bytes:
        match event:
            case Step():
                before = min(self._shares.values())
                self._shares[side] = event.index / event.total
                now = min(self._shares.values())
                return pack({"event": "progress", "share": round(now, 2)}) if now > before else b""
            case Finished():
                self._shares[side] = 1.0
                self._finished[side] = event
                if len(self._finished) < len(SIDES):
                    return b""
                pictures = b"".join([await self._picture(each) for each in SIDES])
                self._seen()
                return pictures
            case Failed():
                return pack({"event": "failed", "message": _WORDS})
            case Superseded():
                return pack({"event": "superseded"})
        return b""

    async def _picture(self, side: str) -> bytes:
        pixels = self._finished[side].image
        header = {"event": "picture", "slot": side, "width": pixels.shape[1]}
        return pack(header, await self._desk.jpeg(pixels, FINISHED_QUALITY))

    def _header(self) -> dict[str, Any]:
        header = {"event": "match", "match": self._name, "prompt": self._match.prompt}
        if self._named:
            header |= {"left": self._match.left, "right": self._match.right}
        return header


_WORDS = "One of the two pictures could not be drawn, so there is nothing to vote on. Take the next match."


class VoteRoutes:
    """One object per server."""

    def __init__(self, engine: Any, guard: Guard, desk: FrontDesk, store: VoteStore) -> None:
        self._engine, self._guard, self._desk, self._store = engine, guard, desk, store
        self._open = OpenMatches()

    def routes(self) -> list[Route]:
        """To be put in front of the app's own."""
        checked = self._guard.checked
        return [
            Route("/votes/match", checked(self.match), methods=["POST"]),
            Route("/votes/vote", checked(self.vote), methods=["POST"]),
            Route("/votes/replay", checked(self.replay), methods=["POST"]),
            Route("/votes/board", checked(self.board), methods=["GET"]),
            Route("/votes/votes.csv", checked(self.table), methods=["GET"]),
        ]

    async def match(self, request: Request) -> Response:
        """{"prompt": ""} to the two pictures of a new match, without names."""
        owner = self._guard.sessions.owner(request)
        body = await _fields(request)
        prompt = body.get("prompt") or ""
        try:
            prompt = clean_prompt(prompt) if prompt else ""
            ready = await run_in_threadpool(self._ready)
            match = make_match(secrets.randbits(32), ready, prompt)
        except InvalidRequest as error:
            raise Refusal(400, str(error)) from None
        except NoMatch as error:
            raise Refusal(409, str(error)) from None
        name = secrets.token_urlsafe(16)
        seen = partial(self._open.add, name, owner, match)
        return await self._drawn(request, owner, name, match, named=False, seen=seen)

    async def replay(self, request: Request) -> Response:
        """{"match": id} of one that was voted on: its two pictures again, with names."""
        owner = self._guard.sessions.owner(request)
        vote = await self._asked(self._store.get, _text(await _fields(request), "match"))
        if vote is None:
            raise Refusal(404, "There is no vote on such a match.")
        match = Match(vote.seed, vote.prompt, vote.left, vote.right, vote.picture_seed)
        return await self._drawn(request, owner, vote.match, match, named=True)

    async def _drawn(
        self,
        request: Request,
        owner: str,
        name: str,
        match: Match,
        named: bool,
        seen: Callable[[], None] = lambda: None,
    ) -> Response:
        self._guard.pace(request, owner, len(SIDES))
        try:
            wanted = [(f"vote {side}", match.request(side)) for side in SIDES]
        except InvalidRequest as error:
            raise Refusal(400, str(error)) from None
        jobs = await self._desk.submit(owner, wanted)
        blind = Blind(name, match, self._desk, named, seen)
        places = {Place(place.slot.removeprefix("vote ")): job for place, job in jobs.items()}
        return LiveStream(places, blind.message, _waiting, self._desk.cancel, HEARTBEAT_S)

    async def vote(self, request: Request) -> Response:
        """{"match": id, "choice": "left" | "right" | "tie" | "both bad"} to who was who."""
        owner = self._guard.sessions.owner(request)
        self._guard.hints.take(owner)
        body = await _fields(request)
        name, choice = _text(body, "match"), _text(body, "choice")
        if choice not in CHOICES:
            raise Refusal(400, f"A vote is one of {', '.join(CHOICES)}; got {choice[:40]!r}.")
        match = self._open.get(name, owner)
        if match is None:
            raise Refusal(404, "This match is not known any more. Take the next one.")
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        voter = hashlib.sha256(owner.encode()).hexdigest()[:16]
        vote = Vote(name, *_facts(match), choice=choice, at=now, voter=voter)
        try:
            await self._asked(self._store.add, vote)
        except AlreadyVoted as error:
            raise Refusal(409, str(error)) from None
        return JSONResponse(
            {"match": name, "choice": choice, "left": match.left, "right": match.right,
             "seed": match.picture_seed}, headers=NO_STORE,
        )  # fmt: skip

    async def board(self, request: Request) -> Response:
        """Ratings, and how often each pair met."""
        votes = await self._asked(self._store.votes)
        outcomes = [(vote.left, vote.right, vote.choice) for vote in votes]
        rows = await run_in_threadpool(rated, outcomes)
        met = Counter(tuple(sorted(outcome[:2])) for outcome in outcomes)
        return JSONResponse(
            {
                "votes": len(votes),
                "both_bad": sum(vote.choice == "both bad" for vote in votes),
                "ratings": [asdict(row) for row in rows],
                "pairs": [
                    {"pair": list(pair), "votes": count} for pair, count in sorted(met.items())
                ],
                "last": [{"match": v.match, "prompt": v.prompt} for v in votes[:-9:-1]],
            },
            headers=NO_STORE,
        )

    async def table(self, request: Request) -> Response:
        """All votes as CSV."""
        votes = await self._asked(self._store.votes)
        headers = {**NO_STORE, "content-disposition": 'attachment; filename="nitro-votes.csv"'}
        return Response(as_csv(votes), headers=headers, media_type="text/csv")

    def _ready(self) -> list[Any]:
        states = {entry.id: entry.state for entry in self._engine.status().variants}
        return [v for v in self._engine.variants() if states.get(v.id) == "ready"]

    async def _asked(self, call: Any, *arguments: Any) -> Any:
        try:
            return await run_in_threadpool(partial(call, *arguments))
        except VotesUnavailable as error:
            raise Refusal(503, str(error)) from None


def _facts(match: Match) -> tuple[int, str, str, str, int]:
    return match.seed, match.prompt, match.left, match.right, match.picture_seed


async def _waiting(place: Place, job: Any) -> bytes:
    """A sign of life that says nothing about whom it is waited for."""
    return pack({"event": "waiting"})


async def _fields(request: Request) -> dict[str, Any]:
    body = await read_json(request)
    if not isinstance(body, dict):
        raise Refusal(400, "The request has to be a JSON object.")
    return body


def _text(body: dict[str, Any], key: str) -> str:
    value = body.get(key)
    if not isinstance(value, str) or len(value) > 100:
        raise Refusal(400, f"The request needs {key!r}, a short text.")
    return value
