"""What every test shares: two backends, virtual time for those that ask for it, Hypothesis' settings."""

from __future__ import annotations

import logging
from importlib.util import find_spec
from typing import Any, Literal

import hypothesis
import pytest

from freight_exchange.sandbox.faces.tcp_server import LOGGER
from freight_exchange.testing.virtual_time import virtual_time_options

# A browser's tests need what only `make test-browser` installs.
collect_ignore = [] if find_spec("playwright") else ["browser"]

# A deadline measures the machine and not the code. `make test` judges a change by the same examples each time;
# `make test-search` looks for what no run has met yet.
hypothesis.settings.register_profile("project", deadline=None, derandomize=True)
hypothesis.settings.register_profile("search", deadline=None)
hypothesis.settings.load_profile("project")


class Loud(logging.Handler):
    """A flaw of the sandbox's server ends the test that met it: its clients would take the 500 for the weather."""

    def emit(self, record: logging.LogRecord) -> None:
        raise AssertionError(record.getMessage())


logging.getLogger(LOGGER).addHandler(Loud())


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str | tuple[str, dict[str, Any]]:
    """Each async test runs on both backends; under `@pytest.mark.virtual_time`, with clocks that jump."""
    backend: Literal["asyncio", "trio"] = request.param
    if request.node.get_closest_marker("virtual_time") is None:
        return backend
    return backend, virtual_time_options(backend)
