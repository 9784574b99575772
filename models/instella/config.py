"""Every number of the binary autoencoder and of the generators: published sizes and Pocket's."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

Kind = Literal["diffusion", "ar"]


@dataclass(frozen=True)
class CoderConfig:
    """One half of the autoencoder. `turn_after` is the block after which its grid changes size."""

    layers: int
    heads: int
    head_dim: int
    turn_after: int

    @property
    def width(self) -> int:
        return self.heads * self.head_dim


@dataclass(frozen=True)
class TokenizerConfig:
    """The binary autoencoder. `span` is the side in pixels whose fine grid has whole-number
    coordinates; every other size samples the same square more or less densely."""

    encoder: CoderConfig = CoderConfig(12, 12, 64, 7)
    decoder: CoderConfig = CoderConfig(16, 16, 64, 7)
    patch: int = 16
    tokens: int = 128
    bits: int = 64
    axes: tuple[int, int, int] = (8, 28, 28)  # channels for token number, row, column
    span: int = 1024

    def __post_init__(self) -> None:
        for coder in (self.encoder, self.decoder):
            if sum(self.axes) != coder.head_dim:
                raise ValueError(
                    f"The axes {self.axes} make {sum(self.axes)} channels, heads have "
                    f"{coder.head_dim}."
                )
            if not 0 <= coder.turn_after < coder.layers:
                raise ValueError(
                    f"The grid changes after block {coder.turn_after} of {coder.layers}."
                )

    @property
    def fine(self) -> int:
        """Length of the coordinate square on the fine grid; half of it on the coarse one."""
        return self.span // self.patch


@dataclass(frozen=True)
class GeneratorConfig:
    """A generator of either kind: `tokens` of `bits` each, read beside the text's rows."""

    kind: Kind = "diffusion"
    tokens: int = 128
    bits: int = 64
    layers: int = 16
    heads: int = 16
    head_dim: int = 128
    text_width: int = 2048

    @property
    def width(self) -> int:
        return self.heads * self.head_dim


INSTELLA_TOKENIZER = TokenizerConfig()
INSTELLA_DIFFUSION = GeneratorConfig("diffusion")
INSTELLA_AR = GeneratorConfig("ar")

# Small enough for a laptop's CPU: 1,024 bits a picture of 128 px.
POCKET_TOKENIZER = TokenizerConfig(
    encoder=CoderConfig(4, 4, 32, 1),
    decoder=CoderConfig(6, 4, 32, 3),
    patch=16,
    tokens=64,
    bits=16,
    axes=(8, 12, 12),
    span=128,
)
POCKET_BITS_AR = GeneratorConfig("ar", 64, 16, layers=6, heads=4, head_dim=32, text_width=160)
POCKET_BITS_DIFFUSION = replace(POCKET_BITS_AR, kind="diffusion")
