"""What every test shares: two backends, virtual time for those that ask for it, Hypothesis' settings."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, Literal

import hypothesis
import pytest

from freight_exchange._virtual_time import virtual_time_options

# A browser's tests need what only `make test-browser` installs.
collect_ignore = [] if find_spec("playwright") else ["browser"]

# A deadline measures the machine and not the code.
hypothesis.settings.register_profile("project", deadline=None)
hypothesis.settings.load_profile("project")


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str | tuple[str, dict[str, Any]]:
    """Each async test runs on both backends; under `@pytest.mark.virtual_time`, with clocks that jump."""
    backend: Literal["asyncio", "trio"] = request.param
    if request.node.get_closest_marker("virtual_time") is None:
        return backend
    return backend, virtual_time_options(backend)
