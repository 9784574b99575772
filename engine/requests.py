"""What a visitor asks for. One dataclass; controls, validation, API and metadata derive from it."""

from __future__ import annotations

import math
import unicodedata
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, TypeVar

from models.catalogue import CFG_RANGE, Variant, find_variant
from models.contracts import CfgSchedule, SampleSettings

__all__ = [  # the catalogue's names too, for those who must not import models
    "CFG_RANGE",
    "MAX_PROMPT_CHARACTERS",
    "MAX_SEED",
    "TEMPERATURE_RANGE",
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

T = TypeVar("T")
PreviewMode = Literal["auto", "linear", "off"]


class InvalidRequest(ValueError):
    """A request that cannot be run. The message is for the person who sent it."""


@dataclass(frozen=True)
class GenerationRequest:
    """One picture. None means "this variant's default"; `resolved` fills it in and validates.

    `preview_every`: a preview each n steps, 0 = none.
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
            seed=_whole("Seed", self.seed, 0, MAX_SEED),
            **_steps(self, variant),
            cfg_scale=_number("CFG scale", _or(self.cfg_scale, variant.cfg_scale), *CFG_RANGE),
            cfg_schedule=_choice("CFG schedule", self.cfg_schedule, ("constant", "linear")),
            temperature=_number("Temperature", self.temperature, *TEMPERATURE_RANGE),
            preview_every=_whole("Preview interval", self.preview_every, 0, 64),
            preview=_choice("Preview", self.preview, ("auto", "linear", "off")),
        )

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


def _or(value: T | None, default: T) -> T:
    return default if value is None else value


def _steps(request: GenerationRequest, variant: Variant) -> dict[str, int]:
    out = {}
    for name, words in (("ar_iterations", "AR iterations"), ("flow_steps", "Flow steps")):
        allowed = getattr(variant, name)
        value = _or(getattr(request, name), allowed.default)
        out[name] = _whole(f"{words} of {variant.title}", value, allowed.low, allowed.high)
    return out


def _whole(name: str, value: object, low: int, high: int) -> int:
    number = _within(name, value, low, high, "a whole number")
    if number != int(number):
        raise InvalidRequest(f"{name} has to be a whole number; got {value!r}.")
    return int(number)


def _number(name: str, value: object, low: float, high: float) -> float:
    """Always a float: JSON writes 2.0 as 2, and tensors care."""
    return float(_within(name, value, low, high, "a number"))


def _within(name: str, value: object, low: float, high: float, kind: str) -> int | float:
    wrong = isinstance(value, bool) or not isinstance(value, int | float)
    if wrong or (isinstance(value, float) and not math.isfinite(value)):
        raise InvalidRequest(f"{name} has to be {kind} from {low} to {high}; got {value!r:.40}.")
    assert isinstance(value, int | float)
    if not low <= value <= high:  # whole numbers may be too large for a float
        shown = f"{value:.15g}" if abs(value) < 1e15 else "a number far outside"
        raise InvalidRequest(f"{name} has to be from {low} to {high}; got {shown}.")
    return value


def _choice(name: str, value: T, allowed: tuple[T, ...]) -> T:
    if value not in allowed:
        raise InvalidRequest(f"{name} has to be one of {', '.join(map(str, allowed))}.")
    return value
