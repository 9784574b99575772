"""Edits and forks with the weights the product ships, through the real engine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from engine.engine import Engine
from engine.events import Finished
from engine.requests import GenerationRequest, InvalidRequest
from models.masks import grown, mask_text
from tests.test_pocket import VARIANTS, draw, make_engine

AWAY = 2  # cells between the freed ones and where a picture must look the same


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with make_engine() as made:
        yield made


def window(top: int, left: int, height: int, width: int) -> np.ndarray:
    mask = np.zeros((8, 8), bool)
    mask[top : top + height, left : left + width] = True
    return mask


def latent(engine: Engine, end: Finished, owner: str = "me") -> torch.Tensor:
    kept = engine._pictures.get(owner, end.picture)
    assert kept is not None and kept.trajectory is not None
    return kept.trajectory.latent


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(
    ("before", "after", "mask"),
    [
        ("a fox on a blue background", "a cat on a blue background", window(2, 2, 2, 3)),
        ("an owl on a green background", "a red apple on a yellow background", window(0, 0, 3, 3)),
        ("a cat", "a dog on a red background", window(5, 1, 3, 6)),
    ],
)
def test_kept_tokens_are_bit_identical_and_pixels_away_from_the_border_hardly_change(
    engine: Engine, variant: str, before: str, after: str, mask: np.ndarray
) -> None:
    base = draw(engine, GenerationRequest(before, variant, seed=3))
    edit = draw(
        engine,
        GenerationRequest(after, variant, seed=8, picture=base.picture, free=mask_text(mask)),
    )
    a, b = latent(engine, base), latent(engine, edit)
    assert torch.equal(a[:, ~mask], b[:, ~mask])
    assert not torch.equal(a[:, mask], b[:, mask])
    change = np.abs(base.image.astype(int) - edit.image.astype(int))
    cells = change.reshape(8, 16, 8, 16, 3).mean((1, 3, 4))  # of 255
    away = ~grown(mask, AWAY)
    assert away.sum() >= 8
    assert cells[away].mean() < 2, cells.round(1)
    assert cells[mask].mean() > 5 * cells[away].mean(), "the edit shows"


@pytest.mark.parametrize("variant", VARIANTS)
def test_an_edit_of_an_edit_keeps_what_both_keep(engine: Engine, variant: str) -> None:
    ends = [draw(engine, GenerationRequest("a fox", variant, seed=1))]
    for seed, mask in enumerate((window(0, 0, 8, 2), window(0, 6, 8, 2))):
        ends.append(
            draw(
                engine,
                GenerationRequest(
                    "a cat",
                    variant,
                    seed=seed,
                    picture=ends[-1].picture,
                    free=mask_text(mask),
                ),
            )
        )
    first, second, third = (latent(engine, end) for end in ends)
    assert torch.equal(first[:, :, 2:6], third[:, :, 2:6])
    assert torch.equal(second[:, :, :2], third[:, :, :2])


@pytest.mark.parametrize("variant", VARIANTS)
def test_forks_with_unchanged_settings_are_the_picture_bit_for_bit(
    engine: Engine, variant: str
) -> None:
    request = GenerationRequest("an owl on a green background", variant, seed=5)
    base = draw(engine, request)
    for step in range(base.steps):
        fork = draw(
            engine,
            GenerationRequest(
                request.prompt, variant, seed=5, fork_of=base.picture, fork_step=step
            ),
        )
        assert torch.equal(latent(engine, fork), latent(engine, base)), step
        assert np.array_equal(fork.image, base.image)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("other", VARIANTS)
def test_a_fork_may_change_prompt_and_variant(engine: Engine, variant: str, other: str) -> None:
    base = draw(engine, GenerationRequest("a fox on a blue background", variant, seed=5))
    fork = draw(
        engine,
        GenerationRequest(
            "a cat on a blue background", other, seed=5, fork_of=base.picture,
            fork_step=base.steps // 2,
        ),
    )  # fmt: skip
    assert not np.array_equal(fork.image, base.image)
    if variant == "pocket-ar":
        known = torch.from_numpy((base.committed > 0) & (base.committed <= base.steps // 2))
        assert torch.equal(latent(engine, fork)[:, known], latent(engine, base)[:, known])


@pytest.mark.parametrize("variant", VARIANTS)
def test_an_upload_is_followed_more_closely_at_less_strength(engine: Engine, variant: str) -> None:
    base = draw(engine, GenerationRequest("a fox on a blue background", variant, seed=2))
    name = engine.add_picture(base.image, "me")
    changes = []
    for strength in (0.1, 0.5, 1.0):
        settings: dict[str, Any] = {"picture": name, "strength": strength, "seed": 9}
        end = draw(engine, GenerationRequest("a cat on a red background", variant, **settings))
        changes.append(float(np.abs(end.image.astype(int) - base.image.astype(int)).mean()))
    assert changes == sorted(changes) and changes[0] < 0.5 * changes[-1]


def test_edits_in_company_are_the_same(engine: Engine) -> None:
    base = draw(engine, GenerationRequest("a fox", seed=2))
    edit = GenerationRequest(
        "a cat", seed=4, picture=base.picture, free=mask_text(window(1, 1, 5, 5))
    )
    alone = draw(engine, edit)
    mates = engine.submit_many(GenerationRequest("a dog", count=6), "mates")
    together = draw(engine, edit)
    for mate in mates:
        assert isinstance(list(mate.events())[-1], Finished)
    assert int(np.abs(alone.image.astype(int) - together.image.astype(int)).max()) <= 1
    mask = window(1, 1, 5, 5)
    assert torch.equal(latent(engine, together)[:, ~mask], latent(engine, base)[:, ~mask])


def test_another_owner_is_refused(engine: Engine) -> None:
    base = draw(engine, GenerationRequest("a fox", seed=2))
    for start in ({"picture": base.picture}, {"fork_of": base.picture}):
        with pytest.raises(InvalidRequest, match="not kept here"):
            engine.submit(GenerationRequest("a cat", **start), "somebody else")
