"""Tests of the lifespan: its forms, and its place in a run."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio
import pytest
from tests.bot.rig import run_until_idle

from freight_exchange import Bot, ConfigurationError, FreightExchange
from freight_exchange.bot import lifespan as lifespans
from freight_exchange.store import MemoryStore
from freight_exchange.testing import Sandbox

pytestmark = pytest.mark.virtual_time


class Pool: ...


POOL = Pool()
SHARED = {"pool": POOL}
CLIENT = FreightExchange("https://host/api", email="me@co.example", password="...")


async def generator() -> AsyncIterator[object]:
    yield SHARED


manager = asynccontextmanager(generator)


async def with_client(client: FreightExchange) -> AsyncIterator[object]:
    yield {"client": client}


async def with_hidden_client(client: FreightExchange, /) -> AsyncIterator[object]:
    yield {"client": client}


async def with_url(*, url: str = "postgres://") -> AsyncIterator[object]:
    yield {"url": url}


async def needs_url(url: str) -> AsyncIterator[object]:
    yield {"url": url}


class Opened:
    async def __aenter__(self) -> Mapping[str, object]:
        return SHARED

    async def __aexit__(self, *_: object) -> None: ...


class Resources:
    async def generator(self) -> AsyncIterator[object]:
        yield SHARED

    @asynccontextmanager
    async def __call__(self) -> AsyncIterator[object]:
        yield SHARED


def yielding(what: object) -> Callable[[], AsyncIterator[object]]:
    async def lifespan() -> AsyncIterator[object]:
        yield what

    return lifespan


async def nothing() -> AsyncIterator[object]:
    for what in list[object]():
        yield what


async def failing(error: Exception) -> AsyncIterator[object]:
    raise error
    yield


async def coroutine() -> object:
    return SHARED


async def shared_by(lifespan: Any) -> Mapping[str, object]:
    async with lifespans.open_lifespan(lifespan, CLIENT) as shared:
        return dict(shared)


SHAPES: dict[str, tuple[Any, Mapping[str, object]]] = {
    "generator function": (generator, SHARED),
    "function that returns a manager": (manager, SHARED),
    "function that returns a given manager": (lambda: manager(), SHARED),
    "class of managers": (Opened, SHARED),
    "method": (Resources().generator, SHARED),
    "callable object": (Resources(), SHARED),
    "partial": (functools.partial(needs_url, url="bound"), {"url": "bound"}),
    "required parameter": (with_client, {"client": CLIENT}),
    "required parameter of a manager": (asynccontextmanager(with_client), {"client": CLIENT}),
    "required parameter without a name": (with_hidden_client, {"client": CLIENT}),
    "optional parameter": (with_url, {"url": "postgres://"}),
    "nothing": (yielding(None), {}),
    "empty mapping": (yielding({}), {}),
    "none in a mapping": (yielding({"pool": None}), {"pool": None}),
    "one resource": (yielding(POOL), {"Pool": POOL}),
    "one list": (yielding([POOL]), {"list": [POOL]}),
    "no lifespan": (lifespans.no_resources, {}),
}


@pytest.mark.parametrize(("lifespan", "shared"), SHAPES.values(), ids=SHAPES)
async def test_shape_shares(lifespan: Any, shared: Mapping[str, object]) -> None:
    assert await shared_by(lifespan) == shared


WRONG: dict[str, tuple[Any, type[Exception], str]] = {
    "generator without a yield": (nothing, ConfigurationError, "^lifespan ended without a yield: "),
    "manager without a yield": (asynccontextmanager(nothing), ConfigurationError, "^lifespan ended without a yield: "),
    "coroutine function": (coroutine, ConfigurationError, "lifespan"),
    "other result": (lambda: SHARED, ConfigurationError, "lifespan"),
    "own error": (functools.partial(failing, error=OSError("no database")), OSError, "no database"),
    "own runtime error": (functools.partial(failing, error=RuntimeError("executing")), RuntimeError, "executing"),
}


@pytest.mark.parametrize(("lifespan", "error", "message"), WRONG.values(), ids=WRONG)
async def test_wrong_shape_raises(lifespan: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        await shared_by(lifespan)


@pytest.mark.parametrize("wrap", [lambda function: function, asynccontextmanager], ids=["generator", "manager"])
async def test_is_closed_once(wrap: Any) -> None:
    reported: list[str] = []

    async def lifespan() -> AsyncIterator[object]:
        reported.append("open")
        try:
            yield SHARED
        finally:
            await anyio.lowlevel.checkpoint()
            reported.append("closed")

    assert await shared_by(wrap(lifespan)) == SHARED
    with pytest.raises(LookupError):
        async with lifespans.open_lifespan(wrap(lifespan), CLIENT):
            raise LookupError
    assert reported == ["open", "closed"] * 2


async def test_bot_opens_it_once_and_closes_it_after_the_last_handler() -> None:
    sandbox, reported = Sandbox(), list[str]()

    @asynccontextmanager
    async def lifespan(client: FreightExchange) -> AsyncIterator[object]:
        assert (await client.currencies.by_code("USD")).code == "USD"
        reported.append("open")
        yield SHARED
        reported.append("closed")

    bot = Bot(store=None, start="backfill", lifespan=lifespan)

    @bot.on_new
    async def quote(request: Any, ctx: Any, pool: Any, database: Pool, margin: int = 7) -> None:
        assert (pool, database, margin) == (POOL, POOL, 7)
        reported.append(str(request.index))

    indexes = [sandbox.publish(), sandbox.publish()]
    assert (await run_until_idle(sandbox, bot)).handled == 2
    assert (reported[0], sorted(reported[1:-1]), reported[-1]) == ("open", sorted(map(str, indexes)), "closed")


async def test_bot_closes_it_after_a_crash() -> None:
    sandbox, reported = Sandbox(), list[str]()

    async def lifespan() -> AsyncIterator[object]:
        try:
            yield {}
        finally:
            reported.append("closed")

    bot = Bot(store=None, start="backfill", lifespan=lifespan)

    @bot.on_new
    async def quote(request: Any, ctx: Any) -> None: ...

    sandbox.publish()
    async with sandbox.running(bot, crash_at="before settle") as trial:
        await trial.crashed()
    assert reported == ["closed"]


@pytest.mark.parametrize("lifespan", [None, yielding({"pools": POOL}), yielding(None)])
async def test_missing_resource_fails_at_startup(lifespan: Any) -> None:
    sandbox = Sandbox()
    bot = Bot(store=MemoryStore(), lifespan=lifespan)

    @bot.on_new(id="tariff")
    async def quote(request: Any, ctx: Any, pool: Any) -> None: ...

    with pytest.raises(ConfigurationError, match="the handler 'tariff' needs 'pool'"), anyio.fail_after(60):
        await bot.serve(exchange=sandbox.client())
    assert list(sandbox.audit_log.calls) == []
    assert bot.status().state == "stopped"


def typed() -> list[lifespans.Lifespan]:
    """Show to type checkers that each shape has the documented type."""

    def made(client: FreightExchange) -> AbstractAsyncContextManager[object]:
        return manager()

    return [generator, manager, with_client, made]
