"""Fixture of the tests of feeds: each test draws the same jitter each time."""

from __future__ import annotations

import random

import pytest


@pytest.fixture(autouse=True)
def same_jitter() -> None:
    """Seed the random module, from which a feed draws its phase."""
    random.seed(1)
