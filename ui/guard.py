"""Who may use the canvas routes, how much they may send and how often.

Gradio's own protections (CORS, auth) do not cover routes added to its app, so these routes check
everything themselves. Every refusal is a sentence for a person, sent as {"error": ...}.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import JSONResponse

MAX_BODY_BYTES = 64 * 1024
SESSION_HEADER = "x-nitro-session"


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

    def response(self) -> JSONResponse:
        headers = {"cache-control": "no-store"}
        body: dict[str, Any] = {"error": self.message, **self.extra}
        if self.retry_after is not None:
            headers["retry-after"] = str(max(1, math.ceil(self.retry_after)))
            body["retry_after_s"] = round(self.retry_after, 2)
        return JSONResponse(body, status_code=self.status, headers=headers)


class Sessions:
    """Owner ids a visitor can prove the server issued.

    One per open page, not per browser: two tabs must not supersede each other's pictures. The id
    is signed with a secret of this process, so nothing is stored and a restarted server says so.
    """

    def __init__(self, secret: bytes | None = None):
        self._secret = secret or secrets.token_bytes(32)

    def issue(self) -> str:
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
    """A token bucket per owner: `burst` requests at once, `per_second` in the long run."""

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

    def take(self, owner: str) -> None:
        """Raises `Refusal` (429) when the owner's bucket is empty."""
        with self._lock:
            now = self._clock()
            tokens, then = self._buckets.pop(owner, (float(self._burst), now))
            tokens = min(self._burst, tokens + (now - then) * self._rate)
            allowed = tokens >= 1
            self._buckets[owner] = (tokens - 1 if allowed else tokens, now)
            while len(self._buckets) > self._owners:
                self._buckets.popitem(last=False)
        if not allowed:
            wait = (1 - tokens) / self._rate
            raise Refusal(
                429,
                f"That is too many requests at once; please wait {wait:.1f} s. Nothing is lost.",
                retry_after=wait,
            )


def check_origin(request: Request, allowed: frozenset[str] = frozenset()) -> None:
    """Refuse other sites' pages (403). Programs send no Origin and pass.

    A browser's Sec-Fetch-Site cannot be forged by a page, so it also settles the case of a proxy
    that rewrites Host. Otherwise Origin's host has to be the one that was asked.
    """
    origin = request.headers.get("origin")
    site = request.headers.get("sec-fetch-site")
    if site in ("same-origin", "none") or (origin is None and site is None):
        return
    hosts = {request.headers.get("host", ""), request.headers.get("x-forwarded-host", "")} - {""}
    if origin in allowed or (origin and urlsplit(origin).netloc in hosts):
        return
    raise Refusal(
        403,
        f"Requests from the page {str(origin)[:80]!r} are not allowed here; "
        "open the canvas itself.",
    )


async def read_json(request: Request, limit: int = MAX_BODY_BYTES) -> Any:
    """The body as JSON. Raises `Refusal`: 413 when over the limit, 400 when it is not JSON."""
    too_big = Refusal(
        413,
        f"The request is larger than {limit // 1024} KiB. A prompt may have 2,000 characters.",
    )
    declared = request.headers.get("content-length", "0")
    if declared.isdigit() and int(declared) > limit:
        raise too_big
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit:
            raise too_big
    try:
        return json.loads(body.decode("utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise Refusal(400, f"The request is not valid JSON: {error}.") from None
    except RecursionError:
        raise Refusal(400, "The request is not valid JSON: it is nested too deeply.") from None
