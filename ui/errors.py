"""The engine's refusals, in the page's words."""

from __future__ import annotations

from ui.guard import Refusal


def queue_refusal(error: Exception) -> Refusal | None:
    """A full queue as HTTP 503 with its expected wait; None for any other error."""
    wait = getattr(error, "expected_wait_s", None)
    if wait is None:
        return None
    return Refusal(503, str(error), retry_after=max(1.0, float(wait)))
