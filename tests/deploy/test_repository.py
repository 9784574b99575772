"""What lies in the repository speaks of the product, asks no other host, and is small."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.deploy.sources import ROOT, text

# xmlns names are names, not addresses.
ADDRESS = re.compile(r"(?:https?:)?//(?!www\.w3\.org/)[a-z0-9-]+(?:\.[a-z0-9-]+)+", re.IGNORECASE)
HOME = re.compile(r"(?<![\w.$}-])/(?:home|root|work|Users)/\w")


def tracked() -> list[Path]:
    if shutil.which("git") is None:
        pytest.skip("no git here")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def test_the_page_asks_no_other_host() -> None:
    files = [p for p in (ROOT / "assets" / "web").iterdir() if p.is_file()]
    assert files
    found = [f"{p.name}: {m[0]}" for p in files for m in ADDRESS.finditer(p.read_text("utf-8"))]
    assert not found


def test_no_font_or_script_of_another_host_is_named_in_the_theme() -> None:
    for path in (ROOT / "ui").rglob("*.py"):
        assert "GoogleFont" not in path.read_text(encoding="utf-8"), path.name


def test_no_file_names_somebodys_folders() -> None:
    found = []
    for path in tracked():
        name = str(path.relative_to(ROOT))
        if name == "Dockerfile" or path.suffix in (".safetensors", ".png", ".jpg", ".webp"):
            continue  # the container's home is the Dockerfile's business
        for number, line in enumerate(path.read_text("utf-8", "replace").splitlines(), 1):
            if HOME.search(line) and "HOME = re.compile" not in line:
                found.append(f"{name}:{number}: {line.strip()[:100]}")
    assert not found, "\n".join(found)


def test_pocket_is_at_most_25_megabytes_and_brings_its_licence() -> None:
    folder = ROOT / "assets" / "pocket"
    assert sum(p.stat().st_size for p in folder.rglob("*") if p.is_file()) <= 25e6
    licence = (folder / "LICENSE-NotoColorEmoji-OFL.txt").read_text(encoding="utf-8")
    assert "SIL OPEN FONT LICENSE Version 1.1" in licence
    assert "Google Inc." in licence


def test_the_readme_starts_with_what_spaces_reads() -> None:
    start, front, body = text("README.md").split("---\n", 2)
    assert start == ""
    values = dict(re.findall(r"^(\w+): (.+)$", front, re.MULTILINE))
    assert values["sdk"] == "gradio"
    assert (ROOT / values["app_file"]).is_file()
    assert values["python_version"] == '"3.11"'
    assert values["license"] == "mit"
    assert len(values["short_description"]) <= 60
    assert "make run" in body and "make test" in body


def test_every_setting_the_code_reads_is_in_the_readme() -> None:
    read = set()
    for path in [ROOT / "app.py", *(ROOT / "ui").rglob("*.py"), *(ROOT / "models").rglob("*.py")]:
        read |= set(re.findall(r'"(NITRO_[A-Z_]+)"', path.read_text(encoding="utf-8")))
    assert {"NITRO_WEIGHTS", "NITRO_HOST"} <= read
    assert sorted(name for name in read if f"`{name}`" not in text("README.md")) == []
