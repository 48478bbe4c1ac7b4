"""Language of code and pages (CONTRIBUTING, Style), and what no file of the project may name."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tools.pages import ROOT

CODE = [
    path for folder in ("src", "benchmarks", "examples", "tests", "tools") for path in (ROOT / folder).rglob("*.py")
]
OPENING = re.compile(
    r"(what|whether|how|who|whom|whose|which|when|where|why|and|as|nor|or|such)\b", re.IGNORECASE
)  # fmt: skip
# Also as a word of a test's name; not the user `nobody` of a system.
PHRASES = re.compile(
    r"(?<![a-z])(unless told|whoever|whatever|whichever|wherever|nobody(?![`:])|of which|thereby"
    r"|cannot be told(?! from)|for ever|(the|its) begin|begin of|(an|the) own)(?![a-z])",
    re.IGNORECASE,
)
HOSTS = re.compile(r"pypi\.org/simple|files\.pythonhosted\.org|(?<![\w.])/(?:work/\w|home/\w+/|Users/\w+/|root/\.)")
"""Package indexes, and places of one machine."""


def docstrings_in(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        for statement in getattr(node, "body", ()) if isinstance(getattr(node, "body", None), list) else ():
            match statement:
                case ast.Expr(value=ast.Constant(value=str(docstring))):
                    yield docstring.partition("\n")[0]


def phrases_in(name: str, text: str) -> list[str]:
    return [
        f"{name}: {found[0]!r}: {line.strip()}"
        for line in text.splitlines()
        if (found := PHRASES.search(line)) is not None
    ]


def openings_in(name: str, text: str) -> list[str]:
    # A text without a match needs no parser.
    if not re.search(rf"[\"']{OPENING.pattern}", text, re.IGNORECASE):
        return []
    return [f"{name}: {first}" for first in docstrings_in(ast.parse(text)) if OPENING.match(first)]


def test_docstrings_open_with_a_noun_phrase_or_a_verb() -> None:
    assert [finding for path in CODE for finding in openings_in(str(path), path.read_text())] == []


def test_code_and_pages_are_plain() -> None:
    pages = [page for page in (*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")) if page.name != "CHANGELOG.md"]
    paths = [path for path in (*CODE, *pages) if path != Path(__file__).resolve()]
    assert [finding for path in paths for finding in phrases_in(str(path), path.read_text())] == []


def test_no_file_names_a_package_index_or_a_place_of_one_machine() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    paths = [ROOT / name for name in listed.split("\0") if name and not name.endswith((".png", ".svg"))]
    # A tree without a repository, such as an unpacked archive, has no list.
    found = [str(path) for path in paths if path.is_file() and HOSTS.search(path.read_text(errors="replace"))]
    assert [path for path in found if Path(path) != Path(__file__).resolve()] == []


@pytest.mark.parametrize("text", ["kept for ever", "the begin of it", "an own bid", "unless told", "def whoever_asks"])
def test_bad_phrase_is_found(text: str) -> None:
    assert phrases_in("x.py", text)


@pytest.mark.parametrize("text", ["for every row", "before they begin", "its own bids", "user=`nobody`"])
def test_good_phrase_is_not(text: str) -> None:
    assert not phrases_in("x.py", text)


def test_bad_openings_are_found() -> None:
    text = '"""What it does."""\nclass C:\n    """Or another."""\n    def f(self):\n        """Return it."""\n'
    assert len(openings_in("x.py", text)) == 2
