"""Peers are the models they are said to be; the comparison counts what was drawn."""

from __future__ import annotations

import pytest
import torch

from benchmarks.compare import Row, measure, table
from benchmarks.flop_stages import gflop
from benchmarks.peers import PEERS


@pytest.mark.parametrize(
    ("name", "parameters_m"),  # as published
    [("SD-Turbo", 866), ("SANA-Sprint 0.6B", 594), ("Sana 0.6B", 592)],
)
def test_size_and_picture(name: str, parameters_m: int) -> None:
    with torch.device("meta"):
        peer = PEERS[name]()
    parameters = sum(parameter.numel() for parameter in peer.backbone.parameters())
    assert round(parameters / 1e6) == parameters_m
    assert peer.draw().shape == (1, 3, 512, 512)
    once = gflop(lambda: peer.step(peer.backbone, torch.empty(peer.latent, device="meta")))
    whole = gflop(lambda: peer.draw())
    decode = gflop(lambda: peer.decoder(torch.empty(peer.latent, device="meta")))
    assert whole == pytest.approx(peer.steps * once + decode)


def test_a_variant_is_measured_with_its_calls() -> None:
    row = measure("pocket-ar", 1, torch.device("cpu"))
    # Sixteen iterations with guidance in one batch; the empty prompt's first pass is kept.
    assert row.calls == 24 and row.pixels == 128
    assert 0 < row.gflop < 20 and row.latency_ms > 0


def test_table_is_sorted_by_latency() -> None:
    rows = [Row("slow", 512, 300, 20, 1234, 9000.0), Row("quick", 512, 300, 4, 100, 1000.0)]
    lines = table(rows).splitlines()
    assert [line.split("|")[1].strip() for line in lines[2:]] == ["quick", "slow"]
    assert "1,234" in lines[3] and "9.00 s" in lines[3]
