"""The few-step student learns from what the teacher drew, with the product's own noise."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from models.randomness import draw
from training.distill import Pairs, make_pairs, reflow_loss
from training.families import families
from training.trainee import Trainee, initialise, new_text_encoder


@pytest.fixture(scope="module")
def teacher() -> Trainee:
    torch.manual_seed(0)
    trainee = Trainee(families()["pocket-e"].build(), new_text_encoder())
    initialise(trainee.model)
    return trainee.eval().requires_grad_(False)


def test_pairs_are_the_teachers_ends_for_the_products_noise(
    teacher: Trainee, tmp_path: Path
) -> None:
    pairs = make_pairs(teacher, 3, cfg_scale=2.0, seed=5, batch=2)
    assert len(pairs.prompts) == 3 and pairs.tokens.shape == (3, 64, 32)
    # An untrained teacher's velocity is zero, so that its pictures are the noise itself.
    assert torch.equal(pairs.noise(2), draw(2, 64, 32).fields[0])
    torch.testing.assert_close(pairs.tokens[2].float(), pairs.noise(2), atol=2e-3, rtol=1e-3)
    pairs.save(tmp_path / "pairs.pt")
    again = Pairs.load(tmp_path / "pairs.pt")
    assert again.prompts == pairs.prompts and torch.equal(again.tokens, pairs.tokens)
    assert make_pairs(teacher, 3, 2.0, 6).prompts != pairs.prompts


def test_the_loss_is_that_of_the_straight_line(teacher: Trainee) -> None:
    pairs = Pairs(["a fox", "a cat"], torch.zeros(2, 64, 32).half())
    text = torch.zeros(2, 24, 160)
    loss = reflow_loss(teacher.model, pairs, [0, 1], text, torch.Generator().manual_seed(0))
    # No velocity is made, and the line from zero tokens to the noise is the noise.
    noise = torch.stack([pairs.noise(0), pairs.noise(1)])
    torch.testing.assert_close(loss, noise.square().mean())
