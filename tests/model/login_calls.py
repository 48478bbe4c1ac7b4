"""Service that grants and refuses tokens, and a token refresh on top of it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import pytest

from freight_exchange.errors import (
    FreightExchangeError,
)
from freight_exchange.hooks import Event, Hooks, Login
from freight_exchange.options import Timeouts
from freight_exchange.transport.auth.refresh import TokenRefresh
from freight_exchange.transport.auth.token import Grant
from freight_exchange.transport.background import BackgroundTasks
from freight_exchange.transport.message import Request, RequestKind, Response
from freight_exchange.transport.secrets import Secret

HOUR = 3600.0


def request(kind: RequestKind = RequestKind.READ, *, replayable: bool = True) -> Request:
    return Request(method="GET", path="quote/offer", kind=kind, timeouts=Timeouts(), replayable=replayable)


class Exchange:
    """Service with the tokens `t1`, `t2`, ...; a login takes a second, a call a tenth."""

    def __init__(self, *, lifetime: float | None = HOUR, tasks: BackgroundTasks | None = None) -> None:
        self.lifetime = lifetime
        self.logins = self.at_once = 0
        self.failure: FreightExchangeError | None = None
        self.takes = 1.0
        self.account: tuple[str, Secret] = ("me@co.example", Secret("right"))
        self.refused: set[str] = set()
        self.seen: list[str] = []
        self.events: list[Event] = []
        self.tasks = tasks or BackgroundTasks()
        self.token_refresh = TokenRefresh(self.tasks, Hooks((self.events.append,)), self.credentials, self.log_in)

    async def credentials(self) -> tuple[str, Secret]:
        return self.account

    async def log_in(self, email: str, password: Secret) -> Grant:
        self.logins += 1
        self.at_once += 1
        assert self.at_once == 1
        try:
            await anyio.sleep(self.takes)
        finally:
            self.at_once -= 1
        if self.failure is not None:
            raise self.failure
        return Grant(token=Secret(f"t{self.logins}"), lifetime=self.lifetime)

    async def send(self, request: Request) -> Response:
        assert request.token is not None
        request.progress.record_send()
        token = request.token.reveal()
        await anyio.sleep(0.1)
        self.seen.append(token)
        if token in self.refused:
            return Response(status=401, content=b'{"Unauthorized": "access denied"}')
        return Response(status=200, content=b"{}")

    async def call(self, **options: Any) -> int:
        return (await self.token_refresh(request(**options), self.send)).status

    @property
    def reasons(self) -> list[str]:
        return [event.reason for event in self.events if isinstance(event, Login)]


async def crowd(call: Callable[[], Coroutine[Any, Any, Any]], size: int = 1000) -> list[Any]:
    """Return the tokens that a thousand tasks received."""
    outcomes: list[Any] = []

    async def one() -> None:
        try:
            outcomes.append(await call())
        except FreightExchangeError as error:
            outcomes.append(error)

    async with anyio.create_task_group() as tasks:
        for _ in range(size):
            tasks.start_soon(one)
    return outcomes


def count_credential_reads(exchange: Exchange, monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """Return a list that grows by an entry for each read of the credentials."""
    readings: list[None] = []

    async def give() -> tuple[str, Secret]:
        readings.append(None)
        return exchange.account

    monkeypatch.setattr(exchange.token_refresh, "_credentials", give)
    return readings
