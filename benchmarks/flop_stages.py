"""Counting a generator's operations stage by stage: the published way, and ours.

The product's own samplers run on the meta device under torch's flop counter. What the published
way does more is counted separately and added.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from models.catalogue import Variant
from models.contracts import SampleSettings
from models.nitro_ar import NitroAR
from models.nitro_e import NitroE
from models.samplers.diffusion import DiffusionSampler
from models.samplers.joint import JointSampler
from models.samplers.masked_ar import MaskedARSampler
from models.schedules import diffusion_sigmas

META = torch.device("meta")


def gflop(work: Callable[[], object]) -> float:
    """Giga floating-point operations of `work`."""
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        work()
    return counter.get_total_flops() / 1e9


@dataclass
class Costs:
    """GFLOP of one picture by stage. `before` is the published way, `after` ours."""

    stages: dict[str, dict[str, float]] = field(default_factory=dict)
    first_prompt_gflop: float = 0.0
    repeat_prompt_gflop: float = 0.0
    repeat_prompt_first_pass_not_cached_gflop: float = 0.0

    def stage(self, name: str, before: float, after: float, repeat: float) -> None:
        """`after`: the first time a prompt is drawn; `repeat`: from the second time on."""
        self.stages[name] = {"before": before, "after_first": after, "after_repeat": repeat}

    def to_dict(self) -> dict[str, Any]:
        rounded = {
            name: {key: round(value, 3) for key, value in row.items()}
            for name, row in self.stages.items()
        }
        return {
            "before_gflop": round(sum(row["before"] for row in self.stages.values()), 1),
            "first_prompt_gflop": round(self.first_prompt_gflop, 1),
            "repeat_prompt_gflop": round(self.repeat_prompt_gflop, 1),
            "repeat_prompt_first_pass_not_cached_gflop": round(
                self.repeat_prompt_first_pass_not_cached_gflop, 1
            ),
            "stages": rounded,
        }


def count_sampler(model: NitroAR | NitroE, variant: Variant, rows: int, costs: Costs) -> None:
    """Everything between text rows and latent, at the variant's defaults."""
    if isinstance(model, NitroE):
        _diffusion(model, variant, rows, costs)
    elif model.full_config.joint:
        _joint(model, variant, rows, costs)
    else:
        _masked_ar(model, variant, rows, costs)


def default_settings(variant: Variant) -> SampleSettings:
    return SampleSettings(
        seed=0,
        ar_iterations=variant.ar_iterations.default,
        flow_steps=variant.flow_steps.default,
        cfg_scale=variant.cfg_scale,
    )


def _parts(model: NitroAR, rows: int) -> dict[str, float]:
    """GFLOP of the backbone's parts for one sample."""
    config = model.config
    text = torch.empty(1, rows, config.text_width, device=META)
    tokens = torch.empty(1, config.tokens, config.channels, device=META)
    embedded = model.embed_text(text)
    last, hidden = (
        model.block_groups[2][-1],
        torch.empty(1, config.tokens, config.width, device=META),
    )
    words = torch.empty(1, rows, config.width, device=META)
    text_queries = gflop(lambda: last.attn.add_q_proj(words))
    # The reference lets text rows of the last block ask, too: two products over all rows.
    text_attention = 4 * rows * (config.tokens + rows) * config.width / 1e9
    return {
        "text rows once": gflop(lambda: model.embed_text(text)),
        "pass": gflop(lambda: model(tokens, embedded)),
        "last block": gflop(lambda: last(hidden, words)),
        "last block text queries": text_queries + text_attention,
    }


def _masked_ar(model: NitroAR, variant: Variant, rows: int, costs: Costs) -> None:
    settings, sampler = default_settings(variant), MaskedARSampler(model)
    config, part = model.config, _parts(model, rows)
    text = torch.empty(rows, config.text_width, device=META)
    iterations, steps, branches = settings.ar_iterations, settings.flow_steps, 2

    def draw(prompt: Any, empty: Any) -> None:
        state = sampler.start(settings, prompt, empty)
        for _ in range(sampler.num_steps(state)):
            sampler.advance([state])

    empty, prompt = sampler.prompt_context(text), sampler.prompt_context(text)
    sampler._first_pass(empty)  # the empty prompt's is made once per process
    sampler._time_rows(steps)
    head = model.diffloss.net
    condition = gflop(lambda: head.condition(torch.empty(1, config.width, device=META)))
    time = gflop(lambda: head.time(torch.empty(1, device=META)))
    read = branches * config.tokens  # rows the head works on, over the whole picture
    one_step = gflop(
        lambda: head(
            torch.empty(1, config.channels, device=META),
            torch.empty(1, model.full_config.head.width, device=META),
            torch.empty(1, model.full_config.head.width, device=META),
        )
    )
    flow = read * steps * one_step

    first = gflop(lambda: draw(prompt, empty))  # fills in the prompt's first pass
    repeat = gflop(lambda: draw(prompt, empty))
    heads = flow + read * condition
    passes = branches * iterations
    costs.stage(
        "text rows and block 0 text", passes * part["text rows once"], part["text rows once"], 0.0
    )
    # Ours runs fewer passes, as first passes are kept: the empty prompt's always, the prompt's from
    # the second time on. In the last block only rows that will be read ask.
    body = part["pass"] - part["last block"]
    runs = {"first": passes - 1, "repeat": passes - 2}
    costs.stage(
        "backbone but its last block", passes * body, runs["first"] * body, runs["repeat"] * body
    )
    costs.stage(
        "last block",
        passes * (part["last block"] + part["last block text queries"]),
        first - heads - runs["first"] * body,
        repeat - heads - runs["repeat"] * body,
    )
    costs.stage("flow head", flow, flow, flow)
    costs.stage("head condition", steps * read * condition, read * condition, read * condition)
    costs.stage("head time", read * steps * time, 0.0, 0.0)
    prompt.first_pass = empty.first_pass = None
    # Decoding is added by the caller.
    costs.repeat_prompt_first_pass_not_cached_gflop = gflop(lambda: draw(prompt, empty))


def _joint(model: NitroAR, variant: Variant, rows: int, costs: Costs) -> None:
    settings, sampler = default_settings(variant), JointSampler(model)
    config, part = model.config, _parts(model, rows)
    text = torch.empty(rows, config.text_width, device=META)
    steps, branches, width = settings.flow_steps, 2, model.full_config.head.width

    def draw(prompt: Any, empty: Any) -> None:
        state = sampler.start(settings, prompt, empty)
        for _ in range(sampler.num_steps(state)):
            sampler.advance([state])

    empty, prompt = sampler.prompt_context(text), sampler.prompt_context(text)
    empty.global_pass = model.global_pass(empty.text)
    for slot in (model.diffloss, model.diffloss_global):
        sampler._time_rows(slot.net, steps)
    global_after = gflop(lambda: model.global_pass(prompt.text))
    first_group = model.block_groups[0]
    words = torch.empty(1, rows, config.width, device=META)
    token = torch.empty(1, 1, config.width, device=META)
    skipped = gflop(lambda: first_group[-1](token, words)) - gflop(
        lambda: first_group[-1](token, words, text_output=False)
    )
    first = gflop(lambda: draw(prompt, empty))
    repeat = gflop(lambda: draw(prompt, empty))

    flow = condition = 0.0
    for slot, count in ((model.diffloss, config.tokens), (model.diffloss_global, 1)):
        head, shape = slot.net, (branches, count)
        c = torch.empty(*shape, width, device=META)
        flow += steps * gflop(
            lambda head=head, c=c, shape=shape: head(
                torch.empty(*shape, config.channels, device=META), c[:, 0], c
            )
        )
        condition += gflop(
            lambda head=head, shape=shape: head.condition(
                torch.empty(*shape, config.width, device=META)
            )
        )
    time = (
        2 * branches * steps * gflop(lambda: model.diffloss.net.time(torch.empty(1, device=META)))
    )
    heads = flow + condition
    costs.stage(
        "text rows and block 0 text",
        2 * branches * part["text rows once"],
        part["text rows once"],
        0.0,
    )
    costs.stage("global pass", branches * (global_after + skipped), global_after, 0.0)
    before = branches * (part["pass"] + part["last block text queries"])
    costs.stage("backbone passes", before, first - heads - global_after, repeat - heads)
    costs.repeat_prompt_first_pass_not_cached_gflop = repeat + global_after
    costs.stage("flow heads", flow, flow, flow)
    costs.stage("head condition", steps * condition, condition, condition)
    costs.stage("head time", time, 0.0, 0.0)


def _diffusion(model: NitroE, variant: Variant, rows: int, costs: Costs) -> None:
    settings, sampler = default_settings(variant), DiffusionSampler(model)
    config, steps = model.config, settings.flow_steps
    branches = 2 if settings.cfg_scale > 1 else 1
    text = torch.empty(rows, config.text_width, device=META)
    prompt, empty = sampler.prompt_context(text), sampler.prompt_context(text)
    embed = gflop(lambda: sampler.prompt_context(text))
    time = gflop(lambda: model.adaln_single(torch.empty(1, device=META)))
    sampler._time_rows(diffusion_sigmas(steps))
    words, last = torch.empty(1, rows, config.width, device=META), model.block_groups[2][-1]
    queries = gflop(lambda: last.attn.add_q_proj(words))
    share = 4 if last.region else 1  # a region sees its own quarter only
    attention = 4 * rows * (config.tokens + rows) * config.width / share / 1e9

    def draw() -> None:
        state = sampler.start(settings, prompt, empty)
        for _ in range(steps):
            sampler.advance([state])

    passes = gflop(draw)
    calls = branches * steps
    costs.stage("text rows", calls * embed, embed, 0.0)
    costs.stage("time modulation", calls * time, 0.0, 0.0)
    costs.stage("backbone passes", passes + calls * (queries + attention), passes, passes)
    costs.repeat_prompt_first_pass_not_cached_gflop = passes
