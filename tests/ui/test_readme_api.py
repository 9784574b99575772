"""The API's examples in README.md, run as they stand (but for the server's address)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.ui.conftest import Site, serving
from tests.ui.world import PageWorld, is_of, mean_colour, start

ROOT = Path(__file__).resolve().parents[2]
SECTION = re.search(r"^## API\n(.*?)^## ", (ROOT / "README.md").read_text("utf-8"), re.M | re.S)
assert SECTION, "README.md has no section on the API"
EXAMPLES = re.findall(r"^```(\w+)\n(.*?)^```$", SECTION[1], re.MULTILINE | re.DOTALL)
ADDRESS = "http://127.0.0.1:7860"
FOX = "a fox on a blue background"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    votes = tmp_path_factory.mktemp("votes") / "votes.db"
    with (
        start(PageWorld(step_s=0.002), ["pocket-ar"]) as engine,
        serving(engine, votes=votes) as made,
    ):
        yield made


def example(language: str, holds: str) -> str:
    (found,) = [code for name, code in EXAMPLES if name == language and holds in code]
    assert ADDRESS in found
    return found


def run(command: list[str], code: str, site: Site, folder: Path) -> str:
    """What an example prints, run in an empty folder."""
    code = code.replace(ADDRESS, site.address.rstrip("/"))
    environment = {**os.environ, "PYTHONPATH": "", "GRADIO_ANALYTICS_ENABLED": "False"}
    done = subprocess.run(
        [*command, code], cwd=folder, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_example_is_run_by_a_test() -> None:
    assert [name for name, _ in EXAMPLES] == ["python", "python", "javascript", "sh"]


def test_python_draws_a_picture(site: Site, tmp_path: Path) -> None:
    said = run([sys.executable, "-c"], example("python", "/generate"), site, tmp_path).split()
    assert {"queued", "started", "step"} <= set(said) and said[-1] == "finished"
    assert is_of(mean_colour((tmp_path / "fox.jpg").read_bytes()), FOX)


def test_python_fetches_a_batch(site: Site, tmp_path: Path) -> None:
    said = run([sys.executable, "-c"], example("python", "/batch"), site, tmp_path)
    assert said.splitlines()[-1] == "8 of 8"
    with zipfile.ZipFile(tmp_path / "cats.zip") as archive:
        names = archive.namelist()
        assert archive.testzip() is None and "metadata.jsonl" in names
    assert sum(name.endswith(".png") for name in names) == 8


def test_a_shell_draws_a_picture(site: Site, tmp_path: Path) -> None:
    for program in ("curl", "bash"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    run(["bash", "-euo", "pipefail", "-c"], example("sh", "curl"), site, tmp_path)
    assert is_of(mean_colour((tmp_path / "fox.jpg").read_bytes()), FOX)


def test_node_can_read_the_javascript(tmp_path: Path) -> None:
    """Running it would need a package of npm's."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    (tmp_path / "fox.mjs").write_text(example("javascript", "@gradio/client"))
    done = subprocess.run([node, "--check", "fox.mjs"], cwd=tmp_path, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()


def test_the_table_names_every_endpoint_and_no_other(site: Site) -> None:
    assert SECTION
    named = set(re.findall(r"^\| `(/\w+)` \|", SECTION[1], re.MULTILINE))
    assert named == set(httpx.get(f"{site.address}gradio_api/info").json()["named_endpoints"])
