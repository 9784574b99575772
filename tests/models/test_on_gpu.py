"""What only a GPU can show. `make gpu-test` on a machine that has one; none was at hand yet."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from models.contracts import SampleSettings
from models.loading import Loader
from models.sources import Sources
from tests.golden_rule import deviation

pytestmark = pytest.mark.gpu
VARIANTS = (
    "nitro-ar-gan",
    "nitro-ar-joint-gan",
    "nitro-e-dist",
    "instella-diffusion",
    "instella-ar",
)


@pytest.fixture(scope="module")
def device() -> torch.device:
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA or ROCm device")
    return torch.device("cuda")


@pytest.fixture
def no_sync() -> Iterator[None]:
    """Waiting for the device is an error."""
    torch.cuda.set_sync_debug_mode("error")
    yield
    torch.cuda.set_sync_debug_mode("default")


def start(loaded, seed: int, prompt: str = "a fox"):
    variant, sampler = loaded.variant, loaded.sampler
    context, empty = (sampler.prompt_context(rows) for rows in loaded.text.encode([prompt, ""]))
    settings = SampleSettings(
        seed, variant.ar_iterations.default, variant.flow_steps.default, variant.cfg_scale
    )
    return sampler.start(settings, context, empty)


def draw(loaded, seed: int) -> torch.Tensor:
    state = start(loaded, seed)
    for _ in range(loaded.sampler.num_steps(state)):
        loaded.sampler.advance([state])
    return loaded.sampler.latent(state).cpu()


@pytest.mark.parametrize("name", ["pocket-ar", "pocket-ar-joint", "pocket-instella"])
def test_fp32_on_the_gpu_equals_the_cpu(device: torch.device, name: str) -> None:
    torch.backends.cuda.matmul.allow_tf32 = False
    latents = [
        draw(Loader(Sources(), where, torch.float32).load(name), seed=3)
        for where in (torch.device("cpu"), device)
    ]
    assert deviation(latents[1], latents[0]) <= 1e-3


@pytest.mark.parametrize("name", VARIANTS)
def test_no_step_waits_for_the_device(
    device: torch.device, name: str, request: pytest.FixtureRequest
) -> None:
    loaded = Loader(Sources(weights="random"), device).load(name)
    with torch.inference_mode():
        draw(loaded, seed=0)  # tables and first passes
        state = start(loaded, seed=1)
        request.getfixturevalue("no_sync")
        for _ in range(loaded.sampler.num_steps(state)):
            loaded.sampler.advance([state])


@pytest.mark.parametrize("name", VARIANTS)
def test_company_in_bf16_stays_within_its_rounding(device: torch.device, name: str) -> None:
    loaded = Loader(Sources(weights="random"), device).load(name)
    with torch.inference_mode():
        alone = draw(loaded, seed=5)
        states = [start(loaded, seed) for seed in (5, 6, 7, 8)]
        for _ in range(loaded.sampler.num_steps(states[0])):
            loaded.sampler.advance(states)
        together = loaded.sampler.latent(states[0]).cpu()
    assert (alone - together).abs().mean() <= 0.05 * alone.abs().mean()
