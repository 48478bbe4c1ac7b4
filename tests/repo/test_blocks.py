"""Code blocks of the README and the pages, which run as a reader runs them, and the tutorial, step by step."""

from __future__ import annotations

import faulthandler
import os
import re
import socket
import sys
from pathlib import Path

import pytest
from tools.pages import PAGES, WAYS, follow_tutorial, run_page, snippets_of


@pytest.fixture(autouse=True)
def _steps_have_timeouts_of_their_own() -> None:
    """Switch off the timeout of a test, which ends the process: each step has its own, and these add up."""
    faulthandler.cancel_dump_traceback_later()


SHOWN = [page for page in PAGES if {snippet.way for snippet in snippets_of(page)} - {"saved"}]


@pytest.mark.parametrize("page", SHOWN, ids=lambda page: page.stem)
def test_blocks_of_a_page_run(page: Path, tmp_path: Path) -> None:
    problems = run_page(page, tmp_path)
    assert {name: problem for name, problem in problems.items() if problem} == {}
    assert {*problems} == {snippet.name for snippet in snippets_of(page) if snippet.way != "saved"}
    if page.stem == "operate":
        (trace,) = re.findall(r"```text\n(.*?)```", page.read_text(), re.DOTALL)
        assert (tmp_path / "show_trace" / "output.txt").read_text() == trace


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("import nothing_of_that_name", "No module named 'nothing_of_that_name'"),
        ("total = 1", "nothing is printed"),
        ("import warnings\nprint(1)\nwarnings.warn('old')", "exit status 1"),
    ],
)
def test_block_that_a_reader_cannot_run_fails(code: str, problem: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"<!-- run: program -->\n```python\n{code}\n```\n")
    assert problem in run_page(page, tmp_path / "run")["page_1.py"]


def test_block_without_a_mark_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(1)\n```\n")
    with pytest.raises(ValueError, match="not marked"):
        snippets_of(page)


def test_blocks_are_usable_by_a_reader() -> None:
    names: list[str] = []
    for page in PAGES:
        text = page.read_text()
        assert not re.search(r"^ *\$ ", text, re.MULTILINE), f"{page}: a command copies with its prompt"
        for line in re.findall(r"pip install .*freight-exchange.*", text):
            assert "./freight-exchange" in line, f"{page}: the package is on no index: {line}"
        for snippet in snippets_of(page):
            names.append(snippet.name)
            assert snippet.way in WAYS
            if {"forwarder", "shipper"} & {*snippet.marks}:
                assert "freight-exchange sandbox" in text or "calls.md#run-the-programs" in text, page
            if snippet.way == "saved":
                assert f"`{snippet.name}`" in text or f'title="{snippet.name}"' in text, page
            # A bot runs under the main guard.
            assert not re.search(r"^\w+(\(.*\))?\.run\(", snippet.code, re.MULTILINE), snippet.name
    assert len(names) == len(set(names)), "a type checker reads all blocks in one folder"


def test_the_tutorial_to_the_letter(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    replaced = {
        "8765": port,
        "freight-exchange sandbox": f"freight-exchange sandbox --port {port}",
        ". .venv/bin/activate\n": "",
    }
    # What is installed here comes before the machine's own packages.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    # This project's own tests load a plugin that the reader does not have.
    environment = {"PATH": path, "PYTHONWARNINGS": "error", "PYTEST_ADDOPTS": "-p no:asyncio"}
    follow_tutorial(tmp_path, os.environ | environment, replaced)
