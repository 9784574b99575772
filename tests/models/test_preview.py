"""The decoder for previews: its file, its cost, what it reads, and that it can learn."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from engine.linear import TrainedPreview
from models.packed import pack
from models.preview import FILE, PreviewDecoder, hidden_width, read_preview
from models.weights import WeightsError
from training.preview import preview_loss


def test_it_costs_no_more_than_the_linear_map() -> None:
    width = hidden_width(32, 16)
    own, linear = 9 * 32 * width + width * 768, 9 * 32 * 768
    assert 0.97 * linear < own <= linear


def test_hidden_tokens_are_not_read_and_come_out_neutral() -> None:
    torch.manual_seed(0)
    preview = TrainedPreview(PreviewDecoder(32, 16).requires_grad_(False))
    latents, shown = torch.randn(1, 32, 8, 8), torch.rand(1, 8, 8) < 0.5
    made = preview.render(latents, shown)
    assert made.shape == (1, 3, 128, 128)
    changed = torch.where(shown[:, None], latents, 99.0)
    assert torch.equal(made, preview.render(changed, shown))
    there = shown.repeat_interleave(16, 1).repeat_interleave(16, 2)[0]
    assert (made[0][:, ~there] == 0.5).all()


def test_a_file_is_read_and_one_that_does_not_fit_refused(tmp_path: Path) -> None:
    assert read_preview(tmp_path, 32, 16) is None
    torch.manual_seed(0)
    own = PreviewDecoder(32, 16).requires_grad_(False)
    save_file(pack(own.state_dict()), tmp_path / FILE)
    read = read_preview(tmp_path, 32, 16)
    latents = torch.randn(2, 32, 8, 8)
    torch.testing.assert_close(read(latents), own(latents), atol=0.02, rtol=0)
    with pytest.raises(WeightsError, match="not the file this model needs"):
        read_preview(tmp_path, 32, 32)


def test_it_learns_what_is_shown() -> None:
    torch.manual_seed(0)
    network, true = PreviewDecoder(4, 2), PreviewDecoder(4, 2).requires_grad_(False)
    latents = torch.randn(64, 4, 8, 8)
    pixels = true(latents)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-2)
    random, losses = torch.Generator().manual_seed(0), []
    for _ in range(60):
        loss = preview_loss(network, latents, pixels, random)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.3 * losses[0]
