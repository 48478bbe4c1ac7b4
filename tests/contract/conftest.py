"""Fixtures that record what a contract test proves, and the report of a run."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from tests.contract.coverage import PROVED, REPORT, Column, Proof, report

HERE = Path(__file__).parent
COVERAGE_TEST = "test_every_cell_is_filled"

Fill = Callable[[str, Column, str], None]

_FILLED = pytest.StashKey[list[tuple[str, Column, str]]]()
_CHANGED = pytest.StashKey[dict[str, list[str]]]()


@pytest.fixture
def fill(request: pytest.FixtureRequest) -> Fill:
    """Record that this test, if it passes, fills a part of a cell: `fill(row, column, part)`."""
    filled: list[tuple[str, Column, str]] = request.node.stash.setdefault(_FILLED, [])
    return lambda row, column, part: filled.append((row, column, part))


@pytest.fixture
def changes(request: pytest.FixtureRequest) -> Callable[[str, list[str]], None]:
    """Record the replies that a value of a knob changes, if this test passes: `changes(value, replies)`."""
    changed: dict[str, list[str]] = request.node.stash.setdefault(_CHANGED, {})
    return changed.__setitem__


def _proof(config: pytest.Config) -> Proof:
    return config.stash.setdefault(PROVED, Proof())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    test_report = yield
    if call.when == "call" and test_report.passed:
        proof = _proof(item.config)
        for row, column, part in item.stash.get(_FILLED, []):
            proof.add(row, column, part)
        changed: dict[str, list[str]] = item.stash.get(_CHANGED, {})
        proof.knobs.update(changed)
    return test_report


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run the coverage test after the tests that fill cells, and only if all of those were selected."""
    coverage = [item for item in items if item.name == COVERAGE_TEST and item.path.parent == HERE]
    rest = [item for item in items if item not in coverage]
    selected = {item.path for item in rest}
    is_complete = selected >= {path for path in HERE.glob("test_*.py") if path.stem != "test_coverage"}
    is_narrowed = config.getoption("keyword") or any("::" in str(argument) for argument in config.args)
    if coverage and (is_narrowed or not is_complete):
        config.hook.pytest_deselected(items=coverage)
        coverage = []
    items[:] = [*rest, *coverage]


def pytest_sessionfinish(session: pytest.Session) -> None:
    proof = session.config.stash.get(PROVED, None)
    if proof is None:
        return
    path = session.config.rootpath / REPORT
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(report(proof), indent=1) + "\n")
