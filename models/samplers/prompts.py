"""What the steps of a masked-AR sample need of its prompt, computed once per prompt."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from models.emmdit import EmbeddedText, EMMDiT


@dataclass
class PromptContext:
    """A prompt's embedded text, and the results of passes that depend on nothing else.

    The first backbone pass sees masked tokens only, and the global pass one masked token, so both
    are the same for every seed. They are filled in when first needed.
    """

    text: EmbeddedText  # batch 1
    first_pass: Tensor | None = None  # [1, T, D]
    global_pass: Tensor | None = None  # [1, 1, D]

    @classmethod
    def of(cls, backbone: EMMDiT, text_rows: Tensor) -> PromptContext:
        """From the text encoder's rows [L, text width] of one prompt."""
        weight = backbone.context_embedder.weight
        return cls(backbone.embed_text(text_rows[None].to(weight.device, weight.dtype)))
