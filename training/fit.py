"""The loop of every generator's training: schedule, precision, averaging, logs, checkpoints, sheets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import torch
from torch import Tensor, nn

from models.contracts import SampleSettings
from training.families import Family
from training.loop import Average, Run, attention, autocast, warmup_cosine
from training.muon import MuonAdamW
from training.trainee import Captioner, Trainee

# Embeddings, norms, and layers at the model's edges: no hidden matrices.
BY_ADAM = {
    "embed_tokens",
    "mask_token",
    "x_proj",
    "context_embedder",
    "input_proj",
    "final_layer.linear",
    "pos_embed.proj",
    "proj_out",
    "scale_shift",
    "pos_emb",
    "split_token",
    "x_embedder",
    "time_embed",
}
PREVIEW_PROMPTS = (
    "a fox on a blue background", "an apple on a white background", "a panda, pink background",
    "a rocket on black", "an owl on a green background", "a cat", "a strawberry on turquoise",
    "a blue car and a red balloon", "a cat left of a dog", "a tree below the sun",
    "three apples", "a green heart on a yellow background", "two bananas on purple",
    "a robot above a book", "a pizza and a guitar on orange", "four stars on a blue background",
)  # fmt: skip


def fit(
    run: Run,
    trainee: Trainee,
    learnt: list[nn.Module],
    loss_of: Callable[[Random, torch.Generator], Tensor],
    sheets: Sheets,
    seed: int,
    batch: int,
    lr: float,
) -> None:
    """Train `learnt` parts of the trainee until the run's budget is used up.

    `loss_of` gets two generators made from the seed and the step's number, so that a resumed run
    goes on with the same stream of scenes, captions and noise.
    """
    device = next(trainee.parameters()).device
    average = Average(trainee, 0.9995)
    optimizer = MuonAdamW(learnt, lr, BY_ADAM)
    if saved := run.resume():
        trainee.load_state_dict(saved["model"])
        average.state = saved["average"]
        optimizer.load_state_dict(saved["optimizer"])

    def states() -> dict[str, object]:
        return {
            "model": trainee.state_dict(),
            "average": average.state,
            "optimizer": optimizer.state_dict(),
        }

    losses: list[Tensor] = []
    for step in run.ticks():
        rng = Random(f"{seed}:{step}")
        generator = torch.Generator().manual_seed(rng.getrandbits(48))
        for group in optimizer.param_groups:
            group["lr"] = lr * warmup_cosine(int(run.progress * 1e6), 10**6, warmup=2 * 10**4)
        with autocast(device), attention(device):
            loss = loss_of(rng, generator)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trainee.parameters(), 1.0)
        optimizer.step()
        average.update(trainee, step)
        losses.append(loss.detach())
        if (step + 1) % 100 == 0:
            run.log(loss=round(torch.stack(losses).mean().item(), 4), samples=(step + 1) * batch)
            losses.clear()
        if (step + 1) % 1000 == 0:
            sheets.draw(run, trainee, average, f"sheet-{step + 1:06d}")
        run.save(**states())
    run.save(force=True, **states())
    sheets.draw(run, trainee, average, "sheet-final")


class Sheets:
    """Pictures of fixed prompts, drawn by the averaged weights through the product's samplers."""

    def __init__(self, family: Family, autoencoder: Path, scale: float) -> None:
        self.family, self.scale = family, scale
        self.decoder = family.decoder(autoencoder)

    @torch.inference_mode()
    @torch.compiler.set_stance("force_eager")  # a sampler's many shapes are not worth compiling
    def draw(self, run: Run, trainee: Trainee, average: Average, name: str) -> None:
        current = {n: v.clone() for n, v in trainee.state_dict().items()}
        trainee.load_state_dict(average.state)
        family = self.family
        sampler = family.sampler(trainee.model)
        rows = Captioner(trainee.text)(["", *PREVIEW_PROMPTS])
        empty, *contexts = [sampler.prompt_context(row) for row in rows]
        steps = (family.iterations, family.flow_steps, family.cfg_scale)
        states = [
            sampler.start(SampleSettings(seed, *steps), context, empty)
            for seed, context in enumerate(contexts)
        ]
        for _ in range(sampler.num_steps(states[0])):
            sampler.advance(states)
        latents = torch.stack([sampler.latent(state) for state in states]).cpu() / self.scale
        run.sheet(name, self.decoder(latents) / 2 + 0.5)
        trainee.load_state_dict(current)
