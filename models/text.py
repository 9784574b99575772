"""Text encoders: any Llama-family checkpoint, without its language-model head.

Image models read the last hidden state after the final norm, for all rows including padding: a pad
row is a function of the prompt's tokens and its own position, and the models were trained with it.
So prompts are always padded to the full length, on the right.
"""

from __future__ import annotations

import string
import threading
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor
from transformers import AutoTokenizer, LlamaConfig, LlamaModel, PreTrainedTokenizerBase

from models.packed import FILE as PACKED
from models.packed import read_packed
from models.weights import load_into, shapes_of
from models.wording import NearestWords


class Tokenizer(Protocol):
    """What the encoder needs of a tokenizer. Implementations are safe to call from any thread."""

    pad_id: int

    def ids(self, prompt: str) -> list[int]:
        """Token ids of the whole prompt, the begin token first."""

    def unknown_words(self, prompt: str) -> list[str]:
        """Words that map to the unknown token."""


class FastTokenizer:
    """A transformers tokenizer behind a lock: fast tokenizers cannot be borrowed by two threads."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._tokenizer, self._lock = tokenizer, threading.Lock()
        pad = tokenizer.pad_token_id
        self.pad_id: int = tokenizer.eos_token_id if pad is None else pad

    def ids(self, prompt: str) -> list[int]:
        with self._lock:
            ids: list[int] = self._tokenizer(prompt, verbose=False)["input_ids"]
        return ids

    def unknown_words(self, prompt: str) -> list[str]:
        unknown = self._tokenizer.unk_token_id
        if unknown is None:
            return []
        with self._lock:
            encoded = self._tokenizer(prompt, return_offsets_mapping=True, verbose=False)
        pairs = zip(encoded["input_ids"], encoded["offset_mapping"], strict=True)
        words = (
            prompt[a:b].strip(string.punctuation) for token, (a, b) in pairs if token == unknown
        )
        # Letters, digits and symbols such as emoji count as words; punctuation does not.
        return list(dict.fromkeys(word for word in words if any(map(_says_something, word))))


def _says_something(character: str) -> bool:
    return character.isalnum() or unicodedata.category(character) == "So"


class ByteTokenizer:
    """One token a byte: stands in where no vocabulary can be downloaded (random weights)."""

    def __init__(self, begin_id: int, pad_id: int) -> None:
        self.begin_id, self.pad_id = begin_id, pad_id

    def ids(self, prompt: str) -> list[int]:
        return [self.begin_id, *prompt.encode()]

    def unknown_words(self, prompt: str) -> list[str]:
        return []


class LlamaTextEncoder:
    """Prompts to rows [n, max_tokens, width]; see `models.contracts.TextEncoder`."""

    def __init__(
        self,
        model: LlamaModel,
        tokenizer: Tokenizer,
        max_tokens: int,
        nearest: NearestWords | None = None,
    ) -> None:
        self.model, self.tokenizer, self.max_tokens = model, tokenizer, max_tokens
        self._nearest = nearest

    @classmethod
    def from_folder(cls, folder: Path, max_tokens: int, dtype: torch.dtype) -> LlamaTextEncoder:
        """From a folder in the usual transformers layout, or with its weights in 8 bits. Raises what
        transformers raises, or `models.weights.WeightsError`."""
        if (folder / PACKED).is_file():
            model = _unpacked(folder, dtype)
        else:
            model = LlamaModel.from_pretrained(folder, dtype=dtype, use_safetensors=True)
        tokenizer = AutoTokenizer.from_pretrained(folder)
        nearest = NearestWords.beside(folder, tokenizer.get_vocab())
        model.eval().requires_grad_(False)
        return cls(model, FastTokenizer(tokenizer), max_tokens, nearest)

    def encode(self, prompts: Sequence[str]) -> Tensor:
        ids = [self.tokenizer.ids(prompt)[: self.max_tokens] for prompt in prompts]
        batch = torch.full((len(ids), self.max_tokens), self.tokenizer.pad_id)
        mask = torch.zeros_like(batch)
        for row, tokens in enumerate(ids):
            batch[row, : len(tokens)] = torch.tensor(tokens)
            mask[row, : len(tokens)] = 1
        return self.encode_ids(batch, mask)

    def encode_ids(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Padded ids and their mask, both [n, L], to rows [n, L, width]."""
        device = self.model.embed_tokens.weight.device
        return self.model(
            input_ids=ids.to(device), attention_mask=mask.to(device), use_cache=False
        ).last_hidden_state

    def count_tokens(self, prompt: str) -> int:
        return len(self.tokenizer.ids(prompt))

    def unknown_words(self, prompt: str) -> list[str]:
        return self.tokenizer.unknown_words(prompt)

    def nearest_words(self, word: str) -> list[str]:
        return self._nearest(word) if self._nearest else []


def _unpacked(folder: Path, dtype: torch.dtype) -> LlamaModel:
    with torch.device("meta"):
        model = LlamaModel(LlamaConfig.from_pretrained(folder))
    tensors = read_packed(folder / PACKED, shapes_of(model))
    model.rotary_emb = type(model.rotary_emb)(model.config)  # its table is no weight
    load_into(model, tensors, dtype)
    return model
