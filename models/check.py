"""Checking downloaded weights in a minute: names, shapes, types, finite values, one test picture."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from models.catalogue import find_variant
from models.contracts import BrokenPicture, SampleSettings
from models.instella import loading as instella
from models.loading import Loader, build
from models.pixels import to_pixels
from models.sources import Progress, Sources, weights_file
from models.weights import WeightsError, read_weights, shapes_of


@dataclass
class CheckReport:
    """What was checked, one line each, and whether all of it was right."""

    lines: list[str] = field(default_factory=list)
    ok: bool = True  # of the weights file itself
    picture: NDArray[np.uint8] | None = None  # None where the parts around it are missing

    def __str__(self) -> str:
        if not self.ok:
            verdict = "These weights cannot be used."
        elif self.picture is None:
            verdict = "The weights file is good; the test picture could not be drawn yet (above)."
        else:
            verdict = "These weights are good."
        return "\n".join([*self.lines, verdict])

    def passed(self, line: str) -> None:
        self.lines.append(f"ok    {line}")

    def missing(self, line: str) -> None:
        self.lines.append(f"--    {line}")

    def failed(self, line: str) -> None:
        self.lines.append(f"WRONG {line}")
        self.ok = False


def check_weights(
    variant_id: str,
    folder: Path | None = None,
    sources: Sources | None = None,
    progress: Progress = lambda part, what: None,
) -> CheckReport:
    """Check a variant's weights file, in `folder` or wherever the product would find it.

    Raises `KeyError` for an unknown variant; everything else is in the report.
    """
    variant, report = find_variant(variant_id), CheckReport()
    sources = sources or Sources.from_environment()
    if folder is not None:
        sources = (
            replace(sources, pocket=folder)
            if variant.embedded
            else replace(sources, weights=str(folder))
        )
    with torch.device("meta"):
        expected = shapes_of(build(variant.id))
    try:
        file = weights_file(variant, sources, progress)
        report.lines.append(f"file  {file}")
        if variant.family == "instella" and not variant.embedded:
            _, tensors = instella.read_generator(instella.GENERATORS[variant.id], file)
        else:
            tensors = read_weights(file, expected)
    except WeightsError as error:
        report.failed(str(error))
        return report
    report.passed(f"{file.name}: {file.stat().st_size:,} bytes, complete")
    report.passed(f"{len(tensors)} tensors with exactly the expected names and shapes")
    types = sorted({str(t.dtype).removeprefix("torch.") for t in tensors.values()})
    report.passed(f"stored as {', '.join(types)}")
    broken = [name for name, tensor in tensors.items() if not torch.isfinite(tensor).all()]
    if broken:
        report.failed(f"{len(broken)} tensors hold values that are no numbers, e.g. {broken[0]}")
        return report
    report.passed("all values are finite")
    del tensors
    _test_picture(variant.id, sources, report, progress)
    return report


@torch.inference_mode()
def _test_picture(
    variant_id: str, sources: Sources, report: CheckReport, progress: Progress
) -> None:
    try:
        loaded = Loader(sources).load(variant_id, progress)
    except WeightsError as error:
        report.missing(f"no test picture: {error}")
        return
    try:
        sampler, variant = loaded.sampler, loaded.variant
        prompt, empty = (
            sampler.prompt_context(rows)
            for rows in loaded.text.encode(["a red apple on a white background", ""])
        )
        settings = SampleSettings(
            seed=0,
            ar_iterations=variant.ar_iterations.default,
            flow_steps=variant.flow_steps.default,
            cfg_scale=variant.cfg_scale,
        )
        state = sampler.start(settings, prompt, empty)
        for _ in range(sampler.num_steps(state)):
            sampler.advance([state])
        latent = sampler.latent(state)
        spread = latent.std().item()
        pictures = loaded.autoencoder.decode(latent[None])
    except BrokenPicture as error:
        report.failed(f"test picture: {error}")
        return
    report.picture = to_pixels(pictures)[0]
    # Latents are scaled to about unit variance; far from it the weights are not what they seem.
    if 0.2 < spread < 5:
        report.passed(f"test picture drawn; latent spread {spread:.2f} (about 1 is normal)")
    else:
        report.failed(f"the test picture's latent spread is {spread:.2f}; about 1 is normal")
