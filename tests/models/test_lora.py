"""Merging an adapter: equal to PEFT's own merge, and what is no adapter is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from models.lora import merge_lora
from models.nitro_e import NitroE, NitroEConfig
from models.weights import WeightsError
from tests.golden_rule import fill

SMALL = NitroEConfig(grid=8, width=32, head_dim=16, text_width=16, groups=(1, 1, 1))


def adapter(folder: Path, layer: str = "layer", rank: int = 2, alpha: int = 8, **config) -> Path:
    folder.mkdir(exist_ok=True)
    values = {"peft_type": "LORA", "bias": "none", "r": rank, "lora_alpha": alpha, **config}
    (folder / "adapter_config.json").write_text(json.dumps(values))
    down, up = torch.randn(rank, 6), torch.randn(4, rank)
    prefix = f"base_model.model.{layer}"
    tensors = {f"{prefix}.lora_A.weight": down, f"{prefix}.lora_B.weight": up}
    save_file(tensors, folder / "adapter_model.safetensors")
    return folder


def test_change_is_alpha_over_rank_times_the_product(tmp_path: Path) -> None:
    weights = {"layer.weight": torch.zeros(4, 6), "other.weight": torch.ones(2)}
    folder = adapter(tmp_path / "a")
    merged = merge_lora(weights, folder)
    from safetensors.torch import load_file

    stored = load_file(folder / "adapter_model.safetensors")
    down, up = (stored[f"base_model.model.layer.lora_{x}.weight"] for x in "AB")
    assert torch.allclose(merged["layer.weight"], 4 * up @ down)
    assert torch.equal(merged["other.weight"], weights["other.weight"])
    assert torch.equal(weights["layer.weight"], torch.zeros(4, 6))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"peft_type": "IA3"}, "not a plain LoRA"),
        ({"bias": "all"}, "not a plain LoRA"),
        ({"layer": "elsewhere"}, "'elsewhere.weight', which this model does not have"),
    ],
)
def test_other_adapters_are_refused(tmp_path: Path, change: dict, message: str) -> None:
    with pytest.raises(WeightsError, match=message):
        merge_lora({"layer.weight": torch.zeros(4, 6)}, adapter(tmp_path / "a", **change))


def test_folder_without_adapter(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="no PEFT adapter"):
        merge_lora({}, tmp_path)


def test_equal_to_peft(tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    model = fill(NitroE(SMALL))
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    config = peft.LoraConfig(r=4, lora_alpha=6, target_modules=["to_q", "to_k", "add_v_proj"])
    wrapped = peft.get_peft_model(model, config)
    with torch.no_grad():
        for name, parameter in wrapped.named_parameters():
            if "lora_" in name:
                parameter.normal_(std=0.2)
    wrapped.save_pretrained(tmp_path / "adapter")
    expected = wrapped.merge_and_unload().state_dict()
    merged = merge_lora(weights, tmp_path / "adapter")
    changed = [name for name in weights if not torch.equal(weights[name], merged[name])]
    assert len(changed) == 3 * 3
    for name in weights:
        assert (merged[name] - expected[name]).abs().max() <= 1e-6
