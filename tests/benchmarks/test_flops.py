"""The count of operations runs for every kind of sampler."""

from __future__ import annotations

import json
import sys

import pytest

from benchmarks import flops


@pytest.mark.parametrize("variant", ["pocket-ar", "pocket-ar-joint", "pocket-e-dist"])
def test_every_kind_is_counted(variant: str, monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "argv", ["flops", "--variants", variant, "--json"])
    flops.main()
    report = capsys.readouterr().out
    assert variant in report and json.loads(report)
