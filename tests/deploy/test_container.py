"""The Dockerfile, the Makefile and the CI script, read rather than run."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess

import pytest

from tests.deploy.sources import ROOT, text


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's instructions, continuation lines joined, comments left out."""
    kept = "\n".join(
        line for line in text("Dockerfile").splitlines() if not line.lstrip().startswith("#")
    )
    joined = re.sub(r"\\\n\s*", " ", kept)
    parts = (line.split(maxsplit=1) for line in joined.splitlines() if line.strip())
    return [(name, rest) for name, rest in parts]


def values(name: str) -> list[str]:
    return [rest for instruction, rest in instructions() if instruction == name]


def environment() -> dict[str, str]:
    pairs = (pair.split("=", 1) for line in values("ENV") for pair in shlex.split(line))
    return {name: value for name, value in pairs}


def test_the_base_is_an_argument() -> None:
    first, second = instructions()[:2]
    assert first[0] == "ARG" and first[1].startswith("BASE=python:3.")
    assert second == ("FROM", "${BASE}")
    assert "BASE=pytorch/pytorch:" in text("Dockerfile")
    assert "BASE=rocm/pytorch:" in text("Dockerfile")


def test_the_page_runs_as_user_1000_with_a_home_it_may_write_to() -> None:
    assert values("USER") == ["1000"]
    names = [name for name, _ in instructions()]
    assert "RUN" not in names[names.index("USER") :], "nothing is built after root was left"
    env = environment()
    assert env["HF_HOME"].startswith(env["HOME"] + "/")
    assert any(f"chown -R 1000 {env['HOME']}" in line for line in values("RUN"))
    assert env["GRADIO_TEMP_DIR"].startswith("/tmp/")


def test_the_port_is_open_and_its_health_is_asked() -> None:
    assert values("EXPOSE") == ["7860"]
    env = environment()
    assert (env["NITRO_HOST"], env["NITRO_PORT"]) == ("0.0.0.0", "7860")
    (health,) = values("HEALTHCHECK")
    assert "/healthz" in health
    assert values("CMD") == ['["python", "app.py"]']


def test_requirements_are_installed_with_the_tested_versions() -> None:
    assert "sh deploy/install.sh python requirements.txt" in values("RUN")
    assert "constraints.txt" in text("deploy/install.sh")
    order = [rest for name, rest in instructions() if name in ("COPY", "RUN")]
    whole = next(i for i, rest in enumerate(order) if rest.endswith(". ."))
    assert order.index("sh deploy/install.sh python requirements.txt") < whole, "layer is kept"


def test_what_is_copied_exists_and_the_image_leaves_out_what_it_can() -> None:
    for line in values("COPY"):
        for source in [part for part in line.split() if not part.startswith("--")][:-1]:
            assert (ROOT / source).exists(), source
    ignored = text(".dockerignore").split()
    assert {".git", ".venv", "runs", "tests"} <= set(ignored)
    assert not {"assets", "ui", "engine", "models", "app.py"} & set(ignored)


@pytest.fixture
def empty_python(tmp_path):  # type: ignore[no-untyped-def]
    """A stand-in for Python that writes down what pip was asked for, with the constraints."""

    def make(torch: str | None):  # type: ignore[no-untyped-def]
        log = tmp_path / "log"
        script = tmp_path / "python"
        script.write_text(
            "#!/bin/sh\n"
            f'if [ "$1" = -c ]; then {f"echo {torch}" if torch else "exit 1"}; exit; fi\n'
            f'echo "$@" >>{log}\n'
            'while [ "$1" != -c ]; do shift; done\n'
            f'grep "^torch==" "$2" >>{log}\n'
        )
        script.chmod(0o755)
        subprocess.run(
            ["sh", "deploy/install.sh", str(script), "requirements.txt"], cwd=ROOT, check=True
        )
        return log.read_text().splitlines()

    return make


def test_without_torch_the_tested_one_is_installed_first(empty_python) -> None:  # type: ignore[no-untyped-def]
    first, pin, second, _ = empty_python(None)
    assert first.endswith(" torch") and second.endswith(" -r requirements.txt")
    assert pin in text("constraints.txt").splitlines()


def test_a_torch_that_is_there_is_kept(empty_python) -> None:  # type: ignore[no-untyped-def]
    only, pin = empty_python("2.8.0+rocm7.0.0")
    assert only.endswith(" -r requirements.txt")
    assert pin == "torch==2.8.0+rocm7.0.0"


@pytest.mark.parametrize("script", [".ci/run", "deploy/install.sh", "deploy/system.sh"])
def test_scripts_can_be_run_and_stop_at_the_first_failure(script: str) -> None:
    assert os.access(ROOT / script, os.X_OK)
    assert re.search(r"^set -eu", text(script), re.MULTILINE)
    shell = "bash" if text(script).startswith("#!/usr/bin/env bash") else "sh"
    subprocess.run([shell, "-n", script], cwd=ROOT, check=True)


def test_ci_installs_what_is_missing_and_calls_make_test() -> None:
    assert "deploy/system.sh make venv chromium fonts keywords" in text(".ci/run")
    assert "make --no-print-directory pocket-smoke\n" in text(".ci/run")
    assert text(".ci/run").rstrip().endswith("make --no-print-directory test")


@pytest.mark.skipif(shutil.which("make") is None, reason="no make here")
@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("run", ["app.py"]),
        ("test", ["ruff check", "ruff format --check", "mypy", "pytest"]),
        ("test-slow", ["pytest -m"]),
        ("gpu-test", ["pytest -m gpu"]),
        ("bench", ["benchmarks.flops", "benchmarks.latency"]),
        (
            "pocket",
            [
                "training.autoencoder",
                "training.latents",
                "training.preview",
                "--variant pocket-ar ",
                "--variant pocket-ar-joint",
                "--variant pocket-e ",
                "training.distill",
                "training.tokenizer",
                "training.bits",
                "--variant pocket-instella",
                "training.export --runs runs --out assets/pocket",
            ],
        ),
        (
            "pocket-smoke",
            [
                "training.autoencoder",
                "training.latents",
                "training.preview",
                "--variant pocket-ar ",
                "--variant pocket-ar-joint",
                "--variant pocket-e ",
                "training.distill",
                "training.adversarial",
                "training.tokenizer",
                "training.bits",
                "--variant pocket-instella",
                "training.export",
                "training.evaluate",
            ],
        ),
    ],
)
def test_a_target_does_its_stages_in_order(target: str, expected: list[str]) -> None:
    environment = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL")}
    done = subprocess.run(
        ["make", "-n", target],
        cwd=ROOT,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    at = 0
    for part in expected:
        at = done.stdout.find(part, at)
        assert at >= 0, f"{part!r} is not in its place in `make {target}`"
