"""Before the first stage, where training goes on: the product's weights as runs to start from.

The inverse of `export`. A machine without the old runs continues with
`python -m training.restore --out runs/start` and then `--start-from runs/start/VARIANT`: the
weights are those of the files (8 bits), only the optimiser's state is new.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from models.instella.loading import POCKET_FILE as TOKENIZER_FILE
from models.packed import FILE, tables_of, unpack
from training.families import families

AUTOENCODER = Path("autoencoder") / FILE
TEXT_ENCODER = Path("text_encoder") / FILE


def write_run(folder: Path, tensors: dict[str, Tensor]) -> None:
    """A run of no steps whose averaged weights are `tensors`, in fp32."""
    folder.mkdir(parents=True, exist_ok=True)
    average = {name: tensor.float() for name, tensor in tensors.items()}
    torch.save({"step": 0, "spent_s": 0.0, "average": average}, folder / "checkpoint.pt")


def restore(pocket: Path, out: Path) -> list[str]:
    """Write a run for the autoencoder and for every variant found in `pocket`; their names."""
    write_run(out / "autoencoder", unpack(load_file(pocket / AUTOENCODER)))
    if (pocket / TOKENIZER_FILE).exists():
        write_run(out / "tokenizer", unpack(load_file(pocket / TOKENIZER_FILE)))
    names = [name for name in families() if (pocket / f"{name}.safetensors").exists()]
    stored = unpack(load_file(pocket / TEXT_ENCODER))
    text = {f"text.{name}": t for name, t in stored.items()}
    for name in names:
        tables = tables_of(families()[name].build())
        model = tables | unpack(load_file(pocket / f"{name}.safetensors"))
        write_run(out / name, text | {f"model.{n}": t for n, t in model.items()})
    return ["autoencoder", *names]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pocket", type=Path, default=Path("assets/pocket"))
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    print("restored:", ", ".join(restore(args.pocket, args.out)))


if __name__ == "__main__":
    main()
