"""What is imported is required, what is required is pinned and explained, nothing is machine-bound."""

from __future__ import annotations

import ast
import re
import sys
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.deploy.sources import ROOMS, files_of, imports_of, text

DISTRIBUTIONS = {"PIL": "pillow"}  # where the import's name is not the package's
PRODUCT = ("app", "ui", "engine", "models", "benchmarks")
FILES = ("requirements.txt", "requirements-dev.txt", "constraints.txt")


def lines(name: str) -> list[str]:
    stripped = (line.partition("#")[0].strip() for line in text(name).splitlines())
    return [line for line in stripped if line]


def requirements(*names: str) -> dict[str, Requirement]:
    """By canonical name; `-r` lines are left out."""
    parsed = [Requirement(line) for name in names for line in lines(name) if line[0] != "-"]
    return {canonicalize_name(requirement.name): requirement for requirement in parsed}


RUN = requirements("requirements.txt")
ALL = requirements("requirements.txt", "requirements-dev.txt")
PINS = requirements("constraints.txt")
EXTRAS = tomllib.loads(text("pyproject.toml"))["project"]["optional-dependencies"]
OPTIONAL = {
    canonicalize_name(each.name): each
    for each in (Requirement(line) for lines in EXTRAS.values() for line in lines)
}


def third_party(room: str) -> dict[str, str]:
    """Packages a room imports, each with one place."""
    found = {}
    for place, module in imports_of(room):
        name = module.split(".")[0]
        if name not in sys.stdlib_module_names and name not in ROOMS:
            found[canonicalize_name(DISTRIBUTIONS.get(name, name))] = place
    return found


@pytest.mark.parametrize("room", ROOMS)
def test_every_imported_package_is_required(room: str) -> None:
    required = {**RUN, **OPTIONAL} if room in PRODUCT else ALL
    missing = {name: place for name, place in third_party(room).items() if name not in required}
    assert not missing


def test_nothing_is_required_that_nobody_imports() -> None:
    used = {name for room in PRODUCT for name in third_party(room)}
    assert set(RUN) - used == {"accelerate"}  # diffusers looks for it


def test_an_optional_package_is_tested_and_imported_where_it_is_used_only() -> None:
    """At the top of a file its absence would keep the page from starting."""
    for name, each in OPTIONAL.items():
        assert name not in RUN and ALL[name].specifier == each.specifier
    for room in PRODUCT:
        for path in files_of(room):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                names = (
                    [getattr(node, "module", None) or ""]
                    if isinstance(node, ast.ImportFrom)
                    else [alias.name for alias in getattr(node, "names", [])]
                )
                for imported in names:
                    assert canonicalize_name(imported.split(".")[0]) not in OPTIONAL, path


@pytest.mark.parametrize("name", ALL)
def test_the_tested_version_is_pinned_and_within_the_range(name: str) -> None:
    (pin,) = PINS[name].specifier
    assert pin.operator == "=="
    assert ALL[name].specifier, f"{name} has no range"
    assert ALL[name].specifier.contains(pin.version)


def test_torch_is_pinned_without_a_build_and_allowed_from_2_8() -> None:
    (pin,) = PINS["torch"].specifier
    assert Version(pin.version).local is None
    assert RUN["torch"].specifier.contains("2.8.0")
    assert not RUN["torch"].specifier.contains("2.7.1")


@pytest.mark.parametrize("name", FILES)
def test_no_index_no_address_no_path(name: str) -> None:
    for line in lines(name):
        assert line == "-r requirements.txt" or re.fullmatch(r"[\w.-]+[<>=!~,\w. -]*", line), line


@pytest.mark.parametrize("name", ALL)
def test_the_readme_says_why_a_package_is_needed(name: str) -> None:
    written = ALL[name].name
    assert re.search(rf"^\| `{re.escape(written)}` \| \S.+ \|$", text("README.md"), re.MULTILINE)


def test_the_space_runs_the_tested_gradio() -> None:
    (pin,) = PINS["gradio"].specifier
    assert f"\nsdk_version: {pin.version}\n" in text("README.md")
