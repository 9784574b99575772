"""The exact savings are in: a picture costs what the specification says it can cost."""

from __future__ import annotations

from benchmarks.flops import measure
from models.catalogue import find_variant


def test_gan_picture_costs_what_is_left_after_the_exact_savings() -> None:
    costs = measure(find_variant("nitro-ar-gan")).to_dict()
    assert abs(costs["before_gflop"] - 6138) < 5  # the published pipeline
    assert costs["repeat_prompt_first_pass_not_cached_gflop"] <= 5360
    assert costs["repeat_prompt_gflop"] <= 5190
    for name in ("text: encode prompt", "text: encode empty prompt", "text: language-model head"):
        assert costs["stages"][name]["before"] > 0
        assert costs["stages"][name]["after_repeat"] == 0
    for name in ("text rows and block 0 text", "last block", "head condition", "head time"):
        row = costs["stages"][name]
        assert row["after_repeat"] <= row["after_first"] < 0.4 * row["before"], name


def test_joint_picture_costs_less_than_published() -> None:
    costs = measure(find_variant("nitro-ar-joint-gan")).to_dict()
    assert abs(costs["before_gflop"] - 3463) < 5
    assert costs["repeat_prompt_gflop"] <= 2810
