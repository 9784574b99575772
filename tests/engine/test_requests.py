"""What may be asked, and what is said to somebody who asks for something else."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.requests import MAX_PROMPT_CHARACTERS, MAX_SEED, GenerationRequest, InvalidRequest

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"prompt": ""}, "empty"),
        ({"prompt": " \n\t "}, "empty"),
        ({"prompt": "\x00\x07"}, "empty"),
        ({"prompt": "a" * 100_000}, "100,000 characters"),
        ({"prompt": None}, "text"),
        ({"prompt": 7}, "text"),
        ({"prompt": ["a"]}, "text"),
        ({"variant": "no-such"}, "no-such"),
        ({"variant": None}, "no variant"),
        ({"seed": -1}, "Seed"),
        ({"seed": MAX_SEED + 1}, "Seed"),
        ({"seed": 1.5}, "whole"),
        ({"seed": True}, "Seed"),
        ({"seed": "7"}, "Seed"),
        ({"seed": NAN}, "Seed"),
        ({"seed": None}, "Seed"),
        ({"ar_iterations": 0}, "AR iterations"),
        ({"ar_iterations": 10**9}, "AR iterations"),
        ({"ar_iterations": 10**400}, "AR iterations"),
        ({"flow_steps": 0}, "Flow steps"),
        ({"flow_steps": "many"}, "Flow steps"),
        ({"cfg_scale": NAN}, "CFG"),
        ({"cfg_scale": INF}, "CFG"),
        ({"cfg_scale": 0.5}, "CFG"),
        ({"cfg_scale": False}, "CFG"),
        ({"cfg_scale": "4"}, "CFG"),
        ({"cfg_schedule": "cubic"}, "CFG schedule"),
        ({"cfg_schedule": ["linear"]}, "CFG schedule"),
        ({"temperature": -0.1}, "Temperature"),
        ({"temperature": NAN}, "Temperature"),
        ({"preview_every": -1}, "Preview interval"),
        ({"preview": "always"}, "Preview"),
    ],
)
def test_bad_input_is_refused_with_the_settings_name(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidRequest, match=words) as refusal:
        GenerationRequest(**{"prompt": "a cat", **settings}).resolved()
    assert len(str(refusal.value)) < 400, "a message is for reading"


@pytest.mark.parametrize(
    ("prompt", "kept"),
    [
        ("🦊🌙", "🦊🌙"),
        ("👩‍🚀 on the moon", "👩‍🚀 on the moon"),
        ("قطة حمراء", "قطة حمراء"),
        ("a\x00red\ncat\t ", "a red cat"),
        ('"quotes" & <tags>', '"quotes" & <tags>'),
        ("lone \ud800 surrogate", "lone surrogate"),
        ("a" * MAX_PROMPT_CHARACTERS, "a" * MAX_PROMPT_CHARACTERS),
    ],
)
def test_unusual_prompts_are_kept(prompt: str, kept: str) -> None:
    resolved = GenerationRequest(prompt=prompt).resolved()
    assert resolved.prompt == kept
    resolved.prompt.encode()


def test_resolving_fills_in_every_default_and_is_stable() -> None:
    resolved = GenerationRequest(prompt="a cat", seed=7.0).resolved()  # type: ignore[arg-type]
    assert None not in resolved.to_dict().values()
    assert resolved.seed == 7 and isinstance(resolved.seed, int)
    assert resolved.resolved() == resolved
    assert hash(resolved) == hash(resolved.resolved())


@pytest.mark.parametrize("prompt", ['"; a\\n', "line\u2028sep", "🦊", "قطة"])
def test_settings_survive_json(prompt: str) -> None:
    resolved = GenerationRequest(prompt=prompt, cfg_scale=3.25).resolved()
    assert GenerationRequest.from_dict(json.loads(json.dumps(resolved.to_dict()))) == resolved


def test_a_misspelt_setting_is_not_ignored() -> None:
    with pytest.raises(InvalidRequest, match="sede"):
        GenerationRequest.from_dict({"prompt": "a cat", "sede": 3})
    with pytest.raises(InvalidRequest, match="prompt"):
        GenerationRequest.from_dict({})


CELLS = "1" * 32 + "0" * 32


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"count": 0}, "Count"),
        ({"count": 65}, "Count"),
        ({"count": True}, "Count"),
        ({"caption": "tidy"}, "Caption"),
        ({"picture": 7}, "Picture has to be the id"),
        ({"picture": "x" * 65}, "Picture has to be the id"),
        ({"picture": "p", "strength": 0}, "Strength"),
        ({"picture": "p", "strength": 1.01}, "Strength"),
        ({"picture": "p", "strength": NAN}, "Strength"),
        ({"picture": "p", "context": -1}, "Context"),
        ({"picture": "p", "context": 1.5}, "Context"),
        ({"picture": "p", "free": "1" * 63}, "64 characters"),
        ({"picture": "p", "free": "2" * 64}, "64 characters"),
        ({"picture": "p", "free": "1" * 64, "variant": "nitro-ar-gan"}, "16 x 16"),
        ({"picture": "p", "free": "0" * 64}, "Free at least one"),
        ({"picture": "p", "free": [1]}, "Free cells"),
        ({"picture": "p", "fork_of": "q"}, "not both"),
        ({"fork_of": "q", "fork_step": -1}, "Fork step"),
        ({"fork_of": "q", "free": CELLS}, "say which one"),
        ({"fork_step": 3}, "fork_of"),
        ({"free": CELLS}, "say which one"),
        ({"strength": 0.5}, "say which one"),
        ({"context": 1}, "say which one"),
    ],
)
def test_a_start_that_makes_no_sense_is_refused_in_words(
    settings: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidRequest, match=words):
        GenerationRequest(**{"prompt": "a cat", **settings}).resolved()


@pytest.mark.parametrize(
    ("settings", "strength", "free"),
    [
        ({}, 1.0, ""),
        ({"picture": "p"}, 0.6, ""),
        ({"picture": "p", "free": CELLS}, 1.0, CELLS),
        ({"picture": "p", "free": "1" * 64}, 1.0, ""),
        ({"picture": "p", "strength": 0.25}, 0.25, ""),
        ({"picture": None, "free": None, "fork_of": None}, 1.0, ""),
    ],
)
def test_strength_is_all_of_the_chosen_cells_or_a_part_of_a_whole_picture(
    settings: dict[str, Any], strength: float, free: str
) -> None:
    resolved = GenerationRequest("a cat", **settings).resolved()
    assert (resolved.strength, resolved.free) == (strength, free)
    assert resolved.resolved() == resolved
    assert GenerationRequest.from_dict(json.loads(json.dumps(resolved.to_dict()))) == resolved


def test_captions_are_as_the_family_reads_them() -> None:
    families = {
        variant: GenerationRequest("a cat", variant).resolved().caption
        for variant in ("pocket-ar", "nitro-ar-gan", "nitro-e", "nitro-e-dist")
    }
    assert list(families.values()) == ["raw", "raw", "lower", "lower"]


def test_many_pictures_are_one_request_each() -> None:
    parts = GenerationRequest("a cat", seed=5, count=3).resolved().pictures()
    assert [(part.seed, part.count) for part in parts] == [(5, 1), (6, 1), (7, 1)]
