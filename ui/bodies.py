"""Reading what a request carries, never more of it than is allowed."""

from __future__ import annotations

import json
from typing import Any

from starlette.requests import Request

from ui.guard import Refusal

MAX_BODY_BYTES = 64 * 1024
_TOO_BIG = (
    f"The request is larger than {MAX_BODY_BYTES // 1024} KiB. A prompt may have 2,000 characters."
)


def check_size(request: Request, limit: int = MAX_BODY_BYTES, words: str = _TOO_BIG) -> None:
    """Refuse (413) a body that is declared larger than the limit."""
    declared = request.headers.get("content-length", "0")
    if declared.isdecimal() and int(declared[:20]) > limit:
        raise Refusal(413, words)


async def read_body(request: Request, limit: int, words: str = _TOO_BIG) -> bytes:
    """The whole body. Raises `Refusal` (413) with the words when it is over the limit."""
    check_size(request, limit, words)
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit:
            raise Refusal(413, words)
    return bytes(body)


async def read_json(request: Request) -> Any:
    """The body as JSON. Raises `Refusal`: 413 when over the limit, 400 when it is not JSON."""
    body = await read_body(request, MAX_BODY_BYTES)
    try:
        return json.loads(body.decode("utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise Refusal(400, f"The request is not valid JSON: {error}.") from None
    except ValueError:  # Python's bound on the digits of a whole number
        raise Refusal(400, "A number in the request has too many digits.") from None
    except RecursionError:
        raise Refusal(400, "The request is not valid JSON: it is nested too deeply.") from None
