"""Tests of each Python block of the README and the pages, which runs as a reader runs it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tools.snippets.environments import ForkServer, link_environment
from tools.snippets.pages import PAGES, ROOT, WAYS, requirements_of, snippets_of
from tools.snippets.scenarios import run_page

SHOWN = [page for page in PAGES if {snippet.way for snippet in snippets_of(page)} - {"saved"}]
"""Pages with blocks that run. `test_tutorial.py` runs those of the tutorial step by step."""


@pytest.fixture(scope="module")
def server_for(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[frozenset[str]], ForkServer]]:
    """Return the fork server of the environment with a page's packages."""
    servers: dict[frozenset[str], ForkServer] = {}
    with ExitStack() as stack:

        def find(requirements: frozenset[str]) -> ForkServer:
            if requirements not in servers:
                python = link_environment(tmp_path_factory.mktemp("environment"), requirements)
                servers[requirements] = stack.enter_context(ForkServer(python))
            return servers[requirements]

        yield find


@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
@pytest.mark.parametrize("page", SHOWN, ids=lambda page: page.stem)
async def test_blocks_of_a_page_run(
    page: Path, server_for: Callable[[frozenset[str]], ForkServer], tmp_path: Path
) -> None:
    outcomes = await run_page(page, server_for(requirements_of(page)), tmp_path)
    failed = [f"{outcome.snippet.name}: {outcome.problem}\n{outcome.output}" for outcome in outcomes if outcome.problem]
    assert not failed, "\n\n".join(failed)
    run = [snippet for snippet in snippets_of(page) if snippet.way != "saved"]
    assert {outcome.snippet.name for outcome in outcomes} == {snippet.name for snippet in run}


@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
@pytest.mark.parametrize(
    ("code", "problem", "output"),
    [
        ("import trio\nprint(trio)", "exit status 1", "No module named 'trio'"),
        ("async with None:\n    print(1)", "exit status 1", "'async with' outside async function"),
        ("total = 1", "nothing is printed", ""),
    ],
    ids=["not installed", "no program", "silent"],
)
async def test_block_that_a_reader_cannot_run_fails(
    code: str, problem: str, output: str, server_for: Callable[[frozenset[str]], ForkServer], tmp_path: Path
) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"<!-- run: program -->\n```python\n{code}\n```\n")
    (outcome,) = await run_page(page, server_for(requirements_of(page)), tmp_path / "run")
    assert outcome.problem == problem
    assert output in outcome.output


def test_block_without_a_mark_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(1)\n```\n")
    with pytest.raises(ValueError, match="not marked"):
        snippets_of(page)


def test_marks_name_ways_that_exist_and_files_that_differ() -> None:
    snippets = [snippet for page in PAGES for snippet in snippets_of(page)]
    assert {snippet.way for snippet in snippets} == {*WAYS}
    names = [snippet.name for snippet in snippets]
    assert sorted(names) == sorted({*names}), "a type checker reads all blocks in one folder"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_starts_the_sandbox_that_its_programs_need(page: Path) -> None:
    if any({"forwarder", "shipper"} & {*snippet.marks} for snippet in snippets_of(page)):
        text = page.read_text()
        assert "freight-exchange sandbox" in text or "calls.md#run-the-programs" in text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_saved_block_is_named_by_a_page(page: Path) -> None:
    """A reader has to know the name of a file that another block continues."""
    for snippet in snippets_of(page):
        if snippet.way == "saved":
            assert f"`{snippet.name}`" in page.read_text() or f'title="{snippet.name}"' in page.read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_bot_runs_under_the_main_guard(page: Path) -> None:
    for snippet in snippets_of(page):
        assert not re.search(r"^\w+(\(.*\))?\.run\(", snippet.code, re.MULTILINE), snippet.name


def test_install_lines_work_while_the_package_is_on_no_index() -> None:
    for page in PAGES:
        for line in re.findall(r"pip install .*freight-exchange.*", page.read_text()):
            assert re.search(r"\./freight-exchange", line), f"{page}: {line}"


def test_commands_copy_without_the_prompt() -> None:
    for page in [*PAGES, ROOT / "CONTRIBUTING.md"]:
        assert not re.search(r"^ *\$ ", page.read_text(), re.MULTILINE), page
