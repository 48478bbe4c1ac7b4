"""Fixtures of the tests of shared logins."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from freight_exchange.platform import clock
from freight_exchange.transport.auth.token_store import TokenFile


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of the token file."""
    return tmp_path / "token.json"


@pytest.fixture
def store(path: Path) -> TokenFile:
    """Return a token store for virtual time."""
    return TokenFile(path, inline=True)


@pytest.fixture
def calendar(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the clocks that processes share follow the loop's clock."""
    monkeypatch.setattr(clock, "wall_time", lambda: 1.9e9 + anyio.current_time())
    monkeypatch.setattr(clock, "boot_time", lambda: 1e5 + anyio.current_time())
