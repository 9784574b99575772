"""What a visitor asks for. One dataclass; controls, validation, API and metadata derive from it."""

from __future__ import annotations

import unicodedata
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from engine.validation import InvalidRequest, choice, number, or_default, whole
from models.captions import CAPTION_MODES, CaptionMode
from models.catalogue import CFG_RANGE, Variant, find_variant
from models.contracts import CfgSchedule, SampleSettings
from models.given import STRENGTH_OF_WHOLE
from models.masks import mask_text, parse_mask

__all__ = [  # the catalogue's names too, for those who must not import models
    "CFG_RANGE",
    "MAX_CONTEXT",
    "MAX_COUNT",
    "MAX_PROMPT_CHARACTERS",
    "MAX_SEED",
    "STRENGTH_OF_WHOLE",
    "STRENGTH_RANGE",
    "TEMPERATURE_RANGE",
    "CaptionMode",
    "CfgSchedule",
    "GenerationRequest",
    "InvalidRequest",
    "PreviewMode",
    "Variant",
    "clean_prompt",
    "find_variant",
]

MAX_PROMPT_CHARACTERS = 2000
MAX_SEED = 2**32 - 1
TEMPERATURE_RANGE = (0.0, 2.0)
STRENGTH_RANGE = (0.01, 1.0)
MAX_COUNT = 64  # pictures of one request
MAX_CONTEXT = 16  # cells

PreviewMode = Literal["auto", "linear", "off"]


@dataclass(frozen=True)
class GenerationRequest:
    """A picture, or `count` of them with seeds counting up from `seed`.

    None means the variant's default; `resolved` fills it in and validates. `preview_every`: a
    preview each n steps, 0 = none. `caption`: what is done to the prompt (`models.captions`).

    `picture` names one the engine keeps for this owner, to start from: an upload, or a finished
    job by its id. `free` are the cells that may change, a character each ("1" free, "0" kept, row
    by row; empty = all), widened by `context` cells; `strength` is the share of them that is
    drawn anew, or for diffusion the noise they start from.

    `fork_of` names a finished job that is resumed after `fork_step` of its steps.

    `size` is in pixels a side, for variants whose tokens can be decoded at several; 0 = theirs.
    """

    prompt: str
    variant: str = "pocket-ar"
    seed: int = 0
    ar_iterations: int | None = None
    flow_steps: int | None = None
    cfg_scale: float | None = None
    cfg_schedule: CfgSchedule = "constant"
    temperature: float = 1.0
    preview_every: int = 1
    preview: PreviewMode = "auto"
    caption: CaptionMode | None = None
    count: int = 1
    picture: str = ""
    strength: float | None = None
    free: str = ""
    context: int = 0
    fork_of: str = ""
    fork_step: int = 0
    size: int = 0

    def resolved(self) -> GenerationRequest:
        """The same request with every default filled in.

        Raises `InvalidRequest` naming the setting, the value given and what is allowed.
        """
        try:
            variant = find_variant(str(self.variant))
        except KeyError as error:
            raise InvalidRequest(error.args[0]) from None
        return replace(
            self,
            prompt=clean_prompt(self.prompt),
            variant=variant.id,
            seed=whole("Seed", self.seed, 0, MAX_SEED),
            **_steps(self, variant),
            cfg_scale=number(
                "CFG scale", or_default(self.cfg_scale, variant.cfg_scale), *CFG_RANGE
            ),
            cfg_schedule=choice("CFG schedule", self.cfg_schedule, ("constant", "linear")),
            temperature=number("Temperature", self.temperature, *TEMPERATURE_RANGE),
            preview_every=whole("Preview interval", self.preview_every, 0, 64),
            preview=choice("Preview", self.preview, ("auto", "linear", "off")),
            caption=choice("Caption", or_default(self.caption, variant.caption), CAPTION_MODES),
            count=whole("Count", self.count, 1, MAX_COUNT),
            **_start(self, variant),
            size=_size(self, variant),
        )

    def pictures(self) -> list[GenerationRequest]:
        """One request a picture. Call on a resolved request; seeds go on from 0 after the last."""
        seeds = ((self.seed + n) % (MAX_SEED + 1) for n in range(self.count))
        return [replace(self, seed=seed, count=1) for seed in seeds]

    @property
    def base(self) -> str:
        """The kept picture this one starts from, whichever way; empty if from none."""
        return self.picture or self.fork_of

    def settings(self) -> SampleSettings:
        """What the sampler needs. Call on a resolved request."""
        assert self.ar_iterations and self.flow_steps and self.cfg_scale, "resolve first"
        return SampleSettings(
            seed=self.seed,
            ar_iterations=self.ar_iterations,
            flow_steps=self.flow_steps,
            cfg_scale=self.cfg_scale,
            cfg_schedule=self.cfg_schedule,
            temperature=self.temperature,
        )

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> GenerationRequest:
        """From JSON. Unknown keys are refused, so that a misspelt setting is not ignored."""
        if not isinstance(values, dict):
            raise InvalidRequest("A request is a JSON object with at least a prompt.")
        known = set(cls.__dataclass_fields__)
        if extra := sorted(set(values) - known):
            raise InvalidRequest(
                f"Unknown setting: {', '.join(map(str, extra))}. "
                f"Known settings: {', '.join(sorted(known))}."
            )
        if "prompt" not in values:
            raise InvalidRequest("The request has no prompt.")
        return cls(**values)


def clean_prompt(prompt: object) -> str:
    """The prompt as the text encoder gets it: trimmed, control characters removed.

    Emoji, right-to-left text and every other printable character stay. Raises `InvalidRequest`
    for something that is not text, is empty, or is longer than the limit.
    """
    if not isinstance(prompt, str):
        raise InvalidRequest("The prompt has to be text.")
    if len(prompt) > MAX_PROMPT_CHARACTERS:
        raise InvalidRequest(
            f"The prompt has {len(prompt):,} characters; at most {MAX_PROMPT_CHARACTERS:,} are "
            "read. Please shorten it."
        )
    # Cc: control, Cs: lone surrogates (not encodable). Format characters (joiners) stay.
    kept = (c if unicodedata.category(c) not in ("Cc", "Cs") else " " for c in prompt)
    cleaned = " ".join("".join(kept).split())
    if not cleaned:
        raise InvalidRequest("The prompt is empty. Type what you would like to see.")
    return cleaned


def _steps(request: GenerationRequest, variant: Variant) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, words in (("ar_iterations", "AR iterations"), ("flow_steps", "Flow steps")):
        allowed = getattr(variant, name)
        value = or_default(getattr(request, name), allowed.default)
        out[name] = whole(f"{words} of {variant.title}", value, allowed.low, allowed.high)
    return out


def _start(request: GenerationRequest, variant: Variant) -> dict[str, Any]:
    """The settings that say what to start from; they make sense together only."""
    picture = _name("Picture", or_default(request.picture, ""))
    fork_of = _name("Fork", or_default(request.fork_of, ""))
    fork_step = whole("Fork step", request.fork_step, 0, 10_000)
    context = whole("Context", request.context, 0, MAX_CONTEXT)
    strength = number("Strength", or_default(request.strength, 1.0), *STRENGTH_RANGE)
    free = or_default(request.free, "")
    if not isinstance(free, str):
        raise InvalidRequest('Free cells have to be text: "1" for a free cell, "0" for a kept one.')
    if picture and fork_of:
        raise InvalidRequest("Start from a picture or fork a finished one; not both at once.")
    if not picture and (free or context or strength != 1.0):
        raise InvalidRequest(
            "Strength, free cells and context change a picture: say which one in `picture`."
        )
    if not fork_of and fork_step:
        raise InvalidRequest("A fork step needs the finished picture it belongs to, in `fork_of`.")
    try:
        mask = parse_mask(free, *variant.shape)
    except ValueError as error:
        raise InvalidRequest(f"Free cells of {variant.title}: the text {error}.") from None
    if context and variant.tokens:
        raise InvalidRequest(
            f"Tokens of {variant.title} have no place in the picture, so none lie around the free "
            "ones: leave context at 0."
        )
    if not mask.any():
        raise InvalidRequest("No cell is free, so nothing would change. Free at least one cell.")
    if picture and not free and request.strength is None:
        strength = STRENGTH_OF_WHOLE
    return {
        "picture": picture,
        "free": "" if mask.all() else mask_text(mask),
        "context": context,
        "strength": strength,
        "fork_of": fork_of,
        "fork_step": fork_step,
    }


def _size(request: GenerationRequest, variant: Variant) -> int:
    """Pixels a side; 0 where a variant has one size only."""
    given = whole("Size", request.size, 0, 8192)
    wanted = given or (variant.resolution if variant.sizes else 0)
    if not variant.sizes and wanted not in (0, variant.resolution):
        raise InvalidRequest(
            f"{variant.title} draws at {variant.resolution} px alone; leave size out."
        )
    if variant.sizes and wanted not in variant.sizes:
        sizes = ", ".join(map(str, variant.sizes))
        raise InvalidRequest(f"Size of {variant.title} has to be one of {sizes}; got {wanted}.")
    return wanted if variant.sizes else 0


def _name(what: str, value: object) -> str:
    if not isinstance(value, str) or len(value) > 64 or not value.isascii():
        raise InvalidRequest(f"{what} has to be the id of a picture that was made or sent here.")
    return value
