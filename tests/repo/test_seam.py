"""Seam of the tests: they reach the packages by what the reference documents, so that the code behind it can move."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator

from tests.repo.test_docs import documented
from tools.pages import ROOT

FOLDERS = ("contract", "calls", "sandbox", "browser", "model", "crash", "watch", "bot", "fleet", "store")
PURE = {"freight_exchange.walk", "freight_sandbox.codec", "freight_sandbox.service"}
"""Modules without I/O that tests may reach by name."""
# A watcher whose clocks run faster than the machine's needs the clock itself.
EXCEPTIONS = {"freight_exchange.platform.clock", "_shared"}
# Of named tuples, and of trio, whose order of tasks a seed must repeat.
FOREIGN = {"_replace", "_asdict", "_r", "_ALLOW_DETERMINISTIC_SCHEDULING"}
TREES = {path: ast.parse(path.read_text()) for name in FOLDERS for path in (ROOT / "tests" / name).rglob("*.py")}


def imports_of(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield each imported module of the packages, and the name that is imported from it."""
    for node in ast.walk(tree):
        modules = [node.module] if isinstance(node, ast.ImportFrom) else []
        modules += [each.name for each in node.names] if isinstance(node, ast.Import) else []
        for module in modules:
            if module is not None and module.startswith(("freight_exchange", "freight_sandbox")):
                yield from ((module, each.name) for each in getattr(node, "names", ()))


def private_of(tree: ast.AST, own: set[str]) -> Iterator[str]:
    """Yield the private attributes that are used and are not defined by the tests themselves."""
    names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    yield from (name for name in names - own if name.startswith("_") and not name.startswith("__"))


def defined_in(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Attribute(attr=name, value=ast.Name(id="self" | "cls")) | ast.Name(id=name, ctx=ast.Store()):
                yield name


def test_tests_import_documented_modules_only() -> None:
    names = documented()
    known = {name.rpartition(".")[0] for name in names} | PURE | EXCEPTIONS
    for path, tree in TREES.items():
        for module, name in imports_of(tree):
            assert module in known or f"{module}.{name}" in names, f"{path} imports {module}"
            public = getattr(importlib.import_module(module), "__all__", [name])
            assert name in public or f"{module}.{name}" in known, f"{path} imports {module}.{name}"


def test_tests_use_no_private_attribute_of_the_packages() -> None:
    own = {name for tree in TREES.values() for name in defined_in(tree)}
    assert {
        path: used for path, tree in TREES.items() if (used := {*private_of(tree, own | FOREIGN | EXCEPTIONS)})
    } == {}


def test_reach_behind_the_seam_is_found() -> None:
    assert [*imports_of(ast.parse("from freight_exchange.paging import Page"))] == [("freight_exchange.paging", "Page")]
    assert [*private_of(ast.parse("sandbox.exchange._orders"), set())] == ["_orders"]
    assert "freight_exchange.paging" not in {name.rpartition(".")[0] for name in documented()}
