"""The text encoder of Instella-T2I: AMD-OLMo-1B, read after every layer.

Features are what stands after each of the 16 layers; the last one has been through the final norm,
the others have not. Every prompt is read alone and without padding: nothing can leak from padded
places then, and an empty prompt simply has no features.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoTokenizer, OlmoModel

from models.text import FastTokenizer, Tokenizer

MAX_TOKENS = 128
# amd/AMD-OLMo-1B (Apache-2.0).
OLMO_1B: dict[str, Any] = {
    "vocab_size": 50304,
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "max_position_embeddings": 2048,
    "rope_theta": 10000.0,
    "pad_token_id": 1,
    "bos_token_id": None,
    "eos_token_id": 50279,
    "tie_word_embeddings": True,
}


class OlmoTextEncoder:
    """Prompts to features [layers, tokens, width]; see `models.contracts.TextEncoder`."""

    def __init__(
        self, model: OlmoModel, tokenizer: Tokenizer, max_tokens: int = MAX_TOKENS
    ) -> None:
        self.model, self.tokenizer, self.max_tokens = model, tokenizer, max_tokens

    @classmethod
    def from_folder(cls, folder: Path, dtype: torch.dtype) -> OlmoTextEncoder:
        """From a folder in the usual transformers layout. Raises what transformers raises."""
        model = OlmoModel.from_pretrained(folder, dtype=dtype, use_safetensors=True)
        model.eval().requires_grad_(False)
        return cls(model, FastTokenizer(AutoTokenizer.from_pretrained(folder)))

    def encode(self, prompts: Sequence[str]) -> list[Tensor]:
        return [self.features(self.tokenizer.ids(prompt)[: self.max_tokens]) for prompt in prompts]

    def features(self, ids: Sequence[int]) -> Tensor:
        """Of token ids, [layers, len(ids), width]."""
        weight = self.model.embed_tokens.weight
        if not ids:
            return weight.new_zeros(self.model.config.num_hidden_layers, 0, weight.shape[1])
        rows = torch.tensor([list(ids)], device=weight.device)
        made = self.model(input_ids=rows, use_cache=False, output_hidden_states=True)
        return torch.cat(made.hidden_states[1:])  # the first one is the embedding

    def count_tokens(self, prompt: str) -> int:
        return len(self.tokenizer.ids(prompt))

    def unknown_words(self, prompt: str) -> list[str]:
        return self.tokenizer.unknown_words(prompt)

    def nearest_words(self, word: str) -> list[str]:
        return []
