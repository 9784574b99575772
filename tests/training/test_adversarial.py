"""The adversarial stage tunes the head alone, with the very steps that the product takes."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
import torch

from models.contracts import SampleSettings
from training import adversarial
from training.adversarial import Batch, Discriminator, drawn, head_loss, judge_loss
from training.families import families
from training.latents import LatentSet
from training.loop import Run
from training.restore import write_run
from training.trainee import Captioner, Trainee, initialise, new_text_encoder
from training.world.scenes import draw_scene

VARIANTS = ("pocket-ar", "pocket-ar-joint")


@pytest.fixture(scope="module", params=VARIANTS)
def start(request, tmp_path_factory) -> tuple[str, Path]:
    torch.manual_seed(0)
    trainee = Trainee(families()[request.param].build(), new_text_encoder())
    initialise(trainee.model)
    folder = tmp_path_factory.mktemp("start") / request.param
    write_run(folder, trainee.state_dict())
    return request.param, folder


class NoSheets:
    def __init__(self, *args: object) -> None: ...

    def draw(self, *args: object) -> None: ...


def tune(start: tuple[str, Path], out: Path, steps: int, monkeypatch) -> dict[str, torch.Tensor]:
    monkeypatch.setattr(adversarial, "Sheets", NoSheets)
    name, folder = start
    scenes = [draw_scene(Random(n)) for n in range(8)]
    random = torch.Generator().manual_seed(1)
    data = LatentSet(
        torch.randn(8, 64, 32, generator=random).half(),
        torch.randn(8, 32, generator=random).half(),
        1.0,
        scenes,
    )
    adversarial.train(Run(out, steps), data, name, folder, Path(), 3, 2, 1e-3, 1.0)
    state: dict[str, torch.Tensor] = torch.load(out / "checkpoint.pt", weights_only=True)["model"]
    return state


def test_only_the_head_changes_and_the_seed_decides_how(start, tmp_path, monkeypatch) -> None:
    before = torch.load(start[1] / "checkpoint.pt", weights_only=True)["average"]
    once = tune(start, tmp_path / "a", 3, monkeypatch)
    again = tune(start, tmp_path / "b", 3, monkeypatch)
    changed = {name for name in before if not torch.equal(once[name], before[name])}
    assert changed and all(name.startswith("model.diffloss.net.") for name in changed)
    assert all(torch.equal(once[name], again[name]) for name in once)


@pytest.mark.parametrize("name", VARIANTS)
def test_tokens_are_drawn_as_the_sampler_draws_them(name: str) -> None:
    torch.manual_seed(1)
    family = families()[name]
    model = family.build().eval()
    joint = name.endswith("joint")
    sampler = family.sampler(model)
    with torch.no_grad():
        row = Captioner(new_text_encoder())(["a fox"])[0]
        context = sampler.prompt_context(row)
        iterations = 1 if joint else 64
        settings = SampleSettings(5, iterations, family.flow_steps, 1.0)
        state = sampler.start(settings, context, context)
        if joint:
            while state.step < sampler.num_steps(state):
                if state.step == 1:
                    hidden = model(state.tokens[None], context.text)
                    noise = state.z[None]
                sampler.advance([state])
            own = drawn(model.diffloss.net, hidden, noise, family.flow_steps, joint)[0]
            torch.testing.assert_close(own, state.tokens)
            return
        hidden = model(model.mask_token.expand(1, 64, -1), context.text)[0]
        sampler.advance([state])
        (place,) = (state.committed_at == 1).nonzero(as_tuple=True)[0]
        noise = state.noise[place][None]
        own = drawn(model.diffloss.net, hidden[place][None], noise, family.flow_steps, joint)
        torch.testing.assert_close(own[0], state.tokens[place])


def test_discriminator_learns_to_tell_and_the_head_hears_of_it() -> None:
    torch.manual_seed(2)
    family = families()["pocket-ar"]
    model = family.build()
    head, judge = model.diffloss.net, Discriminator(32, 160, 8)
    batch = Batch(2 + torch.randn(64, 1, 32), torch.randn(64, 1, 160), torch.randn(64, 1, 32))
    judging = torch.optim.AdamW(judge.parameters(), lr=1e-3)
    random = torch.Generator().manual_seed(0)
    losses = []
    for _ in range(25):
        judging.zero_grad()
        loss = judge_loss(head, judge, batch, family, False, random)
        loss.backward()
        judging.step()
        losses.append(loss.item())
    assert losses[-1] < 0.6 * losses[0]
    head.zero_grad()
    head_loss(head, judge, batch, family, False, 0.0, random).backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in head.parameters())
