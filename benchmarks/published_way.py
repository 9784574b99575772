"""A picture made the published pipeline's way, with the same weights: what we are measured against.

The published code cannot run as it is, so its order of work is rebuilt here: both prompts are
encoded for every picture, with the language-model head's logits; every pass embeds the text anew
and computes all rows of the last block; the head projects its condition at every Euler step.
"""

from __future__ import annotations

import statistics
import time

import torch
from torch import Tensor

from models.contracts import LoadedVariant
from models.nitro_ar import NitroAR
from models.randomness import draw
from models.schedules import flow_sigmas, flow_times, masked_counts
from models.text import LlamaTextEncoder


def published_way_s(loaded: LoadedVariant, runs: int) -> float:
    """Median seconds of one picture at the variant's defaults, after one warm-up."""
    times = []
    for run in range(runs + 1):
        begin = time.perf_counter()
        with torch.inference_mode():
            latent = _sample(loaded, seed=run)
            loaded.autoencoder.decode(latent).cpu()
        times.append(time.perf_counter() - begin)
    return statistics.median(times[1:])


def _sample(loaded: LoadedVariant, seed: int) -> Tensor:
    """[1, C, h, w]"""
    model, variant, encoder = loaded.own[0], loaded.variant, loaded.text
    assert isinstance(model, NitroAR) and isinstance(encoder, LlamaTextEncoder)
    rows = []
    for prompt in ("a fox on a blue background", ""):
        hidden = encoder.encode([prompt])
        hidden @ encoder.model.embed_tokens.weight.T  # logits, computed and thrown away
        rows.append(hidden.to(model.context_embedder.weight.dtype))
    prompt_rows, empty_rows = rows
    text = torch.cat([empty_rows, prompt_rows])
    tokens = (_joint if model.full_config.joint else _masked_ar)(
        model,
        text,
        draw(seed, model.config.tokens, model.config.channels),
        variant.ar_iterations.default,
        variant.flow_steps.default,
        variant.cfg_scale,
    )
    side = model.config.grid
    return tokens.float().mT.unflatten(2, (side, side))


def _chain(head, hidden: Tensor, z: Tensor, steps: int, cfg: float, rounding) -> Tensor:  # type: ignore[no-untyped-def]
    sigmas, times = flow_sigmas(steps), flow_times(steps, rounding)
    for k in range(steps):
        time_rows = head.time(torch.full((hidden.shape[0],), times[k], device=z.device))
        x = torch.cat([z, z]).to(hidden.dtype)
        v_null, v_text = head(x, time_rows, head.condition(hidden)).float().chunk(2)
        z = z + (sigmas[k + 1] - sigmas[k]) * (v_null + cfg * (v_text - v_null))
    return z


def _masked_ar(
    model: NitroAR, text: Tensor, random, iterations: int, steps: int, cfg: float
) -> Tensor:  # type: ignore[no-untyped-def]
    mask = model.mask_token
    tokens = mask.expand(1, model.config.tokens, -1).clone()
    order, noise = random.order.to(mask.device), random.fields.to(mask.device)
    counts = masked_counts(model.config.tokens, iterations)
    for before, after in zip(counts, counts[1:], strict=False):
        hidden = model(tokens.repeat(2, 1, 1), model.embed_text(text))
        now = order[after:before]
        rows = hidden[:, now].flatten(0, 1)
        done = _chain(model.diffloss.net, rows, noise[0, now], steps, cfg, "two-step")
        tokens[0, now] = done.to(tokens.dtype)
    return tokens


def _joint(model: NitroAR, text: Tensor, random, iterations: int, steps: int, cfg: float) -> Tensor:  # type: ignore[no-untyped-def]
    device = model.mask_token.device
    hidden = model.global_pass(model.embed_text(text))
    z = random.thumbnail[None].to(device)
    token = _chain(model.diffloss_global.net, hidden, z, steps, cfg, "multi-step")
    tokens = token.to(text.dtype).repeat(2, model.config.tokens, 1)
    hidden = model(tokens, model.embed_text(text))
    noise = random.fields.to(device)
    return _chain(model.diffloss.net, hidden, noise, steps, cfg, "multi-step")
