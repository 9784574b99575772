"""Last stage: the averaged weights of finished runs as the product's files.

The files have the official layout: a safetensors file per variant, a transformers folder for the
text encoder, a diffusers folder for the autoencoder; all of them in 8 bits (see `models.packed`).
"""

from __future__ import annotations

import argparse
from pathlib import Path

from diffusers import AutoencoderDC
from safetensors.torch import save_file

from models.instella.loading import POCKET_FILE as TOKENIZER_FILE
from models.packed import FILE as PACKED_FILE
from models.packed import pack, tables_of
from models.preview import FILE as PREVIEW_FILE
from training.autoencoder import CONFIG
from training.families import families
from training.latents import LatentSet
from training.loop import averaged
from training.related import save_related_words
from training.trainee import new_text_encoder
from training.words import save_tokenizer


def export_autoencoder(run: Path, scale: float, out: Path) -> None:
    model = AutoencoderDC(**CONFIG, scaling_factor=scale)
    model.load_state_dict(averaged(run))
    model.save_config(out / "autoencoder")
    save_file(pack(model.state_dict()), out / "autoencoder" / PACKED_FILE)


def export_preview(run: Path, out: Path) -> None:
    (out / "autoencoder").mkdir(exist_ok=True)
    save_file(pack(averaged(run)), out / "autoencoder" / PREVIEW_FILE)


def export_text_encoder(run: Path, out: Path) -> None:
    model = new_text_encoder()
    prefix = "text."
    model.load_state_dict(
        {n.removeprefix(prefix): t for n, t in averaged(run).items() if n.startswith(prefix)}
    )
    (out / "text_encoder").mkdir(exist_ok=True)
    model.config.save_pretrained(out / "text_encoder")
    save_file(pack(model.state_dict()), out / "text_encoder" / PACKED_FILE)
    save_tokenizer(out / "text_encoder")
    save_related_words(out / "text_encoder")


def export_variant(run: Path, out: Path) -> None:
    prefix = "model."
    tensors = {
        name.removeprefix(prefix): tensor
        for name, tensor in averaged(run).items()
        if name.startswith(prefix)
    }
    for name in tables_of(families()[run.name].build()):
        del tensors[name]  # computed, not learnt
    save_file(pack(tensors), out / f"{run.name}.safetensors")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--out", type=Path, default=Path("assets/pocket"))
    args = parser.parse_args()
    links = [path for path in (args.out, *args.out.glob("*")) if path.is_symlink()]
    if links:
        parser.error(f"{links[0]} is a link; what it leads to would be overwritten. Use a folder.")
    args.out.mkdir(parents=True, exist_ok=True)
    export_autoencoder(
        args.runs / "autoencoder", LatentSet.load(args.runs / "latents.pt").scale, args.out
    )
    if (args.runs / "tokenizer" / "checkpoint.pt").exists():
        save_file(pack(averaged(args.runs / "tokenizer")), args.out / TOKENIZER_FILE)
    if (args.runs / "preview" / "checkpoint.pt").exists():
        export_preview(args.runs / "preview", args.out)
    export_text_encoder(args.runs / "pocket-ar", args.out)
    for name in families():
        if (args.runs / name / "checkpoint.pt").exists():
            export_variant(args.runs / name, args.out)
    files = sorted(p for p in args.out.rglob("*") if p.suffix in (".safetensors", ".json"))
    for file in files:
        file.chmod(0o644)  # some writers keep their files to the user who trained
        print(f"{file.relative_to(args.out)}: {file.stat().st_size / 1e6:.2f} MB")
    print(f"in all {sum(file.stat().st_size for file in files) / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
