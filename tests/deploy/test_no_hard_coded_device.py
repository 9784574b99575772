"""The code runs on CUDA, ROCm, MPS and the CPU: devices are chosen in one place and passed on."""

from __future__ import annotations

import ast

import pytest

from tests.deploy.sources import nodes_of

ROOMS = ("models", "engine", "training")
CHOOSERS = ("models/precision.py", "training/loop.py")  # where "cuda" or "mps" may be chosen
# Double precision on the CPU by name: MPS has none.
CPU_TABLES = ("models/layers.py", "models/instella/positions.py", "engine/linear.py")


def is_gpu(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node.value.split(":")[0] in ("cuda", "mps", "hip", "xpu")
    )


@pytest.mark.parametrize("room", ROOMS)
def test_no_tensor_is_sent_to_a_device_by_name(room: str) -> None:
    wrong = []
    for place, node in nodes_of(room):
        if not isinstance(node, ast.Call) or place.split(":")[0] in CHOOSERS:
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        arguments = [*node.args, *(k.value for k in node.keywords if k.arg == "device")]
        if name == "cuda" or (name in ("to", "device") and any(map(is_gpu, arguments))):
            wrong.append(f"{place}: {ast.unparse(node)}")
        elif any(k.arg == "device" and is_gpu(k.value) for k in node.keywords):
            wrong.append(f"{place}: {ast.unparse(node)}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("room", ("models", "engine"))
def test_double_precision_stays_in_tables_on_the_cpu(room: str) -> None:
    wrong = []
    for place, node in nodes_of(room):
        if not isinstance(node, ast.Attribute) or place.split(":")[0] in CPU_TABLES:
            continue
        of_torch = isinstance(node.value, ast.Name) and node.value.id == "torch"
        if (of_torch and node.attr in ("float64", "double")) or (
            not of_torch and node.attr == "double"
        ):
            wrong.append(f"{place}: {ast.unparse(node)}")
    assert not wrong, "\n".join(wrong)
