"""Tests of a process whose bot loses its seat in the store, and needs long to leave it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from freight_exchange import StoreError
from freight_exchange.bot.metrics.metrics import Metrics
from freight_exchange.bot.process import process
from freight_exchange.bot.runtime.shutdown import CLOSE_TIMEOUT
from freight_exchange.errors import FencedError, StoreAwayError
from freight_exchange.store.postgres import connection
from freight_exchange.store.protocol import ConflictError, StoreRefusedError


class Deadlines:
    """Watchdog that only keeps its deadlines."""

    def __init__(self, *_: object) -> None:
        self.seconds: list[float] = []

    def set_deadline(self, seconds: float, status: int, *, unless: Callable[[], bool]) -> None:
        self.seconds.append(seconds)

    def dismiss(self, status: int) -> None:
        pass


class Failing:
    """Program with a session that fails."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def begin(self, on_failure: Any, log_failure: Any) -> anyio.Event:
        on_failure(self._error, lambda: True)
        return anyio.Event()

    async def serve(self) -> None:
        pass

    def stop(self) -> None:
        pass


@pytest.mark.parametrize(
    "error", [StoreAwayError("away"), FencedError("over"), ConflictError("met another"), StoreRefusedError("no login")]
)
def test_database_that_does_not_answer_ends_no_process(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """A replica that ended because its database is away would not join again."""
    assert limit(error, monkeypatch) > 8 * connection._REPLY_TIMEOUT


def test_other_failure_of_a_store_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    assert limit(StoreError("full"), monkeypatch) == 1.0 + CLOSE_TIMEOUT


@pytest.mark.parametrize(
    ("error", "status"),
    [(StoreAwayError("away"), 75), (ConflictError("a lock"), 75), (StoreRefusedError("no login"), 73)],
)
def test_supervisor_starts_a_bot_again_whose_database_is_not_up_yet(error: StoreError, status: int) -> None:
    """The database may start later after a power cut. A person must correct a refused login."""

    class EndsSo(Failing):
        def begin(self, on_failure: Any, log_failure: Any) -> anyio.Event:
            return anyio.Event()

        async def serve(self) -> None:
            raise error

    with pytest.raises(SystemExit) as ended:
        process.run(EndsSo(error), Metrics().in_flight, 1.0, "asyncio")
    assert ended.value.code == status


def limit(error: Exception, monkeypatch: pytest.MonkeyPatch) -> float:
    """Return the seconds after which a process ends after such a failure, with a drain of one second."""
    watchdog = Deadlines()
    monkeypatch.setattr(process, "Watchdog", lambda *_: watchdog)
    process.run(Failing(error), Metrics().in_flight, 1.0, "asyncio")
    return max(watchdog.seconds)
