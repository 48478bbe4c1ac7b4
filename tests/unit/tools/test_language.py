"""Language of code and pages: length of files, openings of docstrings, and phrases to avoid (CONTRIBUTING, Style)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SOURCE = ROOT / "src" / "freight_exchange"
LONGEST_FILE = 300

QUESTION = re.compile(r"(what|whether|how|who|whom|whose|which|when|where|why)\b", re.IGNORECASE)
FRAGMENT = re.compile(r"(and|as|nor|or|such)\b", re.IGNORECASE)
QUOTED_OPENING = re.compile(rf"[\"']({QUESTION.pattern}|{FRAGMENT.pattern})", re.IGNORECASE)
"""A text without a match needs no parser."""
NOUN_PHRASE = re.compile(r"(the|a|an|every|each|all|one|none|whatever)\b", re.IGNORECASE)
# Also as a word of a test's name; not the user `nobody` of a system.
PHRASES = re.compile(
    r"(?<![a-z])(unless told|whoever|whatever|whichever|wherever|nobody(?![`:])|of which|thereby"
    r"|cannot be told(?! from)"
    r"|for ever|(the|its) begin|begin of|(an|the) own|replaces? [^.]{1,60} by(?! one)"
    r"|(?<!there )(is|are|was) no (positive|callable|text|number|URL|email|JSON|record|bid|database|file|failure|event)"
    r"|(\"{3}|: )(most|least) (seconds|rows|bytes|characters|pages|requests|records|calls|tries))(?![a-z])",
    re.IGNORECASE,
)

DEFINITION = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def files() -> Iterator[tuple[str, Path]]:
    for path in sorted(SOURCE.rglob("*.py")):
        yield path.relative_to(SOURCE).as_posix(), path


def phrases_in(name: str, text: str) -> Iterator[str]:
    if not PHRASES.search(text):
        return
    for number, line in enumerate(text.splitlines(), 1):
        if found := PHRASES.search(line):
            yield f"{name}:{number}: {found[0]!r}: {line.strip()}"


def definitions_in(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the node and the definitions in its statements. `ast.walk` would visit each expression too."""
    yield node
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        for statement in getattr(node, name, ()):
            yield from definitions_in(statement)


def docstrings_in(name: str, text: str) -> Iterator[tuple[str, bool, str]]:
    """Yield the place of each docstring, whether it is a function's own, and its first line."""
    for node in definitions_in(ast.parse(text)):
        for before, statement in pairwise([None, *getattr(node, "body", [])] if isinstance(node, DEFINITION) else ()):
            if not isinstance(before, None | ast.Assign | ast.AnnAssign):
                continue
            match statement:
                case ast.Expr(value=ast.Constant(value=str(docstring))):
                    own = before is None and is_function(node)
                    yield f"{name}:{statement.lineno}", own, docstring.splitlines()[0]


def openings_in(name: str, text: str) -> Iterator[str]:
    for place, _, first in docstrings_in(name, text) if QUOTED_OPENING.search(text) else ():
        if QUESTION.match(first):
            yield f"{place}: opens with a question word: {first}"
        if FRAGMENT.match(first):
            yield f"{place}: is a fragment of the line before: {first}"


def findings_in(name: str, text: str) -> Iterator[str]:
    yield from openings_in(name, text)
    for place, is_function_docstring, first in docstrings_in(name, text):
        if is_function_docstring and NOUN_PHRASE.match(first):
            yield f"{place}: a function's docstring opens with a noun phrase, not a verb: {first}"
    yield from phrases_in(name, text)


def is_function(node: ast.AST) -> bool:
    """Return whether it is a function, other than a property (a value) or a command (a help text)."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    return not re.search("property|command|group", " ".join(map(ast.unparse, node.decorator_list)))


def test_source_file_has_at_most_300_lines() -> None:
    long = {name for name, path in files() if len(path.read_text().splitlines()) > LONGEST_FILE}
    assert long == set()


def test_docstrings_and_phrases_are_plain() -> None:
    findings = [finding for name, path in files() for finding in findings_in(name, path.read_text())]
    assert findings == []


def test_tests_and_tools_are_plain() -> None:
    paths = [path for folder in ("benchmarks", "examples", "tests", "tools") for path in (ROOT / folder).rglob("*.py")]
    assert [
        finding
        for path in paths
        if path != Path(__file__).resolve()
        for check in (openings_in, phrases_in)
        for finding in check(str(path), path.read_text())
    ] == []


def test_pages_are_plain() -> None:
    pages = [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")]
    assert [
        finding for page in pages if page.name != "CHANGELOG.md" for finding in phrases_in(page.name, page.read_text())
    ] == []


@pytest.mark.parametrize(
    "text",
    [
        "kept for ever",
        "the begin of the window",
        "Begin of a failure.",
        "an own bid",
        "replace it by a number",
        "The index is no positive integer.",
        '"""Most seconds of a pause."""',
    ],
)
def test_finding_in_bad_phrase(text: str) -> None:
    assert [*phrases_in("x.py", text)]


@pytest.mark.parametrize(
    "text",
    [
        "for every row",
        "before they begin",
        "its own bids",
        "replace the replicas one by one",
        "it was replaced by a newer one",
        "there is no record",
        "it is no longer listed",
        "Most replies are short.",
    ],
)
def test_no_finding_in_good_phrase(text: str) -> None:
    assert [*phrases_in("x.py", text)] == []


def test_finding_in_bad_source() -> None:
    text = (
        '"""What it does."""\nX = 1\n"""How many."""\n'
        'def f():\n    """The result."""\n    # Whoever asks.\n'
        'class C:\n    """Or another."""\n    @property\n    def p(self):\n        """The result."""\n'
    )
    assert sorted(finding.split(":")[1] for finding in findings_in("x.py", text)) == ["1", "3", "5", "6", "8"]
