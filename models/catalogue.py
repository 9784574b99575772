"""The catalogue: one `Variant` per system a visitor can choose.

Switchers, command line, loader and benchmarks all read it; adding a variant is adding one entry.
Published figures are the publishers' own and carry the device they were measured on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from models.captions import CaptionMode

Family = Literal["nitro-ar", "nitro-e", "instella"]
SamplerKind = Literal["mlp-head", "joint-head", "diffusion", "bit-diffusion", "bit-ar"]


@dataclass(frozen=True)
class StepRange:
    """A whole-number setting: its default and the range a visitor may choose."""

    default: int
    low: int
    high: int


@dataclass(frozen=True)
class PublishedFigure:
    """A number its publisher states; never one measured here."""

    name: str
    value: str
    device: str
    source: str


@dataclass(frozen=True)
class Variant:
    """One system: which classes and files make it, and how it is sampled by default.

    `resolution` is in pixels a side, `grid` in tokens a side (0 where `tokens` says how many). `text_encoder` and `autoencoder`
    name parts that several variants share (see `models.loading`).
    """

    id: str
    family: Family
    title: str
    summary: str
    sampler: SamplerKind
    resolution: int
    grid: int
    ar_iterations: StepRange
    flow_steps: StepRange
    cfg_scale: float
    weights_file: str
    text_encoder: str
    autoencoder: str
    licence: str
    embedded: bool = False  # ships with the product; needs no download
    hub_repo: str | None = None
    caption: CaptionMode = "raw"  # what is done to a prompt, unless somebody wants it otherwise
    lora_folder: str | None = None  # an adapter beside the weights, merged when they are loaded
    parameters_m: int | None = None  # millions, text encoder and autoencoder not counted
    published: tuple[PublishedFigure, ...] = ()
    tokens: int = 0  # in a row without a place in the picture; 0 = tokens are a grid's cells
    sizes: tuple[int, ...] = ()  # pixels a side the same tokens can be decoded at, if several
    research_only: str = ""  # what has to be accepted before the weights are loaded

    @property
    def shape(self) -> tuple[int, int]:
        """The latent's height and width in tokens."""
        return (self.tokens, 1) if self.tokens else (self.grid, self.grid)

    @property
    def geometry(self) -> tuple[str, int]:
        """Variants of equal geometry understand each other's latents."""
        return self.autoencoder, self.tokens or self.grid

    @property
    def rounding(self) -> Literal["truncate", "round"]:
        """How the family's published pipeline makes 8 bits of a pixel."""
        return "round" if self.family == "nitro-e" else "truncate"

    def steps(self, ar_iterations: int, flow_steps: int) -> int:
        """Sampler steps of one picture."""
        match self.sampler:
            case "mlp-head":
                return ar_iterations
            case "joint-head":
                return 1 + ar_iterations * flow_steps
            case "diffusion" | "bit-diffusion":
                return flow_steps
            case "bit-ar":
                return self.tokens


CFG_RANGE = (1.0, 15.0)
_NITRO_BLOG = "ROCm blog, 22 Jan 2026"
_NITRO_LICENCE = (
    "Weights by AMD: the Hub card says Apache-2.0, the repository's README MIT. Text encoder: "
    "Llama 3.2 Community License. Autoencoder: Apache-2.0."
)
_E_BLOG = "ROCm blog, 24 Oct 2025"
_E_LICENCE = (
    "Weights by AMD: MIT. Text encoder: Llama 3.2 Community License. Autoencoder: Apache-2.0."
)
_ONE = StepRange(1, 1, 1)  # diffusion has no AR iterations
_RESEARCH_ONLY = (
    "Instella-T2I's weights are published by AMD under a Research-Only RAIL-MS licence: academic "
    "and research use alone, with its use restrictions passed on; hosting them for others counts "
    "as distribution. Read it at https://huggingface.co/amd/Instella-T2I before you go on."
)
_INSTELLA_LICENCE = (
    "Weights by AMD: Research-Only RAIL-MS (no commercial use, use restrictions). Text encoder: "
    "AMD-OLMo-1B, Apache-2.0."
)
_POCKET_LICENCE = "Trained here on Noto Color Emoji (SIL OFL 1.1); see assets/pocket/README.md."

_NITRO_E = Variant(
    id="nitro-e",
    family="nitro-e",
    title="Nitro-E",
    summary="AMD, 512 px: E-MMDiT diffusion, 20 steps with guidance.",
    sampler="diffusion",
    resolution=512,
    grid=16,
    ar_iterations=_ONE,
    flow_steps=StepRange(20, 1, 50),
    cfg_scale=4.5,
    weights_file="Nitro-E-512px.safetensors",
    text_encoder="llama-3.2-1b",
    autoencoder="dc-ae-f32c32",
    licence=_E_LICENCE,
    hub_repo="amd/Nitro-E",
    caption="lower",
    parameters_m=304,
    published=(
        PublishedFigure("latency", "398 ms", "MI300X", _E_BLOG),
        PublishedFigure("throughput, batch 32", "18.8 pictures/s", "MI300X", _E_BLOG),
        PublishedFigure("GenEval", "0.66", "MI300X", _E_BLOG),
    ),
)

_POCKET_E = Variant(
    id="pocket-e",
    family="nitro-e",
    title="Pocket E",
    summary="Small model that ships with the product; diffusion, which settles the whole picture in "
    "20 steps. Knows 142 things and 12 colours.",
    sampler="diffusion",
    resolution=128,
    grid=8,
    ar_iterations=_ONE,
    flow_steps=StepRange(20, 1, 50),
    cfg_scale=3.0,
    weights_file="pocket-e.safetensors",
    text_encoder="pocket",
    autoencoder="pocket",
    licence=_POCKET_LICENCE,
    embedded=True,
)

_INSTELLA = Variant(
    id="instella-diffusion",
    family="instella",
    title="Instella-T2I",
    summary="AMD, 512 px: a row of 128 binary tokens, settled by 20 diffusion steps. Research only.",
    sampler="bit-diffusion",
    resolution=512,
    grid=0,
    tokens=128,
    sizes=(256, 512, 768, 1024),
    ar_iterations=_ONE,
    flow_steps=StepRange(20, 1, 100),
    cfg_scale=8.5,  # the release's guidance of 7.5 in the usual convention
    weights_file="diffusion.pt",
    text_encoder="amd-olmo-1b",
    autoencoder="instella-bae",
    licence=_INSTELLA_LICENCE,
    research_only=_RESEARCH_ONLY,
    hub_repo="amd/Instella-T2I",
    parameters_m=1293,
)

CATALOGUE: tuple[Variant, ...] = (
    Variant(
        id="pocket-ar",
        family="nitro-ar",
        title="Pocket AR",
        summary="Small model that ships with the product; commits its picture token by token. Knows "
        "142 things and 12 colours.",
        sampler="mlp-head",
        resolution=128,
        grid=8,
        ar_iterations=StepRange(24, 1, 64),
        flow_steps=StepRange(6, 1, 50),
        cfg_scale=3.0,
        weights_file="pocket-ar.safetensors",
        text_encoder="pocket",
        autoencoder="pocket",
        licence=_POCKET_LICENCE,
        embedded=True,
    ),
    Variant(
        id="pocket-ar-joint",
        family="nitro-ar",
        title="Pocket AR Joint",
        summary="Small model that ships with the product; draws all tokens at once, which is quicker. "
        "Knows 142 things and 12 colours.",
        sampler="joint-head",
        resolution=128,
        grid=8,
        ar_iterations=StepRange(1, 1, 64),
        flow_steps=StepRange(6, 1, 50),
        cfg_scale=2.0,
        weights_file="pocket-ar-joint.safetensors",
        text_encoder="pocket",
        autoencoder="pocket",
        licence=_POCKET_LICENCE,
        embedded=True,
    ),
    _POCKET_E,
    replace(
        _POCKET_E,
        id="pocket-e-dist",
        title="Pocket E dist",
        summary="Small model that ships with the product: Pocket E distilled to four steps without "
        "guidance.",
        flow_steps=StepRange(4, 1, 50),
        cfg_scale=1.0,
        weights_file="pocket-e-dist.safetensors",
    ),
    Variant(
        id="pocket-instella",
        family="instella",
        title="Pocket Instella",
        summary="Small model that ships with the product; writes its picture as a row of 64 binary "
        "tokens. Knows 142 things and 12 colours, roughly: a quarter comes out right.",
        sampler="bit-ar",
        resolution=128,
        grid=0,
        tokens=64,
        sizes=(64, 128, 256),
        ar_iterations=_ONE,
        flow_steps=_ONE,
        cfg_scale=3.0,
        weights_file="pocket-instella.safetensors",
        text_encoder="pocket",
        autoencoder="pocket-bits",
        licence=_POCKET_LICENCE,
        embedded=True,
    ),
    Variant(
        id="nitro-ar-gan",
        family="nitro-ar",
        title="Nitro-AR GAN",
        summary="AMD, 512 px: 20 masked-autoregressive iterations, 3-step MLP flow head.",
        sampler="mlp-head",
        resolution=512,
        grid=16,
        ar_iterations=StepRange(20, 1, 64),
        flow_steps=StepRange(3, 1, 50),
        cfg_scale=4.0,
        weights_file="Nitro-AR-512px-GAN.safetensors",
        text_encoder="llama-3.2-1b",
        autoencoder="dc-ae-f32c32",
        licence=_NITRO_LICENCE,
        hub_repo="amd/Nitro-AR",
        parameters_m=324,
        published=(
            PublishedFigure("latency", "328 ms", "MI325X", _NITRO_BLOG),
            PublishedFigure("latency", "230 ms", "RX 7900 XT", _NITRO_BLOG),
            PublishedFigure("GenEval", "0.66", "MI325X", _NITRO_BLOG),
        ),
    ),
    Variant(
        id="nitro-ar-joint-gan",
        family="nitro-ar",
        title="Nitro-AR Joint-GAN",
        summary="AMD, 512 px: one iteration, global token and 6-step transformer flow head.",
        sampler="joint-head",
        resolution=512,
        grid=16,
        ar_iterations=StepRange(1, 1, 64),
        flow_steps=StepRange(6, 1, 50),
        cfg_scale=4.0,
        weights_file="Nitro-AR-512px-Joint-GAN.safetensors",
        text_encoder="llama-3.2-1b",
        autoencoder="dc-ae-f32c32",
        licence=_NITRO_LICENCE,
        hub_repo="amd/Nitro-AR",
        parameters_m=474,
        published=(
            PublishedFigure("latency", "74 ms", "MI325X", _NITRO_BLOG),
            PublishedFigure("GenEval", "0.60", "MI325X", _NITRO_BLOG),
        ),
    ),
    _NITRO_E,
    replace(
        _NITRO_E,
        id="nitro-e-dist",
        title="Nitro-E 4-step",
        summary="AMD, 512 px: distilled E-MMDiT, 4 steps without guidance.",
        flow_steps=StepRange(4, 1, 50),
        cfg_scale=1.0,
        weights_file="Nitro-E-512px-dist.safetensors",
        published=(
            PublishedFigure("latency", "99 ms", "MI300X", _E_BLOG),
            PublishedFigure("throughput, batch 32", "39.4 pictures/s", "MI300X", _E_BLOG),
            PublishedFigure("GenEval", "0.67", "MI300X", _E_BLOG),
        ),
    ),
    replace(
        _NITRO_E,
        id="nitro-e-grpo",
        title="Nitro-E GRPO",
        summary="AMD, 512 px: Nitro-E with its reinforcement-learnt adapter merged.",
        lora_folder="ckpt_grpo_512px",
        published=(
            PublishedFigure("latency", "398 ms", "MI300X", _E_BLOG),
            PublishedFigure("GenEval", "0.72", "MI300X", _E_BLOG),
        ),
    ),
    replace(
        _NITRO_E,
        id="nitro-e-1024",
        title="Nitro-E 1024",
        summary="AMD, 1024 px: E-MMDiT diffusion, 20 steps with guidance.",
        resolution=1024,
        grid=32,
        weights_file="Nitro-E-1024px.safetensors",
        published=(),
    ),
    _INSTELLA,
    replace(
        _INSTELLA,
        id="instella-ar",
        title="Instella-T2I AR",
        summary="AMD, 512 px: 128 binary tokens, written one after the other. Research only.",
        sampler="bit-ar",
        flow_steps=_ONE,
        weights_file="ar.pt",
        parameters_m=881,
    ),
)


def variant_ids() -> tuple[str, ...]:
    return tuple(variant.id for variant in CATALOGUE)


def find_variant(variant_id: str) -> Variant:
    """The catalogue's entry. Raises `KeyError` with the known ids in its message."""
    for variant in CATALOGUE:
        if variant.id == variant_id:
            return variant
    raise KeyError(f"There is no variant {variant_id!r}. Known: {', '.join(variant_ids())}.")
