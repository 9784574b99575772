"""The binary autoencoder: a picture to a row of tokens of some bits each, and back at any size.

Tokens have no place in the picture: every one of them reaches every patch. Encoder and decoder are
one transformer each over latents and patches; the encoder halves its grid of patches on the way,
the decoder doubles it. The decoder starts from copies of one learnt patch, so that the same bits
can be decoded on a grid of any even size.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.instella.config import CoderConfig, TokenizerConfig
from models.instella.layers import GatedMLP, HeadProjections, UnitNorm
from models.instella.positions import angle_table, coordinates, turn

Table = tuple[Tensor, Tensor]  # cosines and sines, [n, head_dim]
Rounding = Literal["bf16", "exact"]


class Attention(HeadProjections):
    """Full attention with positions applied after the norms."""

    def forward(self, x: Tensor, table: Table) -> Tensor:
        q, k = turn(self.queries(x), *table), turn(self.keys(x), *table)
        return self.join(F.scaled_dot_product_attention(q, k, self.values(x)))


class Block(nn.Module):
    """Attention, then the gated network, each behind a norm."""

    def __init__(self, config: CoderConfig) -> None:
        super().__init__()
        self.mlp = GatedMLP(config.width)
        self.input_layernorm = UnitNorm(config.width)
        self.post_attention_layernorm = UnitNorm(config.width)
        self.attn = Attention(config.heads, config.head_dim)

    def forward(self, x: Tensor, table: Table) -> Tensor:
        x = x + self.attn(self.input_layernorm(x), table)
        return x + self.mlp(self.post_attention_layernorm(x))


class Down(nn.Module):
    """Halve a map [B, D, h, w]: a strided convolution beside an average."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, stride=2, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x) + F.avg_pool2d(x, 2)


class Up(nn.Module):
    """Double a map [B, D, h, w]: a convolution to four times the channels beside a copy."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(width, 4 * width, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return F.pixel_shuffle(self.conv(x), 2) + F.interpolate(x, scale_factor=2.0, mode="nearest")


def resized(x: Tensor, latents: int, rows: int, columns: int, layer: nn.Module) -> Tensor:
    """Apply `Down` or `Up` to the patches of a sequence [B, latents + rows * columns, D]."""
    tokens, patches = x[:, :latents], x[:, latents:]
    grid = layer(patches.mT.unflatten(2, (rows, columns)))
    return torch.cat([tokens, grid.flatten(2).mT], dim=1)


class Encoder(nn.Module):
    """Pixels [B, 3, H, W] in -1..1 to latents [B, tokens, D]."""

    def __init__(self, config: TokenizerConfig) -> None:
        super().__init__()
        self.config, width = config, config.encoder.width
        self.latent_tokens = nn.Parameter(torch.zeros(1, config.tokens, width))
        self.patch_embedder = nn.Conv2d(3, width, config.patch, stride=config.patch)
        self.transformer_blocks = nn.ModuleList(
            Block(config.encoder) for _ in range(config.encoder.layers)
        )
        self.down_layers = nn.ModuleList([Down(width)])
        self.norm_out = UnitNorm(width)
        self.proj_out = nn.Linear(width, width)

    def forward(self, pixels: Tensor, tables: Tables) -> Tensor:
        patches = self.patch_embedder(pixels)  # [B, D, h, w]
        rows, columns = patches.shape[2:]
        latents, square = self.config.tokens, self.config.fine
        x = torch.cat([self.latent_tokens.expand(len(pixels), -1, -1), patches.flatten(2).mT], 1)
        table = tables(latents, rows, columns, square, x.device)
        for index, block in enumerate(self.transformer_blocks):
            x = block(x, table)
            if index == self.config.encoder.turn_after:
                x = resized(x, latents, rows, columns, self.down_layers[0])
                table = tables(latents, rows // 2, columns // 2, square // 2, x.device)
        return self.proj_out(self.norm_out(x[:, :latents]))


class Decoder(nn.Module):
    """Embedded tokens [B, n, D of the encoder] to rows of patches [B, h * w, D]."""

    def __init__(self, config: TokenizerConfig) -> None:
        super().__init__()
        self.config, width = config, config.decoder.width
        self.mask_tokens = nn.Parameter(torch.zeros(1, 1, width))
        self.input_layer = nn.Sequential(
            UnitNorm(config.encoder.width), nn.Linear(config.encoder.width, width)
        )
        self.transformer_blocks = nn.ModuleList(
            Block(config.decoder) for _ in range(config.decoder.layers)
        )
        self.up_layers = nn.ModuleList([Up(width)])
        self.norm_out = UnitNorm(width)

    def forward(self, embedded: Tensor, rows: int, columns: int, tables: Tables) -> Tensor:
        """`rows` and `columns` are those of the fine grid."""
        count, latents = embedded.shape[:2]
        down, right, square = rows // 2, columns // 2, self.config.fine
        patches = self.mask_tokens.expand(count, down * right, -1)
        x = torch.cat([self.input_layer(embedded), patches], dim=1)
        table = tables(latents, down, right, square // 2, x.device)
        for index, block in enumerate(self.transformer_blocks):
            x = block(x, table)
            if index == self.config.decoder.turn_after:
                x = resized(x, latents, down, right, self.up_layers[0])
                table = tables(latents, rows, columns, square, x.device)
        return self.norm_out(x[:, latents:])


class Quantiser(nn.Module):
    """Latents to logits of bits, and bits to what the decoder reads: a sum of the rows that are 1."""

    def __init__(self, config: TokenizerConfig) -> None:
        super().__init__()
        self.embed = nn.Parameter(torch.zeros(config.bits, config.encoder.width))
        self.proj = nn.Sequential(nn.Linear(config.encoder.width, config.bits))


class Tables:
    """Tables of angles by grid, remembered. `rounding` "bf16" rounds coordinates first, as the
    published pipeline does, which computes in that type."""

    def __init__(self, axes: tuple[int, int, int], rounding: Rounding, scaled: bool) -> None:
        self.axes, self.rounding, self.scaled = axes, rounding, scaled
        self._known: dict[tuple[int, int, int, int, torch.device], Table] = {}

    def __call__(
        self, latents: int, rows: int, columns: int, square: int, device: torch.device
    ) -> Table:
        key = (latents, rows, columns, square, device)
        if key not in self._known:
            places = coordinates(latents, rows, columns, square if self.scaled else None)
            if self.rounding == "bf16":
                places = places.bfloat16().float()
            cosines, sines = angle_table(places, self.axes)
            self._known[key] = cosines.to(device), sines.to(device)
        return self._known[key]


class BinaryTokenizer(nn.Module):
    """Encoder, quantiser and decoder. Arithmetic in the parameters' type."""

    def __init__(
        self, config: TokenizerConfig, rounding: Rounding = "bf16", scaled: bool = True
    ) -> None:
        super().__init__()
        self.config = config
        self.encoder, self.decoder = Encoder(config), Decoder(config)
        self.to_pixel = nn.Linear(config.decoder.width, 3 * config.patch**2)
        self.quantizer = Quantiser(config)
        self.tables = Tables(config.axes, rounding, scaled)

    def logits(self, pixels: Tensor) -> Tensor:
        """Pixels [B, 3, H, W] in -1..1 to logits [B, tokens, bits]; a bit is 1 where over 0.

        Sides are multiples of two patches, and four of them at least; else `ValueError`.
        """
        unit, (height, width) = 2 * self.config.patch, pixels.shape[2:]
        if height % unit or width % unit or min(height, width) < 2 * unit:
            raise ValueError(
                f"A picture of {width} x {height} px cannot be encoded: sides have to be multiples "
                f"of {unit} px, and {2 * unit} px at least."
            )
        return self.quantizer.proj(self.encoder(pixels, self.tables))

    def decode(self, bits: Tensor, rows: int, columns: int) -> Tensor:
        """Bits [B, n, bits], or probabilities of them, to pixels [B, 3, rows * patch, ...], about
        -1..1. `rows` and `columns` count patches: even, and 4 at least; else `ValueError`."""
        if rows % 2 or columns % 2 or min(rows, columns) < 4:
            raise ValueError(
                f"A grid of {rows} x {columns} patches cannot be decoded: both have to be even "
                "and 4 at least."
            )
        embedded = bits.to(self.quantizer.embed.dtype) @ self.quantizer.embed
        patches = self.to_pixel(self.decoder(embedded, rows, columns, self.tables))
        side = self.config.patch
        picture = patches.unflatten(2, (side, side, 3)).unflatten(1, (rows, columns))
        return picture.permute(0, 5, 1, 3, 2, 4).flatten(4, 5).flatten(2, 3)  # [B, 3, H, W]
