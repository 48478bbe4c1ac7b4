"""Fixtures of the HTTP tests."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.transport.http.adapter_rig import LIBRARIES


@pytest.fixture(params=LIBRARIES, ids=lambda library: library.__name__)
def library(request: pytest.FixtureRequest) -> Any:
    return request.param
