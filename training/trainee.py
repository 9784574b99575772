"""What is trained: a generator with its text encoder, how it starts, and prompts as it reads them."""

from __future__ import annotations

import math

from torch import Tensor, nn
from transformers import LlamaConfig, LlamaModel

from models.nitro_ar import POCKET_AR
from training.words import MAX_TOKENS, build_tokenizer


def text_config(vocabulary: int, width: int) -> LlamaConfig:
    """A two-layer Llama, the class of the official text encoder."""
    return LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=2,
        num_attention_heads=width // 32,
        num_key_value_heads=width // 32,
        max_position_embeddings=64,
        rms_norm_eps=1e-5,
        rope_theta=10_000.0,
        tie_word_embeddings=True,
        bos_token_id=2,
        eos_token_id=None,
        pad_token_id=1,
    )


def new_text_encoder() -> LlamaModel:
    """Untrained, over the world's vocabulary."""
    return LlamaModel(text_config(len(build_tokenizer()), POCKET_AR.backbone.text_width))


class Captioner:
    """Prompts to the text encoder's rows, as the product pads and masks them."""

    def __init__(self, encoder: LlamaModel) -> None:
        self.encoder, self.tokenizer = encoder, build_tokenizer()

    def __call__(self, prompts: list[str]) -> Tensor:
        batch = self.tokenizer(
            prompts,
            padding="max_length",
            max_length=MAX_TOKENS,
            truncation=True,
            return_tensors="pt",
        ).to(self.encoder.device)
        return self.encoder(
            input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], use_cache=False
        ).last_hidden_state


class Trainee(nn.Module):
    """Model and text encoder as one module, so that they are averaged and saved together."""

    def __init__(self, model: nn.Module, encoder: LlamaModel) -> None:
        super().__init__()
        self.model, self.text = model, encoder


def warm_start(trainee: nn.Module, stored: dict[str, Tensor]) -> None:
    """Take over every tensor of the same name and shape.

    From pocket-ar to pocket-ar-joint that is the backbone: what it knows of words and pictures
    serves both, only norms and heads differ.
    """
    own = trainee.state_dict()
    fitting = {n: t for n, t in stored.items() if n in own and own[n].shape == t.shape}
    trainee.load_state_dict({**own, **fitting})
    print(f"starting from {len(fitting)} of {len(own)} tensors", flush=True)


def initialise(model: nn.Module) -> None:
    """Small output layers and closed gates, so that blocks start as the identity."""
    closed = (
        "adaLN_modulation",
        "ada_lin",
        "final_layer.linear",
        "adaln_single.linear",
        "proj_out",
        "norm1.linear",
        "norm_out.linear",
    )
    for name, parameter in model.named_parameters():
        if name.endswith(("mask_token", "split_token", "pos_emb")):
            nn.init.normal_(parameter, std=0.02)
        elif any(part in name for part in closed) or "scale_shift" in name:
            nn.init.zeros_(parameter)
        elif name.endswith(".bias"):
            nn.init.zeros_(parameter)
        elif parameter.ndim >= 2:
            nn.init.trunc_normal_(parameter, std=0.5 / math.sqrt(parameter[0].numel()))
