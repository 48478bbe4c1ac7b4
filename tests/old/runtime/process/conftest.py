"""Fixture that ends the forking processes after each file of tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.old.runtime.processes import starters


@pytest.fixture(scope="module", autouse=True)
def starters_end() -> Iterator[None]:
    with starters():
        yield
