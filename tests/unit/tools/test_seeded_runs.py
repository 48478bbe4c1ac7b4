"""Tests of each part of the seeded runs: it makes runs, sums them up and checks them."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from tools.seeded_runs import PARTS, part


@pytest.fixture(autouse=True)
def logging_restored() -> Iterator[None]:
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("name", PARTS)
def test_runs_add_up_and_are_judged(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    one = part(name)
    only = next(iter(one.choices), "")
    total = one.merge(one.merge(None, one.run_chunk(range(1), only)), one.run_chunk(range(1, 2), only))
    one.is_clean(total)
    assert "2" in capsys.readouterr().out
