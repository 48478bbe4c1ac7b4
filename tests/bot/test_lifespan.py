"""Tests of the lifespan: its forms, and its place in a run."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio
import pytest
from tests.bot.rig import run_until_idle

from freight_exchange import Bot, ConfigurationError, FreightExchange
from freight_exchange.bot import lifespan as lifespans
from freight_exchange.store import MemoryStore
from freight_exchange.testing import Sandbox


class Pool:
    def __init__(self, name: str = "pool") -> None:
        self.name = name


class Tariff: ...


@asynccontextmanager
async def lifespan_of(what: object) -> AsyncIterator[object]:
    yield what


POOL, TARIFF = Pool(), Tariff()
BOTH = {"pool": POOL, "tariff": TARIFF}
pytestmark = pytest.mark.virtual_time


def exchange() -> FreightExchange:
    return FreightExchange("https://host/api", email="me@co.example", password="...")


async def shared_by(lifespan: Any, client: FreightExchange | None = None) -> Mapping[str, object]:
    async with lifespans.open_lifespan(lifespan, exchange() if client is None else client) as shared:
        return dict(shared)


class TestShapes:
    async def test_async_generator_function(self) -> None:
        async def lifespan() -> AsyncIterator[object]:
            yield BOTH

        assert await shared_by(lifespan) == BOTH

    async def test_function_that_returns_context_manager(self) -> None:
        @asynccontextmanager
        async def lifespan() -> AsyncIterator[object]:
            yield BOTH

        assert await shared_by(lifespan) == BOTH
        assert await shared_by(lambda: lifespan()) == BOTH

    async def test_class_of_context_managers(self) -> None:
        class Opened:
            async def __aenter__(self) -> Mapping[str, object]:
                return BOTH

            async def __aexit__(self, *_: object) -> None: ...

        assert await shared_by(Opened) == BOTH

    async def test_method_or_partial(self) -> None:
        class Resources:
            async def generator(self, pool: object) -> AsyncIterator[object]:
                yield {"pool": pool}

            @asynccontextmanager
            async def manager(self) -> AsyncIterator[object]:
                yield {"pool": POOL}

        assert await shared_by(functools.partial(Resources().generator, POOL)) == {"pool": POOL}
        assert await shared_by(Resources().manager) == {"pool": POOL}

    async def test_callable_object(self) -> None:
        class Generator:
            async def __call__(self) -> AsyncIterator[object]:
                yield BOTH

        class Manager:
            @asynccontextmanager
            async def __call__(self) -> AsyncIterator[object]:
                yield BOTH

        assert await shared_by(Manager()) == BOTH
        assert await shared_by(Generator()) == BOTH

    async def test_required_parameter_gets_exchange(self) -> None:
        async def generator(client: FreightExchange) -> AsyncIterator[object]:
            yield {"seen": client}

        @asynccontextmanager
        async def manager(client: FreightExchange) -> AsyncIterator[object]:
            yield {"seen": client}

        async def hidden(client: FreightExchange, /) -> AsyncIterator[object]:
            yield {"seen": client}

        async def open_ended(*clients: FreightExchange) -> AsyncIterator[object]:
            yield {"seen": clients}

        client = exchange()
        assert await shared_by(generator, client) == {"seen": client}
        assert await shared_by(manager, client) == {"seen": client}
        assert await shared_by(lambda it: manager(it), client) == {"seen": client}
        assert await shared_by(hidden, client) == {"seen": client}
        assert await shared_by(open_ended, client) in ({"seen": (client,)}, {"seen": ()}), "either, but it works"

    async def test_optional_parameter_gets_nothing(self) -> None:
        async def named(*, url: str = "postgres://") -> AsyncIterator[object]:
            yield {"url": url}

        async def bound(url: str) -> AsyncIterator[object]:
            yield {"url": url}

        assert await shared_by(named) == {"url": "postgres://"}
        assert await shared_by(functools.partial(bound, url="bound")) == {"url": "bound"}

    async def test_yields_none_one_or_mapping(self) -> None:
        def yielding(what: object) -> Any:
            async def lifespan() -> AsyncIterator[object]:
                yield what

            return lifespan

        assert await shared_by(yielding(None)) == {}
        assert await shared_by(yielding({})) == {}
        assert await shared_by(yielding({"pool": None})) == {"pool": None}
        assert [*(await shared_by(yielding(POOL))).values()] == [POOL]
        assert [*(await shared_by(yielding(0))).values()] == [0]
        assert [*(await shared_by(yielding([POOL, TARIFF]))).values()] == [[POOL, TARIFF]]
        assert await shared_by(lifespans.no_resources) == {}

    @pytest.mark.parametrize("shape", ["generator", "manager"])
    async def test_is_closed_once(self, shape: str) -> None:
        reported: list[str] = []

        async def generator() -> AsyncIterator[object]:
            reported.append("open")
            try:
                yield BOTH
            finally:
                await anyio.lowlevel.checkpoint()
                reported.append("closed")

        lifespan = generator if shape == "generator" else asynccontextmanager(generator)
        assert await shared_by(lifespan) == BOTH
        assert reported == ["open", "closed"]
        with pytest.raises(LookupError):
            async with lifespans.open_lifespan(lifespan, exchange()):
                raise LookupError
        assert reported == ["open", "closed"] * 2

    async def test_its_error_is_raised(self) -> None:
        async def lifespan() -> AsyncIterator[object]:
            raise OSError("no database")
            yield

        with pytest.raises(OSError, match="no database"):
            await shared_by(lifespan)

    @pytest.mark.parametrize("shape", ["generator", "manager", "manager that is given"])
    async def test_without_yield_raises(self, shape: str) -> None:
        story: list[str] = []

        async def generator() -> AsyncIterator[object]:
            if story:
                yield story

        manager = asynccontextmanager(generator)
        lifespans = {"generator": generator, "manager": manager, "manager that is given": lambda: manager()}
        with pytest.raises(ConfigurationError, match=r"^lifespan ended without a yield: "):
            await shared_by(lifespans[shape])

    async def test_own_runtime_error_is_kept(self) -> None:
        async def lifespan() -> AsyncIterator[object]:
            raise RuntimeError("generator already executing")
            yield

        with pytest.raises(RuntimeError, match="generator already executing"):
            await shared_by(lifespan)

    async def test_coroutine_function_raises(self) -> None:
        async def lifespan() -> object:
            return BOTH

        with pytest.raises(ConfigurationError, match="lifespan"):
            await shared_by(lifespan)

    async def test_other_result_raises(self) -> None:
        with pytest.raises(ConfigurationError, match="lifespan"):
            await shared_by(lambda: BOTH)


class TestInBot:
    async def test_opened_once_and_closed_after_last_handler(self) -> None:
        sandbox, reported = Sandbox(), list[str]()

        @asynccontextmanager
        async def lifespan(client: FreightExchange) -> AsyncIterator[object]:
            assert (await client.currencies.by_code("USD")).code == "USD"
            reported.append("open")
            yield {"pool": POOL}
            reported.append("closed")

        bot = Bot(store=None, start="backfill", lifespan=lifespan)

        @bot.on_new
        async def quote(request: Any, ctx: Any, pool: Any, database: Pool, margin: int = 7) -> None:
            assert (pool, database, margin) == (POOL, POOL, 7)
            reported.append(str(request.index))

        indexes = [sandbox.publish(), sandbox.publish()]
        status = await run_until_idle(sandbox, bot)
        assert status.handled == 2
        assert reported[0] == "open"
        assert sorted(reported[1:-1]) == sorted(map(str, indexes))
        assert (reported.count("open"), reported[-1]) == (1, "closed")

    async def test_closed_after_crash(self) -> None:
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

    @pytest.mark.parametrize("lifespan", [None, lambda: lifespan_of({"pools": POOL}), lambda: lifespan_of(None)])
    async def test_missing_resource_fails_at_startup(self, lifespan: Any) -> None:
        sandbox, store = Sandbox(), MemoryStore()
        bot = Bot(store=store, lifespan=lifespan)

        @bot.on_new(id="tariff")
        async def quote(request: Any, ctx: Any, pool: Any) -> None: ...

        with pytest.raises(ConfigurationError, match="the handler 'tariff' needs 'pool'"), anyio.fail_after(60):
            await bot.serve(exchange=sandbox.client())
        assert list(sandbox.audit_log.calls) == []
        assert bot.status().state == "stopped"


def test_shapes_have_documented_type() -> None:
    """mypy checks this test."""

    async def generator() -> AsyncIterator[Pool]:
        yield POOL

    def manager(client: FreightExchange) -> AbstractAsyncContextManager[Mapping[str, object]]:
        return asynccontextmanager(lifespan_of.__wrapped__)({})  # type: ignore[attr-defined]  # what wraps sets it

    shapes: list[lifespans.Lifespan] = [generator, manager, lifespan_of]
    assert all(callable(shape) for shape in shapes)
