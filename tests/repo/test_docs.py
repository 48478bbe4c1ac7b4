"""Pages: every link works, every page is in the menu, every public name is documented and exists."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import textwrap
import unicodedata
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from tools.pages import ROOT

from freight_exchange import Bot, Context, RateRequest, Router

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
OUTSIDE = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("[de]*/README.md"))]
PUBLIC = (
    "freight_exchange",
    *(f"freight_exchange.{name}" for name in ("bot", "bulk", "cargo", "errors", "hooks", "models", "options", "otel")),
    *(f"freight_exchange.{name}" for name in ("store", "testing")),
)
FENCE = re.compile(r"^ *(`{3,}).*?^ *\1`*$", re.DOTALL | re.MULTILINE)
LINK = re.compile(
    r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\((?P<target>[^()\s]+)(?: \"[^\"]*\")?\)|(?:href|src)=\"(?P<html>[^\"]+)\""
)
INCLUDED = re.compile(r'^ *--8<-- "(?P<path>[^"]+)"$', re.MULTILINE)
SHOWN = re.compile(r"^ *--8<--\n *(?P<path>\S+)\n *--8<--$", re.MULTILINE)
DIRECTIVE = re.compile(r"^::: (?P<path>\S+)$", re.MULTILINE)


def text_of(page: Path) -> str:
    """Return the text of the page with its included files, without its blocks of code and comments."""
    text = INCLUDED.sub(lambda match: (ROOT / match["path"]).read_text(), FENCE.sub("", page.read_text()))
    return re.sub(r"<!--.*?-->", "", FENCE.sub("", text), flags=re.DOTALL)


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


def documented() -> list[str]:
    return [path for page in (DOCS / "api").glob("*.md") for path in DIRECTIVE.findall(page.read_text())]


def is_member(page: Path, anchor: str) -> bool:
    """Return whether the anchor is a member of something that the page documents."""
    return any(
        anchor.startswith(f"{path}.") and hasattr(found(path), anchor[len(path) + 1 :])
        for path in DIRECTIVE.findall(page.read_text())
    )


def test_every_page_is_in_the_menu_once_with_its_title() -> None:
    menu = re.findall(r"^ +- (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(menu) == [str(page.relative_to(DOCS)) for page in PAGES]
    for page in PAGES:
        text = INCLUDED.sub(lambda match: (ROOT / match["path"]).read_text(), page.read_text())
        assert re.match(r"# \S", text), page


@pytest.mark.parametrize("page", [*PAGES, *OUTSIDE], ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_and_shown_file_is_there(page: Path) -> None:
    text = page.read_text()
    for match in (*INCLUDED.finditer(text), *SHOWN.finditer(text)):
        assert (ROOT / match["path"]).is_file()
    for match in LINK.finditer(re.sub(r"`[^`\n]*`", "code", text_of(page))):
        target = match["target"] or match["html"]
        is_image = match[0].startswith("!") or match[0].startswith("src")
        if re.match(r"(https?|mailto):", target):
            assert not is_image, f"a browser fetches {target} from elsewhere"
            continue
        path, _, anchor = target.partition("#")
        # The changelog is written at the root, and shown among the pages.
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), f"{target} leads nowhere"
        if anchor and there.suffix == ".md":
            assert anchor in anchors_of(there) or is_member(there, anchor), f"{target}: no such heading"
        if page.is_relative_to(DOCS):
            assert there.is_relative_to(DOCS), f"{target} is not part of the site"


def test_reference_has_every_public_name_once() -> None:
    paths = documented()
    assert len(paths) == len(set(paths)) > 100
    there = [found(path) for path in paths]
    names = [f"{module}.{name}" for module in PUBLIC for name in importlib.import_module(module).__all__]
    # A name of another module for a thing that is documented will do.
    missing = [name for name in names if not any(found(name) is thing for thing in there)]
    assert [name for name in missing if not name.endswith("__version__")] == []


def imports_of(page: Path) -> Iterator[tuple[str, str]]:
    for code in re.findall(r"^ *```python[^\n]*\n(.*?)^ *```", page.read_text(), re.DOTALL | re.MULTILINE):
        for node in ast.walk(ast.parse(textwrap.dedent(code))) if "--8<--" not in code else ():
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("freight_exchange"):
                yield from ((str(node.module), name.name) for name in node.names)


def test_pages_import_only_what_the_reference_documents() -> None:
    there = [found(path) for path in documented()]
    for page in PAGES:
        for module, name in imports_of(page):
            thing = found(f"{module}.{name}")
            assert inspect.ismodule(thing) or any(thing is known for known in there), f"{page.name}: {module}.{name}"


def named(docstring: str) -> set[str]:
    """Return the names under `Args:` and `Attributes:`; several can share a line."""
    sections = re.findall(
        r"^(?:Args|Attributes):\n((?:    .*\n|\n)+)", f"{inspect.cleandoc(docstring)}\n", re.MULTILINE
    )
    lines = (line for section in sections for line in re.findall(r"^    (\w+(?:, \w+)*):", section, re.MULTILINE))
    return {name for line in lines for name in line.split(", ")}


def test_docstrings_name_existing_parameters_and_attributes() -> None:
    for path in documented():
        thing = found(path)
        if not inspect.isclass(thing):
            continue
        assert thing.__doc__, path
        known = {*dir(thing), *inspect.signature(thing.__init__).parameters}
        known |= {name for owner in thing.__mro__ for name in getattr(owner, "__annotations__", {})}
        known |= {*re.findall(r"self\.(\w+)", inspect.getsource(thing))}
        assert named(thing.__doc__) <= known, path
        for name, function in inspect.getmembers(thing, inspect.isfunction):
            assert named(function.__doc__ or "") <= {*inspect.signature(function).parameters}, f"{path}.{name}"


def test_page_of_bots_lists_each_option_with_its_default() -> None:
    """Fault 32: a value, and not the name of a constant."""
    page = (DOCS / "bot.md").read_text()
    words = {"required": inspect.Parameter.empty, "none": None, "`interval`": None}
    units = {"s": 1, "min": 60, "days": 86400}

    def default(cell: str) -> object:
        if (duration := re.fullmatch(r"(\d+) (s|min|days)", cell)) is not None:
            return timedelta(seconds=int(duration[1]) * units[duration[2]])
        return words[cell] if cell in words else ast.literal_eval(cell.strip("`"))

    table = page[page.index("| Option | Default |") :].split("\n\n")[0].splitlines()[2:]
    rows = [[cell.strip().split(", ") for cell in row.split("|")[1:3]] for row in table]
    listed = {name.strip("`"): default(cell) for names, cells in rows for name, cell in zip(names, cells, strict=True)}
    parameters = [*inspect.signature(Bot).parameters.values()]
    assert listed == {one.name: one.default for one in parameters if one.name != "exchange"}
    router = Router()

    @router.on_new
    async def quote(request: RateRequest, ctx: Context) -> None: ...

    (handler,) = router
    sentence = f"`retries=` (default {handler.retries}), `timeout=` (default {handler.timeout / 60:g} minutes)"
    assert f"`id=` (default the function's `__qualname__`), {sentence}" in page


def test_page_of_errors_lists_each_error_and_exit_status() -> None:
    from freight_exchange.cli.run import Status, status_of

    errors = importlib.import_module("freight_exchange.errors")
    page = (DOCS / "failures.md").read_text()

    def rows(heading: str) -> dict[str, list[str]]:
        below = page[page.index(f"\n{heading}") :]
        table = below[below.index("|---") :].split("\n\n")[0].splitlines()[1:]
        cells = [[cell.strip() for cell in row.strip("|").split(" | ")] for row in table]
        return {first.strip("` "): rest for first, *rest in cells}

    assert {*rows("## Errors")} == {*errors.__all__}
    assert [*map(int, rows("## Exit statuses of commands"))] == sorted(Status)
    for name, (_, effect, *_, statuses) in rows("## Errors").items():
        kind = getattr(errors, name)
        assert effect == ("perhaps" if kind.may_have_taken_effect else "no") or name == "FreightExchangeError"
        examples = [kind("why"), kind("why"), kind("why")]
        examples[1].path, examples[2].permanent, examples[2].retry_after = "login", True, 5.0
        possible = {status_of(example) for example in examples} - {None}
        assert {*map(int, re.findall(r"\d+", statuses))} == possible, name
