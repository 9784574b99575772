"""A finished batch as one zip file.

A zip's directory is its end, so one that is being written is worth nothing when it is cut off.
Pictures are therefore collected in a folder beside it, which can be gone on with like any other,
and packed at the end; the zip appears under its name at once.
"""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

from ui.batch.ledger import (
    FAILURES,
    METADATA,
    PLAN_FILE,
    BatchRefused,
    is_note,
    read_plan,
    refuse_other,
)
from ui.batch.plan import Plan


def collecting_folder(target: Path) -> Path:
    """Where the pictures of a zip are until it is packed."""
    return target.with_name(target.name + ".unfinished")


def pack(folder: Path, target: Path, plan: Plan) -> None:
    """The folder's pictures that are there, with their metadata, as `target`. Raises `OSError`.

    Pictures are stored as they are: they are compressed already.
    """
    part = target.with_name(f".{target.name}.part")
    notes = (PLAN_FILE, METADATA, FAILURES)
    try:
        with zipfile.ZipFile(part, "w", zipfile.ZIP_STORED) as archive:
            for name in notes:
                if (folder / name).is_file():
                    archive.write(folder / name, name, zipfile.ZIP_DEFLATED)
            for index in range(len(plan)):
                name = plan.file_name(index)
                if (folder / name).is_file():
                    archive.write(folder / name, name)
        os.replace(part, target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def is_complete(target: Path, plan: Plan) -> bool:
    """Whether `target` is this plan's zip already, with every picture; false if there is none.

    Raises `BatchRefused` for a file that is something else.
    """
    if not target.exists():
        return False
    try:
        with zipfile.ZipFile(target) as archive:
            data, names = archive.read(PLAN_FILE), archive.namelist()
    except (zipfile.BadZipFile, KeyError, OSError):
        raise BatchRefused(f"{target} is there and is no batch's. Choose another name.") from None
    refuse_other(read_plan(data, str(target)), plan, str(target))
    return FAILURES not in names


def discard(folder: Path, plan: Plan) -> None:
    """Remove what a batch has put into a folder, and the folder if nothing else is in it.

    May be cut off and repeated, for the zip says that the folder is no longer needed.
    """
    if not folder.is_dir():
        return
    for path in list(folder.iterdir()):
        if plan.index_of(path.name) is not None or is_note(path.name):
            path.unlink()
    if not any(folder.iterdir()):
        folder.rmdir()
