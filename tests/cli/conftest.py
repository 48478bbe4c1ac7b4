"""Fixtures of the command line's tests: an exchange over HTTP, and a shell."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import anyio.from_thread
import pytest
from tests.cli.harness import Shell

from freight_sandbox import Exchange
from freight_sandbox.server import serve


@pytest.fixture
def served() -> Iterator[tuple[Exchange, str]]:
    """Exchange served over HTTP from a thread, and its URL."""
    exchange = Exchange()
    with (
        anyio.from_thread.start_blocking_portal() as portal,
        portal.wrap_async_context_manager(serve(exchange)) as server,
    ):
        yield exchange, server.url


@pytest.fixture
def shell(
    served: tuple[Exchange, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Shell:
    """Shell of the forwarder, in an empty directory."""
    exchange, url = served
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    return Shell(exchange, url, tmp_path, monkeypatch, capsys)
