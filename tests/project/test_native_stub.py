"""relay/_native.pyi matches the native module: no name and no parameter more or less."""

from __future__ import annotations

import ast
import inspect

import pytest

from relay import _native
from tests.support import ROOT

STUB = ast.parse((ROOT / "relay" / "_native.pyi").read_text())
CLASSES = {node.name: node for node in STUB.body if isinstance(node, ast.ClassDef)}
INHERITED = {name for base in (object, tuple, Exception) for name in dir(base)}


def members(node: ast.ClassDef) -> dict[str, ast.stmt]:
    """Methods, properties and annotated attributes of a class in the stub."""
    found: dict[str, ast.stmt] = {}
    for each in node.body:
        if isinstance(each, ast.FunctionDef):
            found[each.name] = each
        elif isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            found[each.target.id] = each
    return found


def parameters(node: ast.FunctionDef) -> list[str]:
    """Names of the parameters in the stub."""
    return [each.arg for each in (*node.args.args, *node.args.kwonlyargs)]


def defined_here(value: object) -> bool:
    """Whether the module made it, rather than imported it."""
    return getattr(value, "__module__", None) == "relay._native"


def test_stub_names_every_class_and_function_of_the_module() -> None:
    functions = {node.name for node in STUB.body if isinstance(node, ast.FunctionDef)}
    present = {name for name, value in vars(_native).items() if defined_here(value) and not name.startswith("_")}
    assert present == functions | set(CLASSES)


@pytest.mark.parametrize("name", CLASSES)
def test_stub_names_every_member_of_a_class(name: str) -> None:
    real = {each for each in vars(getattr(_native, name)) if not each.startswith("_")}
    stub = {each for each in members(CLASSES[name]) if not each.startswith("_")}
    assert real - INHERITED == stub - INHERITED


@pytest.mark.parametrize("name", CLASSES)
def test_stub_gives_methods_the_parameters_that_they_have(name: str) -> None:
    for method, node in members(CLASSES[name]).items():
        if isinstance(node, ast.FunctionDef) and not node.decorator_list and not method.startswith("_"):
            signature = inspect.signature(inspect.getattr_static(getattr(_native, name), method))
            assert list(signature.parameters) == parameters(node), f"{name}.{method}"
