"""Tests of the documentation: every page is in the menu, every link works, every public name is found.

They read only the sources, without a network or the site generator.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
import textwrap
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from tools.check_site import problems
from tools.watcher_table import ALGORITHMS, COLUMNS

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
OUTSIDE = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")]
PUBLIC = (
    "freight_exchange",
    "freight_exchange.bot",
    "freight_exchange.cargo",
    "freight_exchange.errors",
    "freight_exchange.hooks",
    "freight_exchange.models",
    "freight_exchange.options",
    "freight_exchange.otel",
    "freight_sandbox",
    "freight_sandbox.board",
    "freight_sandbox.journal",
    "freight_sandbox.server",
    "freight_exchange.store",
    "freight_exchange.store.protocol",
    "freight_exchange.store.work",
    "freight_exchange.testing",
)
FENCE = re.compile(r"^ *(`{3,}).*?^ *\1`*$", re.DOTALL | re.MULTILINE)
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
LINK = re.compile(
    r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\((?P<target>[^()\s]+)(?: \"[^\"]*\")?\)|(?:href|src)=\"(?P<html>[^\"]+)\""
)
INCLUDED = re.compile(r'^ *--8<-- "(?P<path>[^"]+)"$', re.MULTILINE)
SHOWN = re.compile(r"^ *--8<--\n *(?P<path>\S+)\n *--8<--$", re.MULTILINE)
DIRECTIVE = re.compile(r"^::: (?P<path>\S+)$", re.MULTILINE)


def text_of(page: Path) -> str:
    """Return the text of the page with its included files, without its blocks of code."""
    text = INCLUDED.sub(lambda match: (ROOT / match["path"]).read_text(), FENCE.sub("", page.read_text()))
    return COMMENT.sub("", FENCE.sub("", text))


def links_of(page: Path) -> list[str]:
    prose = re.sub(r"`[^`\n]*`", "code", text_of(page))
    return [match["target"] or match["html"] for match in LINK.finditer(prose)]


def anchors_of(page: Path) -> set[str]:
    """Return the anchors of the page's headings and of the names that it documents."""
    text = text_of(page)
    found: set[str] = set()
    for heading in re.findall(r"^#+ +(.*)$", text, re.MULTILINE):
        slug, number = slug_of(heading), 0
        while slug in found:
            number += 1
            slug = f"{slug_of(heading)}_{number}"
        found.add(slug)
    return found | set(DIRECTIVE.findall(text))


def slug_of(heading: str) -> str:
    if (named := re.search(r"\{ *#([\w-]+) *\}", heading)) is not None:
        return named[1]
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "")
    ascii_only = unicodedata.normalize("NFKD", plain).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", ascii_only).strip().lower())


def is_documented(page: Path, anchor: str) -> bool:
    """Return whether the anchor is a member of something that the page documents."""
    return any(
        anchor.startswith(f"{path}.") and hasattr(found(path), anchor[len(path) + 1 :])
        for path in DIRECTIVE.findall(page.read_text())
    )


def found(path: str) -> object:
    """Return the object of a dotted path."""
    parts = path.split(".")
    for length in range(len(parts), 0, -1):
        try:
            thing: object = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            thing = getattr(thing, part)
        return thing
    raise AssertionError(f"there is no {path}")


def menu() -> list[str]:
    """Return the pages of the menu in order."""
    text = (ROOT / "mkdocs.yml").read_text()
    (nav,) = re.findall(r"^nav:\n((?:  .*\n|\n)+)", text, re.MULTILINE)
    return re.findall(r"(\S+\.md)$", nav, re.MULTILINE)


def documented() -> dict[str, Path]:
    """Return the names that the reference documents, each with its page."""
    pages = [DOCS / page for page in menu() if page.startswith("reference/")]
    return {path: page for page in pages for path in DIRECTIVE.findall(page.read_text())}


def public_names() -> Iterator[str]:
    for module in PUBLIC:
        yield from (f"{module}.{name}" for name in importlib.import_module(module).__all__ if name != "__version__")


def test_every_page_is_in_the_menu_once() -> None:
    assert sorted(menu()) == [str(page.relative_to(DOCS)) for page in PAGES]


def test_the_menu_gives_no_page_a_second_name() -> None:
    """The menu shows the heading of a page."""
    assert re.findall(r"^ +- .+: +\S+\.md$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_every_page_begins_with_its_title_and_has_text(page: Path) -> None:
    text = INCLUDED.sub(lambda match: (ROOT / match["path"]).read_text(), page.read_text())
    assert re.match(r"# \S", text)
    assert len(text.splitlines()) > 5


@pytest.mark.parametrize("page", [*PAGES, *OUTSIDE], ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in links_of(page):
        if re.match(r"(https?|mailto):", target):
            continue
        path, _, anchor = target.partition("#")
        assert not path.startswith("/"), f"{target} is right on one host only"
        # The changelog is written at the root, and shown among the pages.
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), f"{target} leads nowhere"
        if anchor and there.suffix == ".md":
            assert anchor in anchors_of(there) or is_documented(there, anchor), f"{target}: no such heading"
        if page.is_relative_to(DOCS):
            assert there.is_relative_to(DOCS), f"{target} is not part of the site"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_nothing_is_fetched_from_elsewhere(page: Path) -> None:
    assert not re.search(r"!\[[^\]]*\]\(https?:|src=\"https?:|@import", text_of(page))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_every_file_that_a_page_shows_is_there(page: Path) -> None:
    text = page.read_text()
    files = [match["path"] for match in (*INCLUDED.finditer(text), *SHOWN.finditer(text))]
    assert all((ROOT / file).is_file() for file in files)
    assert 2 * len([*SHOWN.finditer(text)]) + len([*INCLUDED.finditer(text)]) == text.count("8<")


def test_the_reference_has_every_public_name() -> None:
    there = [found(path) for path in documented()]
    # A name of another module for a thing that is documented will do.
    missing = [name for name in public_names() if not any(found(name) is thing for thing in there)]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_imports_of_pages_are_in_the_reference(page: Path) -> None:
    there = [found(path) for path in documented()]
    for code in re.findall(r"^ *```python[^\n]*\n(.*?)^ *```", page.read_text(), re.DOTALL | re.MULTILINE):
        if "--8<--" in code:
            continue
        for node in ast.walk(ast.parse(textwrap.dedent(code), feature_version=(3, 11))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("freight_exchange"):
                for name in node.names:
                    thing = found(f"{node.module}.{name.name}")
                    assert inspect.ismodule(thing) or any(thing is known for known in there), name.name


def test_the_reference_has_nothing_that_is_gone_and_nothing_twice() -> None:
    paths = [path for page in (DOCS / "reference").glob("*.md") for path in DIRECTIVE.findall(page.read_text())]
    assert len(paths) == len(set(paths)) > 100
    for path in paths:
        found(path)


@pytest.mark.parametrize("path", [path for path in documented() if inspect.isclass(found(path))])
def test_docstrings_name_existing_parameters_and_attributes(path: str) -> None:
    thing = found(path)
    assert inspect.isclass(thing)
    assert thing.__doc__, "no docstring"
    functions = [member for _, member in inspect.getmembers(thing, inspect.isfunction)]
    known = set(dir(thing)) | _fields(thing) | set(inspect.signature(thing.__init__).parameters)
    assert not _named(thing.__doc__) - known, "the class has no such parameter or attribute"
    for function in functions:
        unknown = _named(function.__doc__ or "") - set(inspect.signature(function).parameters)
        assert not unknown, f"{function.__qualname__} has no such parameter"


def _fields(thing: type) -> set[str]:
    own = {name for owner in thing.__mro__ for name in getattr(owner, "__annotations__", {})}
    return own | set(re.findall(r"self\.(\w+)", inspect.getsource(thing)))


def _named(docstring: str) -> set[str]:
    """Return the names under `Args:` and `Attributes:`; several can share a line."""
    sections = re.findall(
        r"^(?:Args|Attributes):\n((?:    .*\n|\n)+)", f"{inspect.cleandoc(docstring)}\n", re.MULTILINE
    )
    lines = (line for section in sections for line in re.findall(r"^    (\w+(?:, \w+)*):", section, re.MULTILINE))
    return {name for line in lines for name in line.split(", ")}


def test_the_tree_of_errors_is_the_one_that_there_is() -> None:
    errors = importlib.import_module("freight_exchange.errors")
    page = (DOCS / "reference" / "errors.md").read_text()
    (tree,) = re.findall(r"```\n(FreightExchangeError\n.*?)```", page, re.DOTALL)
    parents: dict[int, str] = {}
    drawn: dict[str, str] = {}
    doubtful: set[str] = set()
    for line in tree.splitlines():
        name = re.search(r"\w+", line)
        assert name is not None
        parents[name.start() // 4] = name[0]
        if name.start():
            drawn[name[0]] = parents[name.start() // 4 - 1]
        if "may have taken effect" in line:
            doubtful.add(name[0])
    kinds = {name: getattr(errors, name) for name in errors.__all__}
    assert drawn == {name: kind.__base__.__name__ for name, kind in kinds.items() if name != "FreightExchangeError"}
    assert doubtful == {name for name, kind in kinds.items() if kind.may_have_taken_effect}


def test_the_pages_of_the_reference_introduce_their_content() -> None:
    index = (DOCS / "reference" / "index.md").read_text()
    assert set(re.findall(r"\]\((\w+\.md)\)", index)) == {
        page.name for page in (DOCS / "reference").glob("*.md") if page.name != "index.md"
    }


def test_the_measured_table_is_the_one_that_was_measured() -> None:
    page = (DOCS / "watcher-measurements.md").read_text()
    kept = (DOCS / "data" / "watcher-table.txt").read_text().strip().split("\n\n")
    missed, twice, calls, latency = kept
    for table in (missed, calls, latency):
        assert table in page
    assert all(cell == "0" for row in twice.splitlines()[2:] for cell in row.split(" | ")[1:-1]), "the page claims this"
    runs = json.loads((DOCS / "data" / "watcher-table.json").read_text())
    assert len(runs) == len(ALGORITHMS) * len(COLUMNS) * 4 * 4
    for row in missed.splitlines()[2:]:
        name, *cells = row.strip("| ").split(" | ")
        for column, cell in zip(COLUMNS, cells, strict=True):
            some = [run for run in runs if (run["algorithm"], run["column"]) == (name, column)]
            share = 100 * sum(run["missed"] for run in some) / sum(run["requests"] for run in some)
            assert cell in ("0" if share == 0 else "", f"{share:.1f} %") or f"({share:.2g} %)" in cell


def test_the_table_of_the_feed_of_offers_is_the_one_that_was_measured() -> None:
    kept = (DOCS / "data" / "offers-table.txt").read_text()
    assert kept in (DOCS / "tender.md").read_text()
    feed, naive = (row.strip("| ").split(" | ")[3:] for row in kept.splitlines()[2:])
    assert set(feed) == {"0"}
    assert int(naive[-1]) > 0


def test_the_watchers_long_run_is_the_one_that_was_measured() -> None:
    page = (DOCS / "watcher-measurements.md").read_text()
    tables = (DOCS / "data" / "watcher-long.txt").read_text().strip().split("\n\n")
    assert len(tables) == 3
    assert all(table in page for table in tables)


def test_the_growth_of_a_store_is_the_one_that_was_measured() -> None:
    page = (DOCS / "months.md").read_text()
    kept = (DOCS / "data" / "bot-months.txt").read_text()
    measured = {row.split(" | ")[0].strip("| "): row.split(" | ") for row in kept.splitlines() if row.startswith("| ")}
    rows = [re.findall(rf"^\| {name}.*$", page, re.MULTILINE)[0] for name in ("Day", "File, MB", "Memory of")]
    days, files, memory = [row.strip("| ").split(" | ")[1:] for row in rows]
    assert [measured[day][3] for day in days] == files
    assert [measured[day][1] for day in days] == memory


@pytest.mark.parametrize("drawing", sorted(DOCS.rglob("watermark.svg")), ids=lambda path: path.name)
def test_drawings_have_descriptions_and_dark_colours(drawing: Path) -> None:
    image = ET.fromstring(drawing.read_text())
    reported = {element.get("id"): element.text for element in image if element.get("id")}
    assert all(reported[name] for name in (image.get("aria-labelledby") or "").split())
    assert "prefers-color-scheme: dark" in drawing.read_text()
    assert "http" not in drawing.read_text().replace("http://www.w3.org/2000/svg", "")


def test_the_drawing_of_the_watermark_is_drawn_to_scale() -> None:
    """One second is 4.4 units, and second 0 is at 210: a window begins 20 s before the watermark."""
    image = ET.fromstring((DOCS / "img" / "watermark.svg").read_text())
    bars = [
        (kind, round((float(bar.get("x", 0)) - 210) / 4.4), round(float(bar.get("width", 0)) / 4.4))
        for bar in image.iter("{http://www.w3.org/2000/svg}rect")
        if (kind := bar.get("class")) and float(bar.get("y", 0)) < 300
    ]
    assert bars == [
        ("further", -20, 20),
        ("window", 0, 30),
        ("further", 10, 20),
        ("window", 30, 30),
        ("failed", 40, 50),
        ("further", 40, 20),
        ("window", 60, 60),
    ]


SITE = """<html><head><link rel="stylesheet" href="style.css"></head><body><h1 id="here">T</h1>{}</body></html>"""


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ('<a href="gone.html">x</a>', "gone.html leads nowhere"),
        ('<a href="#there">x</a>', "#there leads to no such place on its page"),
        ('<a href="#here">x</a>', None),
        ('<a href="https://elsewhere.example">x</a>', None),
        ('<img src="https://elsewhere.example/a.png">', "a browser fetches https://elsewhere.example/a.png"),
        ('<script src="//elsewhere.example/a.js"></script>', "a browser fetches //elsewhere.example/a.js"),
    ],
)
def test_the_built_site_is_looked_over(body: str, problem: str | None, tmp_path: Path) -> None:
    (tmp_path / "style.css").write_text("body { color: black }")
    (tmp_path / "index.html").write_text(SITE.format(body))
    (tmp_path / "reference").mkdir()
    names = (f'<p id="{name}"></p>' for name in public_names())
    (tmp_path / "reference" / "all.html").write_text("".join(names))
    assert problems(tmp_path) == ([] if problem is None else [f"index.html: {problem}"])


def test_a_built_reference_that_lacks_a_name_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "reference").mkdir()
    (tmp_path / "reference" / "all.html").write_text('<p id="freight_exchange.Bot"></p>')
    found = problems(tmp_path)
    assert "reference: Feed is missing" in found
    assert "reference: Bot is missing" not in found
