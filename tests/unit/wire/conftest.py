"""What the tests of the wire share."""

from __future__ import annotations

import pytest

from freight_exchange.wire import records
from freight_exchange.wire.converter import Shape


@pytest.fixture(autouse=True)
def no_hooks() -> None:
    """Each test meets every shape for the first time: made-up ones of another would use up the places."""
    for shape in vars(records).values():
        if isinstance(shape, Shape):
            shape.forget()
