"""Seam of the tests: they reach the packages by what the reference documents, so that the code behind it can move."""

from __future__ import annotations

import ast
import functools
import importlib
from collections.abc import Iterator
from pathlib import Path

from tests.repo.test_docs import PUBLIC
from tools.pages import ROOT

FOLDERS = ("contract", "calls", "sandbox", "browser", "model", "crash", "watch", "bot", "fleet", "store")
SANDBOX = {
    "freight_sandbox",
    *(f"freight_sandbox.{name}" for name in ("board", "faults", "journal", "memory", "server", "wire")),
}
PURE = {"freight_exchange.walk", "freight_sandbox.codec", "freight_sandbox.service"}
"""Modules without I/O that tests may reach by name."""
INNER = {
    "freight_exchange.bot": "failpoints handler ledger lifespan outcomes process writes",
    "freight_exchange.feed": "events feed poller sources",
    "freight_exchange.store": "copy database effects errors feeds fleet work",
}
"""Modules that the tests of their own area reach by name: steps of the ledger, a scan, statements of the store."""
ADMIN = "freight_exchange.bot.admin"
AREAS = {"bot": ("freight_exchange.bot", "freight_exchange.store"), "store": ("freight_exchange.store",),
         "watch": ("freight_exchange.feed", "freight_exchange.store")}  # fmt: skip
EXCEPTIONS = {
    # Clocks that run faster than the machine's, or that slept.
    "crash/watcher_program.py": {"freight_exchange.platform.clock", "_shared"},
    "bot/test_deliveries.py": {"_shared"},
    # A feed that no public method reads alone.
    "watch/test_selected.py": {"_feed_parts"},
    # A feed whose lease is short enough to wait for.
    "store/test_postgres.py": {"freight_exchange.feed.feed", "freight_exchange.feed.sources", "_feed_parts"},
}
# Of named tuples, and of trio, whose order of tasks a seed must repeat.
FOREIGN = {"_exit", "_replace", "_asdict", "_r", "_ALLOW_DETERMINISTIC_SCHEDULING"}


@functools.cache
def trees() -> dict[Path, ast.AST]:
    """Return the modules of the tests, parsed."""
    return {path: ast.parse(path.read_text()) for name in FOLDERS for path in (ROOT / "tests" / name).rglob("*.py")}


def imports_of(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield each imported module of the packages with the name that is imported from it, if any."""
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(module), names=names) if module.startswith("freight_"):
                yield from ((module, each.name) for each in names)
            case ast.Import(names=names):
                yield from ((each.name, "") for each in names if each.name.startswith("freight_"))


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


def exceptions_of(path: str) -> set[str]:
    return next((names for name, names in EXCEPTIONS.items() if path.endswith(name)), set())


def findings_in(name: str, tree: ast.AST) -> list[str]:
    area = next((folder for folder in AREAS if f"tests/{folder}/" in name), "")
    inner = {f"{package}.{module}" for package in AREAS.get(area, ()) for module in INNER[package].split()}
    known = (
        {*PUBLIC}
        | SANDBOX
        | PURE
        | exceptions_of(name)
        | inner
        | ({ADMIN} if area == "bot" or "/fleet/" in name else set())
    )
    found: list[str] = []
    for module, imported in imports_of(tree):
        public = getattr(importlib.import_module(module), "__all__", [imported])
        if module in inner:
            continue
        if module not in known or (imported and imported not in public and f"{module}.{imported}" not in known):
            found.append(f"{name}: {module} {imported}")
    return found


def test_tests_import_documented_names_only() -> None:
    assert [finding for path, tree in trees().items() for finding in findings_in(str(path), tree)] == []


def test_tests_use_no_private_attribute_of_the_packages() -> None:
    # Helpers of the tests have private names as well; a class may be defined in another file of its folder.
    own = {folder: {name for path, tree in trees().items() if path.is_relative_to(folder) for name in defined_in(tree)}
           for folder in {path.parent for path in trees()}}  # fmt: skip
    used = {
        path: {*private_of(tree, own[path.parent] | FOREIGN | exceptions_of(str(path)))}
        for path, tree in trees().items()
    }
    assert {path: names for path, names in used.items() if names} == {}


def test_reach_behind_the_seam_is_found() -> None:
    assert findings_in("x", ast.parse("from freight_exchange.paging import Page")) == [
        "x: freight_exchange.paging Page"
    ]
    ledger = ast.parse("from freight_exchange.bot.ledger import Ledger")
    assert findings_in("tests/bot/x.py", ledger) == []
    assert findings_in("tests/calls/x.py", ledger) == ["tests/calls/x.py: freight_exchange.bot.ledger Ledger"]
    assert findings_in("x", ast.parse("from freight_exchange import settings")) == ["x: freight_exchange settings"]
    assert [*private_of(ast.parse("sandbox.exchange._orders"), set())] == ["_orders"]
