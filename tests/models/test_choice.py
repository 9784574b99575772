"""What a server loads: nothing for research only unless its terms were accepted."""

from __future__ import annotations

import pytest

from models.catalogue import CATALOGUE
from models.choice import NotServed, choose_variants

RESEARCH = {"instella-diffusion", "instella-ar"}
EMBEDDED = {variant.id for variant in CATALOGUE if variant.embedded}


def chosen(
    *wished: str, weights: bool = False, random: bool = False, accepted: bool = False
) -> set:
    made = choose_variants(wished, weights_given=weights, random=random, accepted=accepted)
    return set(made)


def test_the_catalogue_says_which_are_for_research_only() -> None:
    assert {variant.id for variant in CATALOGUE if variant.research_only} == RESEARCH


def test_by_default_what_is_embedded_and_with_weights_the_rest_but_research() -> None:
    assert chosen() == EMBEDDED
    everything = {variant.id for variant in CATALOGUE}
    assert chosen(weights=True) == everything - RESEARCH
    assert chosen("all") == everything - RESEARCH
    assert chosen(weights=True, accepted=True) == everything - RESEARCH  # only by name
    assert chosen("all", accepted=True) == everything


@pytest.mark.parametrize("name", sorted(RESEARCH))
def test_naming_one_shows_the_notice_first(name: str) -> None:
    with pytest.raises(NotServed, match="research only.*RAIL-MS.*NITRO_RESEARCH_ONLY=accepted"):
        chosen(name, "pocket-ar")
    assert chosen(name, accepted=True) == {name}
    assert chosen(name, random=True) == {name}  # made-up weights have no terms


def test_unknown_names_are_told_with_the_known_ones() -> None:
    with pytest.raises(NotServed, match="nitro-ax.*pocket-ar"):
        chosen("nitro-ax")
