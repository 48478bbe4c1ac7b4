"""Fixtures of the bot's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from freight_exchange.paging.core import end_signs
from freight_exchange.store import MemoryStore
from freight_exchange.testing import Sandbox


@pytest.fixture
def sandbox() -> Sandbox:
    return Sandbox()


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    """Store that outlives the bots that use it, as a file outlives a restart."""
    store = MemoryStore()
    yield store
    store.close()


@pytest.fixture(autouse=True)
def short_sweeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """End sweeps a few pages past the end instead of a hundred rows, which would cost most requests of these tests.

    The tests of `paging` and of `endpoints` prove what a sweep finds there.
    """
    monkeypatch.setattr(end_signs, "_FURTHER_ROWS", 0)
