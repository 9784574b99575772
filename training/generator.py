"""Stage 3: the generators, `pocket-ar` (with the text encoder), `pocket-ar-joint`, `pocket-e`.

pocket-ar learns backbone, MLP flow head and text encoder together, by flow matching on masked
tokens. The others keep that text encoder, so that all variants share one: pocket-ar-joint learns
its own backbone, the transformer head over all tokens and the global head on thumbnail tokens;
pocket-e is one velocity net over all tokens.
"""

from __future__ import annotations

import argparse
import math
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from random import Random

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import LlamaConfig, LlamaModel

from models.contracts import SampleSettings
from models.nitro_ar import POCKET_AR
from models.precision import pick_device
from training.families import Family, families
from training.latents import LatentSet, load_autoencoder
from training.loop import Average, Run, autocast, averaged, warmup_cosine
from training.muon import MuonAdamW
from training.words import MAX_TOKENS, build_tokenizer
from training.world.captions import caption

PROMPT_DROPOUT = 0.1
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
}
PREVIEW_PROMPTS = (
    "a fox on a blue background", "an apple on a white background", "a panda, pink background",
    "a rocket on black", "an owl on a green background", "a cat", "a strawberry on turquoise",
    "a blue car and a red balloon", "a cat left of a dog", "a tree below the sun",
    "three apples", "a green heart on a yellow background", "two bananas on purple",
    "a robot above a book", "a pizza and a guitar on orange", "four stars on a blue background",
)  # fmt: skip


def text_config(vocabulary: int, width: int) -> LlamaConfig:
    """A two-layer Llama, the class of the official text encoder."""
    return LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=2,
        num_attention_heads=width // 32,
        num_key_value_heads=width // 32,
        max_position_embeddings=64,
        rms_norm_eps=1e-5,
        rope_theta=10_000.0,
        tie_word_embeddings=True,
        bos_token_id=2,
        eos_token_id=None,
        pad_token_id=1,
    )


class Captioner:
    """Prompts to the text encoder's rows, as the product pads and masks them."""

    def __init__(self, encoder: LlamaModel) -> None:
        self.encoder, self.tokenizer = encoder, build_tokenizer()

    def __call__(self, prompts: list[str]) -> Tensor:
        batch = self.tokenizer(
            prompts,
            padding="max_length",
            max_length=MAX_TOKENS,
            truncation=True,
            return_tensors="pt",
        ).to(self.encoder.device)
        return self.encoder(
            input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], use_cache=False
        ).last_hidden_state


def warm_start(trainee: nn.Module, stored: dict[str, Tensor]) -> None:
    """Take over every tensor of the same name and shape.

    From pocket-ar to pocket-ar-joint that is the backbone: what it knows of words and pictures
    serves both, only norms and heads differ.
    """
    own = trainee.state_dict()
    fitting = {n: t for n, t in stored.items() if n in own and own[n].shape == t.shape}
    trainee.load_state_dict({**own, **fitting})
    print(f"starting from {len(fitting)} of {len(own)} tensors", flush=True)


class Trainee(nn.Module):
    """Model and text encoder as one module, so that they are averaged and saved together."""

    def __init__(self, model: nn.Module, encoder: LlamaModel) -> None:
        super().__init__()
        self.model, self.text = model, encoder


def attention(device: torch.device) -> AbstractContextManager[None]:
    """On CPUs the fused attention's backward pass is slower than plain matrix products."""
    return sdpa_kernel(SDPBackend.MATH) if device.type == "cpu" else nullcontext()


def initialise(model: nn.Module) -> None:
    """Small output layers and closed gates, so that blocks start as the identity."""
    closed = (
        "adaLN_modulation",
        "ada_lin",
        "final_layer.linear",
        "adaln_single.linear",
        "proj_out",
    )
    for name, parameter in model.named_parameters():
        if name.endswith("mask_token"):
            nn.init.normal_(parameter, std=0.02)
        elif any(part in name for part in closed) or "scale_shift" in name:
            nn.init.zeros_(parameter)
        elif name.endswith(".bias"):
            nn.init.zeros_(parameter)
        elif parameter.ndim >= 2:
            nn.init.trunc_normal_(parameter, std=0.5 / math.sqrt(parameter[0].numel()))


def train(
    run: Run, data: LatentSet, family: Family, encoder_from: Path | None, start_from: Path | None,
    autoencoder: Path, seed: int, batch: int, lr: float, easy_share: float,
) -> None:  # fmt: skip
    torch.manual_seed(seed)
    device = pick_device()
    width = POCKET_AR.backbone.text_width
    encoder = LlamaModel(text_config(len(build_tokenizer()), width))
    trainee = Trainee(family.build(), encoder)
    initialise(trainee.model)
    if encoder_from is not None:
        stored = averaged(encoder_from)
        encoder.load_state_dict(
            {n.removeprefix("text."): v for n, v in stored.items() if n.startswith("text.")}
        )
        encoder.requires_grad_(False)
    if start_from is not None:
        warm_start(trainee, averaged(start_from))
    trainee.to(device)
    average = Average(trainee, 0.9995)
    optimizer = MuonAdamW([trainee], lr, BY_ADAM)
    if saved := run.resume():
        trainee.load_state_dict(saved["model"])
        average.state = saved["average"]
        optimizer.load_state_dict(saved["optimizer"])
    captioner, sheets = Captioner(trainee.text), Sheets(family, autoencoder, data.scale)

    def states() -> dict:
        return {
            "model": trainee.state_dict(),
            "average": average.state,
            "optimizer": optimizer.state_dict(),
        }

    # A curriculum: mostly one object a scene at first, the world as it is at the end.
    everything = range(len(data.scenes))
    simple = [i for i in everything if data.scenes[i].skill in ("single", "colours")]
    losses: list[Tensor] = []
    for step in run.ticks():
        rng = Random(f"{seed}:{step}")
        generator = torch.Generator().manual_seed(rng.getrandbits(48))
        easy = easy_share * (1 - run.progress)
        chosen = [rng.choice(simple if rng.random() < easy else everything) for _ in range(batch)]
        prompts = [
            "" if rng.random() < PROMPT_DROPOUT else caption(data.scenes[i], rng) for i in chosen
        ]
        tokens, thumbnails = (part.to(device) for part in data.batch(chosen))
        for group in optimizer.param_groups:
            group["lr"] = lr * warmup_cosine(int(run.progress * 1e6), 10**6, warmup=2 * 10**4)
        with autocast(device), attention(device):
            text = captioner(prompts)
            loss = family.loss(trainee.model, tokens, thumbnails, text, generator)
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
        self.decoder = load_autoencoder(autoencoder).decoder

    @torch.inference_mode()
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variant", choices=tuple(families()), required=True)
    parser.add_argument("--latents", type=Path, default=Path("runs/latents.pt"))
    parser.add_argument("--autoencoder", type=Path, default=Path("runs/autoencoder"))
    parser.add_argument("--out", type=Path, help="default: runs/VARIANT")
    parser.add_argument("--encoder-from", type=Path, help="run whose text encoder is kept")
    parser.add_argument("--start-from", type=Path, help="run to take fitting tensors from")
    parser.add_argument("--steps", type=int, default=40_000)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--batch", type=int, default=96)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--easy", type=float, default=0.75, help="extra share of one-object scenes "
        "at the start; falls to 0")  # fmt: skip
    parser.add_argument(
        "--draws", type=int, default=1, help="noise levels a masked token (MLP head)"
    )
    args = parser.parse_args()
    if args.variant != "pocket-ar" and args.encoder_from is None:
        parser.error(
            f"{args.variant} shares pocket-ar's text encoder: --encoder-from runs/pocket-ar"
        )
    run = Run(args.out or Path("runs") / args.variant, args.steps, args.minutes * 60)
    train(
        run, LatentSet.load(args.latents), families(args.draws)[args.variant], args.encoder_from,
        args.start_from, args.autoencoder, args.seed, args.batch, args.lr, args.easy,
    )  # fmt: skip


if __name__ == "__main__":
    main()
