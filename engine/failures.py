"""What went wrong, in words for the person whose picture it was."""

from __future__ import annotations

import torch

from engine.events import Failed, FailureKind
from models.contracts import BrokenPicture

_ALLOCATION = ("out of memory", "can't allocate memory", "not enough memory")


def is_out_of_memory(error: BaseException) -> bool:
    """Devices report it in several ways."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(
        words in str(error).lower() for words in _ALLOCATION
    )


def failure(error: BaseException, title: str) -> Failed:
    """The end of a picture of the variant with this title."""
    return Failed(explain(error, title), kind_of(error))


def kind_of(error: BaseException) -> FailureKind:
    """For programs that count failures."""
    if is_out_of_memory(error):
        return "out_of_memory"
    return "broken_picture" if isinstance(error, BrokenPicture) else "error"


def explain(error: BaseException, title: str) -> str:
    """What happened, what is kept, what to do next."""
    if is_out_of_memory(error):
        return (
            f"The device ran out of memory while {title} was drawing this picture. Other pictures "
            "are not affected. Please try again; if it happens again, choose a smaller variant."
        )
    if isinstance(error, BrokenPicture):
        return str(error) or (
            "The picture came out with values that are not numbers. Please try another seed or a "
            "lower CFG scale."
        )
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return (
        f"{title} could not draw this picture ({what[:300]}). Other pictures are not affected. "
        "Please try again, or change the seed or the prompt."
    )
