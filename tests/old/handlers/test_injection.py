"""Injection of resources into handlers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Optional, Protocol, TypedDict, Union

import pytest

from freight_exchange import ConfigurationError, Router
from freight_exchange.bot.handlers.injection import resolve_arguments

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


POOL, TARIFF = Pool(), Tariff()
BOTH = {"pool": POOL, "tariff": TARIFF}
pytestmark = pytest.mark.virtual_time


def arguments(handler: Callable[..., Any], shared: Mapping[str, object] = BOTH) -> Mapping[str, object]:
    router = Router()
    router.on_new(id="quote")(handler)
    found = resolve_arguments(router, shared)
    assert [*found] == ["quote"]
    return found["quote"]


class TestByName:
    def test_parameters_get_resources(self) -> None:
        async def positional(request: Any, ctx: Any, tariff: Any, pool: Any) -> None: ...
        async def keyword(request: Any, ctx: Any, *, pool: Any, tariff: Any) -> None: ...

        assert arguments(positional) == arguments(keyword) == BOTH

    def test_other_resources_are_ignored(self) -> None:
        async def plain(request: Any, ctx: Any) -> None: ...
        async def everything(request: Any, ctx: Any, *rest: Any, **named: Any) -> None: ...
        async def one(request: Any, ctx: Any, pool: Any) -> None: ...

        assert arguments(plain) == arguments(everything) == {}
        assert arguments(one) == {"pool": POOL}

    def test_first_two_parameters_are_event_and_context(self) -> None:
        async def handler(pool: Any, tariff: Any) -> None: ...

        assert arguments(handler) == {}

    def test_method(self) -> None:
        class Quoter:
            async def handler(self, request: Any, ctx: Any, pool: Any) -> None: ...

        assert arguments(Quoter().handler) == {"pool": POOL}

    def test_name_comes_before_type(self) -> None:
        async def handler(request: Any, ctx: Any, pool: Tariff) -> None: ...

        assert arguments(handler) == {"pool": POOL}

    def test_resource_may_be_none(self) -> None:
        async def handler(request: Any, ctx: Any, pool: Pool | None = POOL) -> None: ...

        assert arguments(handler, {"pool": None}) == {"pool": None}

    def test_variable_arguments_get_nothing(self) -> None:
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
    def test_instance(self, kind: Any) -> None:
        async def handler(request: Any, ctx: Any, database: Any) -> None: ...

        handler.__annotations__["database"] = kind
        assert arguments(handler) == {"database": POOL}

    def test_subclass(self) -> None:
        async def handler(request: Any, ctx: Any, database: Pool) -> None: ...

        made = TestPool()
        assert arguments(handler, {"testing": made, "tariff": TARIFF}) == {"database": made}

    def test_generic_type(self) -> None:
        async def handler(request: Any, ctx: Any, rates: Mapping[str, int]) -> None: ...

        table = {"Oslo": 5}
        assert arguments(handler, {"table": table, "pool": POOL}) == {"rates": table}

    def test_single_resource(self) -> None:
        async def handler(request: Any, ctx: Any, database: Pool) -> None: ...

        assert arguments(handler, {"Pool": POOL}) == {"database": POOL}

    def test_annotation_for_type_checkers(self) -> None:
        """`RateRequest` and `Context` are imported under `TYPE_CHECKING`; `Pool` is not."""

        async def handler(request: RateRequest, ctx: Context, database: Pool) -> None: ...

        assert arguments(handler) == {"database": POOL}

    @pytest.mark.parametrize("hint", ["Missing", "a pool", "Pool.missing", "5", "Pool[int]"])
    def test_annotation_without_meaning(self, hint: str) -> None:
        async def handler(request: Any, ctx: Any, pool: Any, database: Any = None) -> None: ...

        handler.__annotations__["database"] = hint
        assert arguments(handler) == {"pool": POOL}

    @pytest.mark.parametrize("kind", [Any, object, None, Pricing, Options, type[Pool], Callable[[], int]], ids=str)
    def test_type_without_isinstance(self, kind: Any) -> None:
        async def handler(request: Any, ctx: Any, database: Any = None) -> None: ...

        handler.__annotations__["database"] = kind
        assert arguments(handler) == {}

        async def needy(request: Any, ctx: Any, database: Any) -> None: ...

        needy.__annotations__["database"] = kind
        with pytest.raises(ConfigurationError, match="the handler 'quote' needs 'database', which is none of"):
            arguments(needy)

    @pytest.mark.parametrize(
        "value", ["postgres://u:secret@h/db", b"", 5, 0.5, True, [5], {"a": 5}, Decimal(5)], ids=repr
    )
    def test_value_type(self, value: object) -> None:
        """A plain value could match by accident, and be sent to the service."""

        async def handler(request: Any, ctx: Any, currency: Any = "USD") -> None: ...

        async def needy(request: Any, ctx: Any, currency: Any) -> None: ...

        for function in (handler, needy):
            function.__annotations__["currency"] = type(value)
            assert arguments(function, {"currency": value, "dsn": "another"}) == {"currency": value}
        assert arguments(handler, {"dsn": value}) == {}
        with pytest.raises(ConfigurationError, match="the handler 'quote' needs 'currency', which is none of"):
            arguments(needy, {"dsn": value})

    def test_default_needs_exact_type(self) -> None:
        async def handler(request: Any, ctx: Any, database: Pool | None = None) -> None: ...

        assert arguments(handler) == {"database": POOL}
        assert arguments(handler, {"testing": TestPool()}) == {}
        assert arguments(handler, {"testing": TestPool(), "pool": POOL}) == {"database": POOL}

    def test_callable_object_and_partial(self) -> None:
        class Quote:
            async def __call__(self, request: Any, ctx: Any, database: Pool) -> None: ...

        async def handler(margin: int, request: Any, ctx: Any, database: Pool) -> None: ...

        assert arguments(Quote()) == {"database": POOL}
        assert arguments(functools.partial(handler, 5)) == {"database": POOL}


class TestMissing:
    def test_raises(self) -> None:
        async def handler(request: Any, ctx: Any, cache: Any) -> None: ...

        with pytest.raises(ConfigurationError, match=r"'quote' needs 'cache', which is none of .*: pool, tariff$"):
            arguments(handler)
        with pytest.raises(
            ConfigurationError, match=r"needs 'cache', which is none of the resources of the lifespan: nothing$"
        ):
            arguments(handler, {})

    def test_raises_for_two_of_type(self) -> None:
        async def handler(request: Any, ctx: Any, database: Pool) -> None: ...

        two = {"reading": Pool(), "writing": TestPool()}
        with pytest.raises(ConfigurationError, match=r"'database', which matches several of .*: reading, writing$"):
            arguments(handler, two)

        async def by_name(request: Any, ctx: Any, writing: Pool) -> None: ...

        assert arguments(by_name, two) == {"writing": two["writing"]}

    def test_raises_for_two_of_union(self) -> None:
        async def handler(request: Any, ctx: Any, database: Pool | Tariff) -> None: ...

        with pytest.raises(ConfigurationError, match="matches several"):
            arguments(handler)

    def test_keeps_default(self) -> None:
        async def handler(request: Any, ctx: Any, cache: Any = "none", *, database: Pool | None = None) -> None: ...

        assert arguments(handler, {}) == {}
        assert arguments(handler, {"one": Pool(), "two": Pool()}) == {}
        assert arguments(handler) == {"database": POOL}

    def test_message_shows_other_names(self) -> None:
        async def handler(request: Any, ctx: Any, cache: Any) -> None: ...

        shared: Any = {1: POOL}
        with pytest.raises(ConfigurationError, match="needs 'cache'"):
            arguments(handler, shared)
