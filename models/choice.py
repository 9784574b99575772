"""Which variants a server loads: those that were named, else what is here anyway.

Weights for research only are never among "all" or the defaults, so that no public host serves them
unasked, and naming them is not enough either: their terms have to be accepted once, in words.
"""

from __future__ import annotations

from collections.abc import Sequence

from models.catalogue import CATALOGUE, find_variant

ACCEPT = "NITRO_RESEARCH_ONLY"


class NotServed(ValueError):
    """A variant that is unknown, or whose terms were not accepted. The message is for a person."""


def choose_variants(
    wished: Sequence[str], *, weights_given: bool, random: bool, accepted: bool
) -> list[str]:
    """Ids in order. `wished` may be ["all"] or empty; `weights_given`: somebody said where
    published weights are; `random`: made-up weights, which have no terms. Raises `NotServed`."""
    known = [variant.id for variant in CATALOGUE]
    free = {v.id for v in CATALOGUE if accepted or random or not v.research_only}
    if list(wished) == ["all"]:
        return [name for name in known if name in free]
    if unknown := sorted(set(wished) - set(known)):
        raise NotServed(f"Unknown variant: {', '.join(unknown)}. Known: {', '.join(known)}.")
    for name in wished:
        if name not in free:
            variant = find_variant(name)
            raise NotServed(
                f"{variant.title} is for research only. {variant.research_only} If that is what "
                f"you do, and nobody else is served, set {ACCEPT}=accepted and start again."
            )
    if wished:
        return list(wished)
    return [v.id for v in CATALOGUE if v.embedded or (weights_given and not v.research_only)]
