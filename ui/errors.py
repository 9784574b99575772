"""The engine's refusals, as HTTP."""

from __future__ import annotations

from engine.engine import EngineClosed, QueueFull
from ui.guard import Refusal


def queue_refusal(error: Exception) -> Refusal | None:
    """A full queue with its expected wait, a closing server with none; None for other errors."""
    if isinstance(error, QueueFull):
        return Refusal(503, str(error), retry_after=max(1.0, error.expected_wait_s))
    if isinstance(error, EngineClosed):
        return Refusal(503, str(error), retry_after=2.0)
    return None
