"""What the deploy tests read: the repository's own files and what they import."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("app", "ui", "engine", "models", "training", "benchmarks", "tests")


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def files_of(room: str) -> list[Path]:
    return [ROOT / "app.py"] if room == "app" else sorted((ROOT / room).rglob("*.py"))


def nodes_of(room: str) -> Iterator[tuple[str, ast.AST]]:
    """Every node of a room's code with its place, as `engine/pool.py:12`."""
    for path in files_of(room):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            place = f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"
            yield place, node


def imports_of(room: str) -> Iterator[tuple[str, str]]:
    """(place, module) of every import of a room, those inside functions included."""
    for place, node in nodes_of(room):
        if isinstance(node, ast.Import):
            yield from ((place, name.name) for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                yield place, room
            elif node.module:
                yield place, node.module
