"""The contract between models and engine: what a sampler, an encoder and a loaded variant offer.

The engine knows samplers only through these types. One step of a sampler advances several samples
at once, each at its own progress, which is what makes batching across visitors possible.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import torch
from torch import Tensor, nn

from models.catalogue import Variant

if TYPE_CHECKING:  # they build on the settings below
    from models.given import Given
    from models.instella.autoencoder import SmallDecode
    from models.preview import PreviewDecoder
    from models.trajectory import Trajectory

CfgSchedule = Literal["constant", "linear"]
WeightState = Literal["pocket", "official", "random"]


@dataclass(frozen=True)
class SampleSettings:
    """Everything but the prompt that decides a picture. Validated by the engine's request.

    `temperature` scales the initial flow noise; 1.0 is the reference's behaviour.
    """

    seed: int
    ar_iterations: int
    flow_steps: int
    cfg_scale: float
    cfg_schedule: CfgSchedule = "constant"
    temperature: float = 1.0


class SampleState(Protocol):
    """One sample in progress. `step` counts the steps done; only its sampler changes it."""

    step: int


class Sampler(Protocol):
    """Turns a variant into steps. Not thread-safe: one thread owns it.

    A sampler gets back only states that it made itself, each a `SampleState` of its own class.
    """

    def prompt_context(self, text_rows: Tensor) -> Any:
        """What the steps need of a prompt, computed once: `text_rows` is [L, text width]."""

    def start(
        self,
        settings: SampleSettings,
        prompt: Any,
        unconditional: Any,
        *,
        given: Given | None = None,
    ) -> SampleState:
        """A new sample. All its randomness is drawn here, on the CPU, from `settings.seed`.

        `prompt` and `unconditional` are results of `prompt_context`; the latter is the empty
        prompt's and may be ignored where the settings use no guidance. With `given` the sample
        starts from a picture: its kept cells come out bit for bit as they were given, and fewer
        free cells take fewer steps.
        """

    def resume(
        self,
        settings: SampleSettings,
        prompt: Any,
        unconditional: Any,
        *,
        trajectory: Trajectory,
        step: int,
    ) -> SampleState:
        """A sample that goes on from where another one stood after `step` steps (fewer than all;
        where tokens can be decoded at several sizes also all of them).

        The other's variant has to share this one's autoencoder and grid. With the same settings
        and prompt the result is the other's, bit for bit. Another prompt, CFG scale or seed
        counts from here on; where a flow cannot be taken over (another kind of sampler, another
        seed's noise), it starts from the flow's estimate, noised as far as the flow was.
        """

    def trajectory(self, state: Any) -> Trajectory:
        """What a finished sample leaves behind. Shares its tensors: nothing is copied."""

    def num_steps(self, state: Any) -> int:
        """How many calls of `advance` the sample takes in all."""

    def advance(self, states: Sequence[Any]) -> None:
        """ONE step for every state. They may differ in progress, seed, prompt and settings."""

    def batch_key(self, settings: SampleSettings) -> object:
        """Samples of one variant with equal keys may share an `advance`."""

    def latent(self, state: Any) -> Tensor:
        """What is known now, [C, H, W], in the autoencoder's scale. For a preview or the end."""

    def shown(self, state: Any) -> Tensor | bool:
        """Which cells of `latent` mean something now: True = all of them, False = none yet, or
        bool [H, W]."""

    def committed(self, state: Any) -> Tensor | None:
        """int16 [H, W]: the step (from 1) that committed each token, 0 = still masked, -1 = kept
        from the picture the sample started from.

        None for samplers without tokens (diffusion).
        """

    def noise_level(self, state: Any) -> float | None:
        """How much of the whole picture is still noise, 1 to 0; None where tokens are committed
        one after the other instead."""

    def raster(self, state: Any) -> Tensor | None:
        """uint8 [tokens, bits], a byte a bit: bit 7 is its value, bits 0 to 6 how sure the clean
        one is. None for samplers whose tokens are not binary."""


class TextEncoder(Protocol):
    """Prompts to the rows an image model reads."""

    max_tokens: int

    def encode(self, prompts: Sequence[str]) -> Tensor | Sequence[Tensor]:
        """[len(prompts), L, width], padded to the length the image model was trained with; or one
        tensor a prompt, whatever its sampler's `prompt_context` takes."""

    def count_tokens(self, prompt: str) -> int:
        """Tokens of the prompt before truncation, special tokens included. Any thread may ask,
        also while another one encodes; the same goes for `unknown_words`."""

    def unknown_words(self, prompt: str) -> list[str]:
        """Words of the prompt the encoder has never seen; empty where every word can be spelt."""

    def nearest_words(self, word: str) -> list[str]:
        """Known words near to an unknown one, best first; empty if there are none."""


class Autoencoder(Protocol):
    """Latents to pixels and back."""

    def decode(self, latents: Tensor, resolution: int | None = None) -> Tensor:
        """[N, C, h, w] to [N, 3, H, W] in 0..1, fp32. Raises `BrokenPicture` on NaN.

        `resolution` is one of the variant's `sizes`; None = its usual one.
        """

    def encode(self, pixels: Tensor) -> Tensor:
        """[N, 3, H, W] in 0..1 to [N, C, h, w]. Raises `BrokenPicture` on NaN."""


class BrokenPicture(RuntimeError):
    """A picture came out with values that are not numbers, even in fp32."""


@dataclass(frozen=True)
class LoadedVariant:
    """A variant ready to run. Text encoder and autoencoder may be shared with others."""

    variant: Variant
    sampler: Sampler
    text: TextEncoder
    autoencoder: Autoencoder
    weights: WeightState
    own: tuple[nn.Module, ...]  # what this variant alone holds: backbone and heads
    shared: tuple[tuple[str, nn.Module], ...] = ()  # (name, part) several variants may hold
    preview: PreviewDecoder | SmallDecode | None = (
        None  # of the autoencoder, where somebody trained one
    )

    @property
    def memory_bytes(self) -> int:
        """Bytes of what this variant alone holds."""
        return sum(module_bytes(module) for module in self.own)

    def move(self, device: torch.device) -> None:
        """Move what this variant alone holds; samplers follow their modules' device."""
        for module in self.own:
            module.to(device)


def module_bytes(module: nn.Module) -> int:
    """Bytes of a module's parameters and buffers."""
    tensors = (*module.parameters(), *module.buffers())
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
