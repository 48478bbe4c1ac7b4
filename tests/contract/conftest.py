"""What the contract tests share: the cell that a test fills, and the report of a run."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from tests.contract.table import PROVED, REPORT, Column, Proof, report

HERE = Path(__file__).parent
TABLE = "test_every_cell_is_filled"

Fill = Callable[[str, Column, str], None]

_FILLED = pytest.StashKey[list[tuple[str, Column, str]]]()
_CHANGED = pytest.StashKey[dict[str, list[str]]]()


@pytest.fixture
def fill(request: pytest.FixtureRequest) -> Fill:
    """`fill(row, column, part)`: what this test proves, if it passes."""
    filled: list[tuple[str, Column, str]] = request.node.stash.setdefault(_FILLED, [])
    return lambda row, column, part: filled.append((row, column, part))


@pytest.fixture
def changes(request: pytest.FixtureRequest) -> Callable[[str, list[str]], None]:
    """`changes(value, replies)`: the replies that a value of a knob changes, if this test passes."""
    changed: dict[str, list[str]] = request.node.stash.setdefault(_CHANGED, {})
    return changed.__setitem__


def _proof(config: pytest.Config) -> Proof:
    return config.stash.setdefault(PROVED, Proof())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    told = yield
    if call.when == "call" and told.passed:
        proof = _proof(item.config)
        for row, column, part in item.stash.get(_FILLED, []):
            proof.add(row, column, part)
        changed: dict[str, list[str]] = item.stash.get(_CHANGED, {})
        proof.knobs.update(changed)
    return told


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The table is judged after all that fill it, and only where all of them were chosen."""
    table = [item for item in items if item.name == TABLE and item.path.parent == HERE]
    rest = [item for item in items if item not in table]
    chosen = {item.path for item in rest}
    whole = chosen >= {path for path in HERE.glob("test_*.py") if path.stem != "test_table"}
    narrowed = config.getoption("keyword") or any("::" in str(argument) for argument in config.args)
    if table and (narrowed or not whole):
        config.hook.pytest_deselected(items=table)
        table = []
    items[:] = [*rest, *table]


def pytest_sessionfinish(session: pytest.Session) -> None:
    proof = session.config.stash.get(PROVED, None)
    if proof is None:
        return
    path = session.config.rootpath / REPORT
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(report(proof), indent=1) + "\n")
