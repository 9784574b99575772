"""Pocket's tokenizer: one token a word of the world's captions, in the usual tokenizer.json."""

from __future__ import annotations

import re
from pathlib import Path

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from training.world import captions
from training.world.vocabulary import COLOUR_SYNONYMS, COLOURS, OBJECTS, SYNONYMS, plural

MAX_TOKENS = 24
UNKNOWN, PAD, BEGIN = "<unk>", "<pad>", "<s>"


def vocabulary() -> list[str]:
    """Every word the captions can hold, special tokens first, then in alphabetical order."""
    nouns = [*OBJECTS, *(word for words in SYNONYMS.values() for word in words)]
    texts = [
        *nouns,
        *(plural(noun) for noun in nouns),
        *COLOURS,
        *(word for words in COLOUR_SYNONYMS.values() for word in words),
        *(word for words in captions.NUMBERS.values() for word in words),
        *captions.OPENINGS,
        *captions.ADJECTIVES,
        *captions.CLOSINGS,
        *(word for words in captions.RELATIONS.values() for word in words),
        "in front of",
        captions.FUNCTION_WORDS,
    ]
    words = {word for text in texts for word in re.findall(r"\w+|[^\w\s]+", text.lower())}
    return [UNKNOWN, PAD, BEGIN, *sorted(words)]


def build_tokenizer() -> PreTrainedTokenizerFast:
    """Lower-cased words and punctuation; a begin token in front, right padding."""
    ids = {word: index for index, word in enumerate(vocabulary())}
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token=UNKNOWN))
    # A glyph of the world says its name, with or without the mark that asks for its colours.
    glyphs = [
        normalizers.Replace(glyph, f" {name} ")
        for name, emoji in OBJECTS.items()
        for glyph in dict.fromkeys((emoji, emoji.rstrip("\ufe0f")))
    ]
    tokenizer.normalizer = normalizers.Sequence(
        [
            *glyphs,
            normalizers.Replace("\ufe0f", ""),
            normalizers.NFKD(),
            normalizers.StripAccents(),
            normalizers.Lowercase(),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BEGIN} $A", special_tokens=[(BEGIN, ids[BEGIN])]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token=UNKNOWN,
        pad_token=PAD,
        bos_token=BEGIN,
        model_max_length=MAX_TOKENS,
    )


def save_tokenizer(folder: Path) -> None:
    build_tokenizer().save_pretrained(folder)
