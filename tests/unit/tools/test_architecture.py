"""Tests of the architecture pages, of the tools in CONTRIBUTING, and of the drawing of imports."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from tools.architecture import DRAWING, ROOT, draw, read_imports

PACKAGE = ROOT / "src" / "freight_exchange"
WALKS = (ROOT / "ARCHITECTURE.md").read_text()
HOPS = re.findall(r"\[`([\w.]+)`\]\((src/[\w/]+\.py)\)", WALKS)
TERMS = re.findall(r"`([\w/]+\.py)` `(\w+)`", (ROOT / "docs" / "glossary.md").read_text())
DEFINED = {(name, str(Path(path))) for name, path in HOPS} | {
    (name, f"src/{path}" if path.startswith("freight_") else f"src/freight_exchange/{path}") for path, name in TERMS
}


def is_defined(name: str, path: Path) -> bool:
    body = ast.parse(path.read_text()).body
    for part in name.split("."):
        for node in body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.name == part:
                body = node.body
                break
            targets = getattr(node, "targets", [getattr(node, "target", None)])
            if any(isinstance(target, ast.Name) and target.id == part for target in targets):
                return True
        else:
            return False
    return True


@pytest.mark.parametrize(("name", "path"), sorted(DEFINED))
def test_page_names_function_that_exists(name: str, path: str) -> None:
    assert is_defined(name, ROOT / path)


def test_every_link_of_the_walks_is_a_hop() -> None:
    assert len(HOPS) == WALKS.count("](src/") > 20


def entries(folder: Path) -> int:
    return sum(path.name not in ("__init__.py", "__pycache__") for path in folder.iterdir())


def test_folders_have_as_many_entries_as_the_page_permits() -> None:
    paragraph = WALKS.split("A folder of the source ")[1].split("\n\n")[0]
    limit = int(re.findall(r"at most (\d+) entries", paragraph)[0])
    larger = {PACKAGE, *(PACKAGE / name for name in re.findall(r"`([a-z_/]+)`", paragraph))}
    folders = [path for path in PACKAGE.rglob("*") if path.is_dir() and path.name != "__pycache__"]
    assert {folder for folder in (PACKAGE, *folders) if entries(folder) > limit} == larger


def test_page_describes_every_package() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    rows = re.findall(r"^\| (`.*?) \|", page.split("## Packages")[1].split("## Rules")[0], re.MULTILINE)
    described = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert described == {path.stem for path in PACKAGE.iterdir() if not path.name.startswith("_") and path.stem != "py"}


def test_contributing_names_every_tool() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text()
    assert [path.name for path in (ROOT / "tools").glob("*.py") if path.name not in page] == []


def test_drawing_is_current() -> None:
    assert DRAWING.read_text() == draw(*read_imports()), "run: python tools/architecture.py"


def test_walks_have_seven_hops() -> None:
    ways = WALKS.split("\n## ")[1:]
    hops = {
        way.splitlines()[0]: [int(number) for number in re.findall(r"^\| (\d+) \|", way, re.MULTILINE)] for way in ways
    }
    assert [*hops] == ["A read", "A write", "A scan", "An offer", "Other places"]
    for way in ("A read", "A scan", "An offer"):
        assert hops[way] == [1, 2, 3, 4, 5, 6, 7]
    # Only the hops that differ from those of a read.
    assert {1, 2} < set(hops["A write"]) < {*hops["A read"]}
