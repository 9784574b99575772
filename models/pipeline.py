"""For people who want code, not a page: a pipeline that is called like diffusers' own.

    pipe = NitroPipeline.from_pretrained("pocket-ar")
    picture = pipe("a fox on a blue background", generator=torch.Generator().manual_seed(0)).images[0]

The models, samplers and seeds are the page's. One object serves one caller at a time; the engine
is what serves many.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from models.captions import CaptionMode, prepared
from models.contracts import CfgSchedule, LoadedVariant, SampleSettings
from models.given import Given
from models.loading import Loader
from models.pixels import to_pixels
from models.precision import pick_device
from models.references import ImageInput, given_from
from models.sources import DC_AE_REPO, LLAMA_REPO, Sources

OutputType = Literal["pil", "np", "pt", "latent"]
Callback = Callable[["NitroPipeline", int, float, dict[str, Any]], dict[str, Any] | None]


@dataclass
class NitroOutput:
    """`images`: PIL pictures; float arrays [N, H, W, 3] or tensors [N, 3, H, W] in 0..1; or
    latents [N, C, h, w] in the generator's scale."""

    images: list[Image.Image] | NDArray[np.float32] | Tensor


class NitroPipeline:
    """Draws pictures with one variant of the catalogue."""

    def __init__(self, loaded: LoadedVariant, batch: int = 8) -> None:
        self.loaded, self.batch = loaded, batch
        self._interrupt = False

    @classmethod
    def from_pretrained(
        cls,
        variant: str = "pocket-ar",
        *,
        weights: str | Path = "",
        text_encoder: str = LLAMA_REPO,
        autoencoder: str = DC_AE_REPO,
        device: str | None = None,
        torch_dtype: torch.dtype | None = None,
    ) -> NitroPipeline:
        """Load a variant by its catalogue id.

        `weights` is a folder with its files, "random", or empty for the Hub; embedded variants
        need none. Raises `KeyError` for an unknown id and `models.weights.WeightsError` in words.
        """
        sources = Sources(str(weights), text_encoder, autoencoder)
        return cls(Loader(sources, pick_device(device), torch_dtype).load(variant))

    def interrupt(self) -> None:
        """Stop after the step at work; what is known by then is returned. For callbacks."""
        self._interrupt = True

    @torch.inference_mode()
    def __call__(
        self,
        prompt: str | Sequence[str],
        negative_prompt: str = "",
        *,
        image: ImageInput | Sequence[ImageInput] | None = None,
        mask_image: ImageInput | None = None,
        strength: float | None = None,
        context: int = 0,
        caption: CaptionMode | None = None,
        num_inference_steps: int | None = None,
        flow_steps: int | None = None,
        guidance_scale: float | None = None,
        guidance_schedule: CfgSchedule = "constant",
        temperature: float = 1.0,
        num_images_per_prompt: int = 1,
        generator: torch.Generator | Sequence[torch.Generator] | None = None,
        callback_on_step_end: Callback | None = None,
        output_type: OutputType = "pil",
    ) -> NitroOutput:
        """Draw `num_images_per_prompt` pictures of each prompt, prompt after prompt.

        `image` is a picture to start from, or one for each prompt; what is dark in `mask_image`
        is kept, token by token, and `context` cells around the bright part change too.
        `strength` is the share of the free tokens that is drawn anew, or for Nitro-E the noise
        they start from; 0.6 without a mask, else 1. See `models.references` for what is taken.
        `caption` says what is done to the prompts (`models.captions`).

        `num_inference_steps` is the family's own count: AR iterations for Nitro-AR, diffusion
        steps for Nitro-E; `flow_steps` are the head's. A generator gives each picture its seed in
        turn, a list of them one each. The callback gets (pipeline, step, share done, {}); it may
        call `pipeline.interrupt()`.
        """
        prompts = [prompt] if isinstance(prompt, str) else list(prompt)
        if not prompts or num_images_per_prompt < 1:
            raise ValueError("At least one prompt and one image per prompt are needed.")
        if output_type not in ("pil", "np", "pt", "latent"):
            raise ValueError(f"output_type {output_type!r} is not one of pil, np, pt, latent.")
        mode = caption or self.loaded.variant.caption
        wanted = [prepared(text, mode) for text in prompts for _ in range(num_images_per_prompt)]
        starts = self._starts(image, mask_image, strength, context, len(prompts))
        given = [each for each in starts for _ in range(num_images_per_prompt)]
        seeds = _seeds(generator, len(wanted))
        settings = [
            self._settings(
                seed,
                num_inference_steps,
                flow_steps,
                guidance_scale,
                guidance_schedule,
                temperature,
            )
            for seed in seeds
        ]
        self._interrupt = False
        parts = [
            self._draw(
                wanted[first : first + self.batch],
                prepared(negative_prompt, mode),
                given[first : first + self.batch],
                settings[first : first + self.batch],
                callback_on_step_end,
            )
            for first in range(0, len(wanted), self.batch)
        ]
        return NitroOutput(self._finish(torch.cat(parts), output_type))

    def _starts(
        self,
        image: ImageInput | Sequence[ImageInput] | None,
        mask_image: ImageInput | None,
        strength: float | None,
        context: int,
        count: int,
    ) -> list[Given | None]:
        """What each prompt starts from."""
        if image is None:
            if mask_image is not None or strength is not None or context:
                raise ValueError("mask_image, strength and context change a picture: give `image`.")
            return [None] * count
        images: list[Any] = list(image) if isinstance(image, list | tuple) else [image] * count
        if len(images) != count:
            raise ValueError(f"{len(images)} images were given for {count} prompts.")
        return [given_from(self.loaded, each, mask_image, strength, context) for each in images]

    def _settings(
        self,
        seed: int,
        steps: int | None,
        flow_steps: int | None,
        scale: float | None,
        schedule: CfgSchedule,
        temperature: float,
    ) -> SampleSettings:
        variant = self.loaded.variant
        iterations = variant.ar_iterations.default
        if variant.sampler == "diffusion":
            flow_steps = steps or flow_steps
        elif steps is not None:
            iterations = steps
        return SampleSettings(
            seed=seed,
            ar_iterations=iterations,
            flow_steps=flow_steps or variant.flow_steps.default,
            cfg_scale=float(variant.cfg_scale if scale is None else max(1.0, scale)),
            cfg_schedule=schedule,
            temperature=temperature,
        )

    def _draw(
        self,
        prompts: list[str],
        negative_prompt: str,
        given: list[Given | None],
        settings: list[SampleSettings],
        callback: Callback | None,
    ) -> Tensor:
        """Latents [n, C, h, w] of one batch."""
        sampler = self.loaded.sampler
        contexts = {
            text: sampler.prompt_context(rows)
            for text, rows in zip(
                dict.fromkeys([*prompts, negative_prompt]),
                self.loaded.text.encode(list(dict.fromkeys([*prompts, negative_prompt]))),
                strict=True,
            )
        }
        states = [
            sampler.start(each, contexts[text], contexts[negative_prompt], given=start)
            for text, start, each in zip(prompts, given, settings, strict=True)
        ]
        steps = max(sampler.num_steps(state) for state in states)  # some pictures have more free
        for step in range(steps):
            if self._interrupt:
                break
            sampler.advance([state for state in states if state.step < sampler.num_steps(state)])
            if callback is not None:
                callback(self, step, (step + 1) / steps, {})
        return torch.stack([sampler.latent(state) for state in states])

    def _finish(
        self, latents: Tensor, output_type: OutputType
    ) -> list[Image.Image] | NDArray[np.float32] | Tensor:
        if output_type == "latent":
            return latents
        pictures = torch.cat(
            [self.loaded.autoencoder.decode(part) for part in latents.split(self.batch)]
        )
        if output_type == "pt":
            return pictures
        if output_type == "np":
            return pictures.permute(0, 2, 3, 1).cpu().numpy()
        pixels = to_pixels(pictures, self.loaded.variant.rounding)
        return [Image.fromarray(each) for each in pixels]


def _seeds(generator: torch.Generator | Sequence[torch.Generator] | None, count: int) -> list[int]:
    """One seed a picture. Without a generator they are drawn from torch's own."""
    if generator is None or isinstance(generator, torch.Generator):
        device = "cpu" if generator is None else generator.device
        drawn = torch.randint(0, 2**32, (count,), generator=generator, device=device)
        return [int(seed) for seed in drawn.tolist()]
    if len(generator) != count:
        raise ValueError(f"{len(generator)} generators were given for {count} pictures.")
    return [_seeds(each, 1)[0] for each in generator]
