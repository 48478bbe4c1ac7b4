"""pytest plugin with the fixture `sandbox`, which needs no `conftest.py`.

pytest loads this file in every environment with the package. The sandbox is imported when a test uses it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from freight_exchange.testing import Sandbox

__all__ = ["sandbox"]


@pytest.fixture
def sandbox() -> Sandbox:
    """Freight exchange of one test."""
    from freight_exchange.testing import Sandbox

    return Sandbox()
