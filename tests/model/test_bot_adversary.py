"""Bots in the adversary's scenarios: no offer too many, no wrong price, no delivery lost."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.model.bot_adversary import run, scenario_names

_HAS_UNIT_TESTS = {
    "own bids are not listed for ten minutes": "offers/test_in_doubt.py",
    "handlers renamed, reordered and split between deploys": "offers/test_redelivery.py",
    "two machines with two stores on one account": "offers/test_existing_bids.py",
}
"""Slow scenarios whose rule a file of `tests/unit/bot` also tests: they run only with many seeds."""


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Disable the log: failures are frequent and intended."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("name", [name for name in scenario_names() if name not in _HAS_UNIT_TESTS])
def test_scenario_breaks_no_promise(name: str) -> None:
    result = run(name, 1)
    assert not result.flaws


def test_scenarios_left_to_many_seeds_exist_and_have_unit_tests() -> None:
    assert {*_HAS_UNIT_TESTS} < {*scenario_names()}
    folder = Path(__file__).parents[1] / "unit" / "bot"
    assert all((folder / file).exists() for file in _HAS_UNIT_TESTS.values())


@pytest.mark.long
@pytest.mark.parametrize("name", scenario_names())
def test_scenario_breaks_no_promise_with_many_seeds(name: str) -> None:
    flaws = {seed: result.flaws for seed in range(30) if (result := run(name, seed)).is_bad}
    assert not flaws


@pytest.mark.parametrize("seed", [1, 9], ids=["asyncio", "trio"])
def test_run_can_be_played_again(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    logging.disable(logging.NOTSET)
    reported = []
    for _ in range(2):
        caplog.clear()
        with caplog.at_level(logging.INFO):
            run("clocks jump", seed)
        reported.append(caplog.messages)
    assert reported[0] == reported[1] != []
