"""Bots in the adversary's scenarios: no offer too many, no wrong price, no delivery lost."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from tests.model.bot_adversary import run, scenario_names


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """No log: the troubles are many, and meant."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("name", scenario_names())
def test_scenario_breaks_no_promise(name: str) -> None:
    verdict = run(name, 1)
    assert not verdict.flaws


@pytest.mark.long
@pytest.mark.parametrize("name", scenario_names())
def test_scenario_breaks_no_promise_with_many_seeds(name: str) -> None:
    flaws = {seed: verdict.flaws for seed in range(30) if (verdict := run(name, seed)).is_bad}
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
