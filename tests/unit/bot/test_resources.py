"""What handlers share: set up once in whatever way, handed over by name and by type, and closed at the end."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Optional, Protocol, TypedDict, Union

import anyio
import pytest

from freight_exchange import Bot, ConfigurationError, FreightExchange, Router
from freight_exchange.bot.handlers.injection import resolve_arguments
from freight_exchange.bot.runtime import lifespan as lifespans
from freight_exchange.store import MemoryStore
from freight_exchange.testing import Sandbox

if TYPE_CHECKING:
    from freight_exchange import Context, RateRequest


class Pool:
    def __init__(self, name: str = "pool") -> None:
        self.name = name


class TestPool(Pool):
    __test__ = False


class Tariff: ...


class Pricing(Protocol):
    def price(self) -> int: ...


class Options(TypedDict):
    margin: int


@asynccontextmanager
async def lifespan_of(what: object) -> AsyncIterator[object]:
    yield what


POOL, TARIFF = Pool(), Tariff()
BOTH = {"pool": POOL, "tariff": TARIFF}

pytestmark = pytest.mark.virtual_time


def exchange() -> FreightExchange:
    return FreightExchange("https://host/api", email="me@co.example", password="...")


async def given(lifespan: Any, client: FreightExchange | None = None) -> Mapping[str, object]:
    async with lifespans.open_lifespan(lifespan, exchange() if client is None else client) as shared:
        return dict(shared)


def arguments(handler: Callable[..., Any], shared: Mapping[str, object] = BOTH) -> Mapping[str, object]:
    router = Router()
    router.on_new(id="quote")(handler)
    found = resolve_arguments(router, shared)
    assert [*found] == ["quote"]
    return found["quote"]


class TestALifespan:
    async def test_is_an_async_generator_function(self) -> None:
        async def lifespan() -> AsyncIterator[object]:
            yield BOTH

        assert await given(lifespan) == BOTH

    async def test_is_a_function_that_gives_a_context_manager(self) -> None:
        @asynccontextmanager
        async def lifespan() -> AsyncIterator[object]:
            yield BOTH

        assert await given(lifespan) == BOTH
        assert await given(lambda: lifespan()) == BOTH

    async def test_is_a_class_whose_objects_are_context_managers(self) -> None:
        class Opened:
            async def __aenter__(self) -> Mapping[str, object]:
                return BOTH

            async def __aexit__(self, *_: object) -> None: ...

        assert await given(Opened) == BOTH

    async def test_is_a_method_or_a_partial_of_any_of_them(self) -> None:
        class Desk:
            async def generator(self, pool: object) -> AsyncIterator[object]:
                yield {"pool": pool}

            @asynccontextmanager
            async def manager(self) -> AsyncIterator[object]:
                yield {"pool": POOL}

        assert await given(functools.partial(Desk().generator, POOL)) == {"pool": POOL}
        assert await given(Desk().manager) == {"pool": POOL}

    async def test_is_an_object_whose_call_is_any_of_them(self) -> None:
        class Generator:
            async def __call__(self) -> AsyncIterator[object]:
                yield BOTH

        class Manager:
            @asynccontextmanager
            async def __call__(self) -> AsyncIterator[object]:
                yield BOTH

        assert await given(Manager()) == BOTH
        assert await given(Generator()) == BOTH

    async def test_is_given_the_exchange_if_it_asks_for_it(self) -> None:
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
        assert await given(generator, client) == {"seen": client}
        assert await given(manager, client) == {"seen": client}
        assert await given(lambda it: manager(it), client) == {"seen": client}
        assert await given(hidden, client) == {"seen": client}
        assert await given(open_ended, client) in ({"seen": (client,)}, {"seen": ()}), "either, but it works"

    async def test_is_not_given_what_it_can_do_without(self) -> None:
        async def named(*, url: str = "postgres://") -> AsyncIterator[object]:
            yield {"url": url}

        async def bound(url: str) -> AsyncIterator[object]:
            yield {"url": url}

        assert await given(named) == {"url": "postgres://"}
        assert await given(functools.partial(bound, url="bound")) == {"url": "bound"}

    async def test_gives_nothing_one_thing_or_many(self) -> None:
        def yielding(what: object) -> Any:
            async def lifespan() -> AsyncIterator[object]:
                yield what

            return lifespan

        assert await given(yielding(None)) == {}
        assert await given(yielding({})) == {}
        assert await given(yielding({"pool": None})) == {"pool": None}
        assert [*(await given(yielding(POOL))).values()] == [POOL]
        assert [*(await given(yielding(0))).values()] == [0]
        assert [*(await given(yielding([POOL, TARIFF]))).values()] == [[POOL, TARIFF]]
        assert await given(lifespans.no_resources) == {}

    @pytest.mark.parametrize("shape", ["generator", "manager"])
    async def test_is_closed_once_however_it_ends(self, shape: str) -> None:
        told: list[str] = []

        async def generator() -> AsyncIterator[object]:
            told.append("open")
            try:
                yield BOTH
            finally:
                await anyio.lowlevel.checkpoint()
                told.append("closed")

        lifespan = generator if shape == "generator" else asynccontextmanager(generator)
        assert await given(lifespan) == BOTH
        assert told == ["open", "closed"]
        with pytest.raises(LookupError):
            async with lifespans.open_lifespan(lifespan, exchange()):
                raise LookupError
        assert told == ["open", "closed"] * 2

    async def test_raises_what_it_raises(self) -> None:
        async def lifespan() -> AsyncIterator[object]:
            raise OSError("no database")
            yield

        with pytest.raises(OSError, match="no database"):
            await given(lifespan)

    @pytest.mark.parametrize("shape", ["generator", "manager", "manager that is given"])
    async def test_that_yields_nothing_is_refused(self, shape: str) -> None:
        story: list[str] = []

        async def generator() -> AsyncIterator[object]:
            if story:
                yield story

        manager = asynccontextmanager(generator)
        lifespans = {"generator": generator, "manager": manager, "manager that is given": lambda: manager()}
        with pytest.raises(ConfigurationError, match=r"^lifespan has ended without a yield: "):
            await given(lifespans[shape])

    async def test_that_raises_what_looks_like_it_is_not_taken_for_it(self) -> None:
        async def lifespan() -> AsyncIterator[object]:
            raise RuntimeError("generator already executing")
            yield

        with pytest.raises(RuntimeError, match="generator already executing"):
            await given(lifespan)

    async def test_that_is_a_coroutine_function_is_refused(self) -> None:
        async def lifespan() -> object:
            return BOTH

        with pytest.raises(ConfigurationError, match="lifespan"):
            await given(lifespan)

    async def test_that_gives_no_context_manager_is_refused(self) -> None:
        with pytest.raises(ConfigurationError, match="lifespan"):
            await given(lambda: BOTH)


class TestByName:
    def test_is_given_what_it_asks_for(self) -> None:
        async def positional(request: Any, ctx: Any, tariff: Any, pool: Any) -> None: ...
        async def keyword(request: Any, ctx: Any, *, pool: Any, tariff: Any) -> None: ...

        assert arguments(positional) == arguments(keyword) == BOTH

    def test_is_given_nothing_that_it_does_not_ask_for(self) -> None:
        async def plain(request: Any, ctx: Any) -> None: ...
        async def everything(request: Any, ctx: Any, *rest: Any, **named: Any) -> None: ...
        async def one(request: Any, ctx: Any, pool: Any) -> None: ...

        assert arguments(plain) == arguments(everything) == {}
        assert arguments(one) == {"pool": POOL}

    def test_its_first_two_are_the_event_and_the_context_whatever_their_names(self) -> None:
        async def handler(pool: Any, tariff: Any) -> None: ...

        assert arguments(handler) == {}

    def test_of_a_method_the_first_two_come_after_self(self) -> None:
        class Desk:
            async def handler(self, request: Any, ctx: Any, pool: Any) -> None: ...

        assert arguments(Desk().handler) == {"pool": POOL}

    def test_a_name_goes_before_a_type(self) -> None:
        async def handler(request: Any, ctx: Any, pool: Tariff) -> None: ...

        assert arguments(handler) == {"pool": POOL}

    def test_a_resource_that_is_none_is_given(self) -> None:
        async def handler(request: Any, ctx: Any, pool: Pool | None = POOL) -> None: ...

        assert arguments(handler, {"pool": None}) == {"pool": None}

    def test_open_ended_arguments_are_the_event_and_the_context(self) -> None:
        async def everything(*args: Any, pool: Any) -> None: ...
        async def the_rest(request: Any, *args: Any, pool: Any, tariff: Any) -> None: ...

        assert arguments(everything) == {"pool": POOL}
        assert arguments(the_rest) == BOTH

    def test_each_handler_gets_its_own(self) -> None:
        async def one(request: Any, ctx: Any, pool: Any) -> None: ...
        async def two(request: Any, ctx: Any, tariff: Any) -> None: ...

        router = Router()
        router.on_new(id="one")(one)
        router.on_updated(id="two")(two)
        assert resolve_arguments(router, BOTH) == {"one": {"pool": POOL}, "two": {"tariff": TARIFF}}


class TestByType:
    @pytest.mark.parametrize(
        "kind",
        [
            Pool,
            Optional[Pool],  # noqa: UP045  # spelt as users spell it
            Union[Pool, int],  # noqa: UP007  # spelt as users spell it
            Pool | None,
            Pool | str | None,
            Annotated[Pool, "the database"],
            Annotated[Pool | None, "the database"],
            "Pool",
            "Pool | None",
        ],
        ids=str,
    )
    def test_is_given_what_is_of_that_type(self, kind: Any) -> None:
        async def handler(request: Any, ctx: Any, database: Any) -> None: ...

        handler.__annotations__["database"] = kind
        assert arguments(handler) == {"database": POOL}

    def test_a_subclass_is_of_the_type(self) -> None:
        async def handler(request: Any, ctx: Any, database: Pool) -> None: ...

        made = TestPool()
        assert arguments(handler, {"testing": made, "tariff": TARIFF}) == {"database": made}

    def test_a_generic_type_is_its_class(self) -> None:
        async def handler(request: Any, ctx: Any, rates: Mapping[str, int]) -> None: ...

        table = {"Oslo": 5}
        assert arguments(handler, {"table": table, "pool": POOL}) == {"rates": table}

    def test_a_single_resource_is_found(self) -> None:
        async def handler(request: Any, ctx: Any, database: Pool) -> None: ...

        assert arguments(handler, {"Pool": POOL}) == {"database": POOL}

    def test_annotations_for_type_checkers_alone_do_not_stand_in_the_way(self) -> None:
        """`RateRequest` and `Context` are imported under TYPE_CHECKING, as linters advise; `Pool` is there."""

        async def handler(request: RateRequest, ctx: Context, database: Pool) -> None: ...

        assert arguments(handler) == {"database": POOL}

    @pytest.mark.parametrize("hint", ["Missing", "a pool", "Pool.missing", "5", "Pool[int]"])
    def test_an_annotation_that_means_nothing_here_is_none(self, hint: str) -> None:
        async def handler(request: Any, ctx: Any, pool: Any, database: Any = None) -> None: ...

        handler.__annotations__["database"] = hint
        assert arguments(handler) == {"pool": POOL}

    @pytest.mark.parametrize("kind", [Any, object, None, Pricing, Options, type[Pool], Callable[[], int]], ids=str)
    def test_a_type_that_cannot_tell_is_of_no_help(self, kind: Any) -> None:
        async def handler(request: Any, ctx: Any, database: Any = None) -> None: ...

        handler.__annotations__["database"] = kind
        assert arguments(handler) == {}

        async def needy(request: Any, ctx: Any, database: Any) -> None: ...

        needy.__annotations__["database"] = kind
        with pytest.raises(ConfigurationError, match="the handler 'quote' wants 'database', which is none of"):
            arguments(needy)

    @pytest.mark.parametrize(
        "value", ["postgres://u:secret@h/db", b"", 5, 0.5, True, [5], {"a": 5}, Decimal(5)], ids=repr
    )
    def test_a_value_is_given_by_name_alone(self, value: object) -> None:
        """What is of its type by coincidence may be sent to the service."""

        async def handler(request: Any, ctx: Any, currency: Any = "USD") -> None: ...

        async def needy(request: Any, ctx: Any, currency: Any) -> None: ...

        for function in (handler, needy):
            function.__annotations__["currency"] = type(value)
            assert arguments(function, {"currency": value, "dsn": "another"}) == {"currency": value}
        assert arguments(handler, {"dsn": value}) == {}
        with pytest.raises(ConfigurationError, match="the handler 'quote' wants 'currency', which is none of"):
            arguments(needy, {"dsn": value})

    def test_what_has_a_default_is_given_what_is_exactly_of_its_type(self) -> None:
        async def handler(request: Any, ctx: Any, database: Pool | None = None) -> None: ...

        assert arguments(handler) == {"database": POOL}
        assert arguments(handler, {"testing": TestPool()}) == {}
        assert arguments(handler, {"testing": TestPool(), "pool": POOL}) == {"database": POOL}

    def test_an_object_that_is_called_and_a_partial_are_read_too(self) -> None:
        class Quote:
            async def __call__(self, request: Any, ctx: Any, database: Pool) -> None: ...

        async def handler(margin: int, request: Any, ctx: Any, database: Pool) -> None: ...

        assert arguments(Quote()) == {"database": POOL}
        assert arguments(functools.partial(handler, 5)) == {"database": POOL}


class TestWhatIsNotThere:
    def test_is_refused(self) -> None:
        async def handler(request: Any, ctx: Any, cache: Any) -> None: ...

        with pytest.raises(ConfigurationError, match=r"'quote' wants 'cache', which is none of .*: pool, tariff$"):
            arguments(handler)
        with pytest.raises(ConfigurationError, match=r"wants 'cache', which is none of what lifespan gives: nothing$"):
            arguments(handler, {})

    def test_is_refused_where_two_are_of_the_type(self) -> None:
        async def handler(request: Any, ctx: Any, database: Pool) -> None: ...

        two = {"reading": Pool(), "writing": TestPool()}
        with pytest.raises(ConfigurationError, match=r"'database', which fits more than one of .*: reading, writing$"):
            arguments(handler, two)

        async def by_name(request: Any, ctx: Any, writing: Pool) -> None: ...

        assert arguments(by_name, two) == {"writing": two["writing"]}

    def test_is_refused_where_either_of_a_union_is_there(self) -> None:
        async def handler(request: Any, ctx: Any, database: Pool | Tariff) -> None: ...

        with pytest.raises(ConfigurationError, match="fits more than one"):
            arguments(handler)

    def test_keeps_the_default(self) -> None:
        async def handler(request: Any, ctx: Any, cache: Any = "none", *, database: Pool | None = None) -> None: ...

        assert arguments(handler, {}) == {}
        assert arguments(handler, {"one": Pool(), "two": Pool()}) == {}
        assert arguments(handler) == {"database": POOL}

    def test_names_that_are_no_text_are_shown_too(self) -> None:
        async def handler(request: Any, ctx: Any, cache: Any) -> None: ...

        shared: Any = {1: POOL}
        with pytest.raises(ConfigurationError, match="wants 'cache'"):
            arguments(handler, shared)


class TestWithABot:
    async def test_is_opened_once_with_the_client_and_closed_after_the_last_handler(self) -> None:
        sandbox, told = Sandbox(), list[str]()

        @asynccontextmanager
        async def lifespan(client: FreightExchange) -> AsyncIterator[object]:
            assert (await client.currencies.by_code("USD")).code == "USD"
            told.append("open")
            yield {"pool": POOL}
            told.append("closed")

        bot = Bot(store=None, start="backfill", lifespan=lifespan)

        @bot.on_new
        async def quote(request: Any, ctx: Any, pool: Any, database: Pool, margin: int = 7) -> None:
            assert (pool, database, margin) == (POOL, POOL, 7)
            told.append(str(request.index))

        indexes = [sandbox.publish(), sandbox.publish()]
        async with sandbox.running(bot) as trial:
            await trial.idle()
            assert trial.status.handled == 2
            assert told[0] == "open"
        assert sorted(told[1:-1]) == sorted(map(str, indexes))
        assert (told.count("open"), told[-1]) == (1, "closed")

    async def test_is_closed_when_the_bot_crashes(self) -> None:
        sandbox, told = Sandbox(), list[str]()

        async def lifespan() -> AsyncIterator[object]:
            try:
                yield {}
            finally:
                told.append("closed")

        bot = Bot(store=None, start="backfill", lifespan=lifespan)

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None: ...

        sandbox.publish()
        async with sandbox.running(bot, crash_at="before settle") as trial:
            await trial.crashed()
        assert told == ["closed"]

    @pytest.mark.parametrize("lifespan", [None, lambda: lifespan_of({"pools": POOL}), lambda: lifespan_of(None)])
    async def test_a_handler_that_wants_what_is_not_there_ends_it_before_anything_is_sent(self, lifespan: Any) -> None:
        sandbox, store = Sandbox(), MemoryStore()
        bot = Bot(store=store, lifespan=lifespan)

        @bot.on_new(id="tariff")
        async def quote(request: Any, ctx: Any, pool: Any) -> None: ...

        with pytest.raises(ConfigurationError, match="the handler 'tariff' wants 'pool'"), anyio.fail_after(60):
            await bot.serve(exchange=sandbox.client())
        assert list(sandbox.audit_log.calls) == []
        assert bot.status().state == "stopped"

    async def test_what_lifespan_raises_ends_the_bot(self) -> None:
        async def lifespan() -> AsyncIterator[object]:
            raise OSError("no database")
            yield

        async def handler(request: Any, ctx: Any) -> None: ...

        sandbox, bot = Sandbox(), Bot(store=None, lifespan=lifespan)
        bot.on_new(handler)
        with pytest.raises(OSError, match="no database"), anyio.fail_after(60):
            await bot.serve(exchange=sandbox.client())
        assert list(sandbox.audit_log.calls) == []


def test_the_shapes_are_of_the_type_that_is_documented() -> None:
    """mypy judges this."""

    async def generator() -> AsyncIterator[Pool]:
        yield POOL

    def manager(client: FreightExchange) -> AbstractAsyncContextManager[Mapping[str, object]]:
        return asynccontextmanager(lifespan_of.__wrapped__)({})  # type: ignore[attr-defined]  # what wraps sets it

    shapes: list[lifespans.Lifespan] = [generator, manager, lifespan_of]
    assert all(callable(shape) for shape in shapes)
