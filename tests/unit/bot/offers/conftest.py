"""Fixtures of the tests of offers."""

from __future__ import annotations

import pytest

from freight_exchange.paging import end_signs


@pytest.fixture(autouse=True)
def short_sweeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """End sweeps a few pages past the end, not a hundred rows: those pages would be most requests of these tests.

    The tests of `paging` and of `endpoints` prove what a sweep finds there.
    """
    monkeypatch.setattr(end_signs, "_FURTHER_ROWS", 0)
