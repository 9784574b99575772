"""Who may use the canvas routes, how much they may send and how often.

Gradio's own protections (CORS, auth) do not cover routes added to its app, so these routes check
everything themselves. Every refusal is a sentence for a person, sent as {"error": ...}.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
import math
import secrets
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

SESSION_HEADER = "x-nitro-session"
Handler = Callable[[Request], Awaitable[Response]]


class Refusal(Exception):
    """A request that is not served. `status` is HTTP's, `message` is for the person."""

    def __init__(self, status: int, message: str, retry_after: float | None = None, **extra: Any):
        super().__init__(message)
        self.status, self.message, self.retry_after, self.extra = (
            status,
            message,
            retry_after,
            extra,
        )

    def response(self) -> Response:
        """As {"error": ...}, with the wait in seconds where waiting helps."""
        headers = {"cache-control": "no-store"}
        body: dict[str, Any] = {"error": self.message, **self.extra}
        if self.retry_after is not None:
            headers["retry-after"] = str(max(1, math.ceil(self.retry_after)))
            body["retry_after_s"] = round(self.retry_after, 2)
        # ASCII: what is quoted from a request may hold what UTF-8 cannot
        text = json.dumps(body, ensure_ascii=True)
        return Response(text, self.status, headers, media_type="application/json")


class Sessions:
    """Owner ids a visitor can prove the server issued.

    One per open page, not per browser: two tabs must not supersede each other's pictures. The id
    is signed with a secret of this process, so nothing is stored and a restarted server says so.
    """

    def __init__(self, secret: bytes | None = None):
        self._secret = secret or secrets.token_bytes(32)

    def issue(self) -> str:
        """A new owner id with its signature, for the page to send in `SESSION_HEADER`."""
        owner = secrets.token_urlsafe(24)
        return f"{owner}.{self._sign(owner)}"

    def owner(self, request: Request) -> str:
        """The visitor's owner id. Raises `Refusal` (401) when it is missing or not ours."""
        owner, _, signature = request.headers.get(SESSION_HEADER, "").rpartition(".")
        if not owner or not hmac.compare_digest(signature.encode(), self._sign(owner).encode()):
            raise Refusal(
                401,
                "This page's session is unknown here; the server may have restarted. "
                "Ask /canvas/session for a new one.",
            )
        return owner

    def _sign(self, owner: str) -> str:
        return hmac.new(self._secret, owner.encode(), hashlib.sha256).hexdigest()[:32]


class RateLimit:
    """A token bucket per owner: `burst` at once, `per_second` in the long run."""

    def __init__(
        self,
        per_second: float = 10.0,
        burst: int = 30,
        owners: int = 4096,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._rate, self._burst, self._owners, self._clock = per_second, burst, owners, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # tokens, when
        self._lock = threading.Lock()

    def take(self, owner: str, count: int = 1) -> None:
        """Raises `Refusal` (429), and takes nothing, when the owner's bucket holds too little.

        More than `burst` at once costs a whole bucket.
        """
        count = min(count, self._burst)
        with self._lock:
            now = self._clock()
            tokens, then = self._buckets.pop(owner, (float(self._burst), now))
            tokens = min(self._burst, tokens + (now - then) * self._rate)
            allowed = tokens >= count
            self._buckets[owner] = (tokens - count if allowed else tokens, now)
            while len(self._buckets) > self._owners:
                self._buckets.popitem(last=False)
        if not allowed:
            wait = (count - tokens) / self._rate
            raise Refusal(
                429,
                f"That is too many requests at once; please wait {wait:.1f} s. Nothing is lost.",
                retry_after=wait,
            )


def _host_of(origin: str) -> str | None:
    """An Origin's host and port; None for "null" and what cannot be read."""
    try:
        return urlsplit(origin).netloc or None
    except ValueError:
        return None


def _network(address: str) -> str:
    """A visitor's address. IPv6 hands out a /64 to each household, so that counts as one."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    return str(ipaddress.ip_network((parsed, 64), strict=False)) if parsed.version == 6 else address


@dataclass
class Guard:
    """What every way in asks of a request: its page's site, its session, its pace.

    Paces hold per page, and several times that per client address, since opening pages is free.
    `proxies` counts the proxies in front whose X-Forwarded-* headers are believed; without any,
    whoever sends these headers is not believed.
    """

    allowed_origins: frozenset[str] = frozenset()
    proxies: int = 0
    sessions: Sessions = field(default_factory=Sessions)
    pages: RateLimit = field(default_factory=lambda: RateLimit(10, 30))
    addresses: RateLimit = field(default_factory=lambda: RateLimit(60, 300))
    openings: RateLimit = field(default_factory=lambda: RateLimit(2, 120))  # sessions, by address
    uploads: RateLimit = field(default_factory=lambda: RateLimit(8, 32))
    hints: RateLimit = field(default_factory=lambda: RateLimit(20, 60))
    _refused: Counter[int] = field(default_factory=Counter)  # by status; the event loop's alone

    def checked(self, handler: Handler) -> Handler:
        """A route's handler behind the check of the request's site; refusals become answers."""

        async def guarded(request: Request) -> Response:
            try:
                self.check_origin(request)
                return await handler(request)
            except Refusal as refusal:
                self.count(refusal)
                return refusal.response()

        return guarded

    def count(self, refusal: Refusal) -> None:
        """Note that a request was not served."""
        self._refused[refusal.status] += 1

    def refused(self) -> list[tuple[int, int]]:
        """HTTP statuses of refusals, and how often each was given."""
        return list(self._refused.items())

    def check_origin(self, request: Request) -> None:
        """Refuse other sites' pages (403). Programs send no Origin and pass.

        A page cannot forge its browser's Sec-Fetch-Site. Browsers leave it out over plain HTTP;
        then Origin's host has to be the one that was asked.
        """
        origin = request.headers.get("origin")
        site = request.headers.get("sec-fetch-site")
        if site in ("same-origin", "none") or (origin is None and site is None):
            return
        if origin in self.allowed_origins:
            return
        hosts = [request.headers.get("host")]
        if self.proxies:
            hosts.append(request.headers.get("x-forwarded-host"))
        if site is None and origin and (host := _host_of(origin)) and host in hosts:
            return
        raise Refusal(
            403,
            f"Requests from the page {str(origin)[:80]!r} are not allowed here; "
            "open the canvas itself.",
        )

    def open_session(self, request: Request) -> str:
        """A session for a page that was just opened. Raises `Refusal` (429)."""
        self.openings.take(self.address(request))
        return self.sessions.issue()

    def pace(self, request: Request, owner: str, pictures: int = 1) -> None:
        """Count pictures that are asked for. Raises `Refusal` (429) when they are too many."""
        self.pages.take(owner, pictures)
        self.addresses.take(self.address(request), pictures)

    def address(self, request: Request) -> str:
        """Where the request comes from, as far as it can be known."""
        hops = [hop.strip() for hop in request.headers.get("x-forwarded-for", "").split(",")]
        if self.proxies and hops[0]:
            return _network(hops[-min(self.proxies, len(hops))])
        return _network(request.client.host if request.client else "")
