"""Registration of handlers: what the decorators accept, refuse and keep, and what their filters match."""

from __future__ import annotations

import functools
import math
import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from freight_exchange import (
    Bid,
    BidSelected,
    Bot,
    ConfigurationError,
    Gap,
    RateRequest,
    RequestEvent,
    RequestType,
    Router,
    UnknownWord,
    Unreadable,
    ValidationError,
)
from freight_exchange.bot.handler import Handler, subject

KINDS = ["new", "updated", "withdrawn", "selected", "gap", "unreadable"]
FILTERED = KINDS[:4]
NOW = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
REQUEST = RateRequest(
    index=4, origin="Hong Kong", type=RequestType.SHIPPING, quantity=1, length=Decimal(3), width=Decimal(2),
    height=Decimal(1),
)  # fmt: skip


async def quote(request: Any, ctx: Any) -> int:
    return 1


async def log(request: Any, ctx: Any) -> None: ...


class Quoter:
    async def quote(self, request: Any, ctx: Any) -> None: ...

    async def __call__(self, request: Any, ctx: Any) -> None: ...


def on(router: Router, kind: str) -> Any:
    return getattr(router, f"on_{kind}")


def event(kind: Any, request: RateRequest = REQUEST) -> Any:
    match kind:
        case "gap":
            return Gap(since=NOW, until=NOW)
        case "unreadable":
            return Unreadable(index=4, raw={}, error="no weight", observed=NOW)
        case "selected":
            return BidSelected(bid=Bid(index=request.index, origin=request.origin), observed=NOW)
        case _:
            return RequestEvent(kind=kind, request=request, observed_between=(None, NOW))


def only(router: Router) -> Handler:
    (handler,) = router
    return handler


def kinds_of(router: Router) -> list[str]:
    return [kind for kind in KINDS if only(router).handles(kind)]


@pytest.mark.parametrize("kind", KINDS)
def test_decorator_returns_the_function_and_keeps_the_options(kind: str) -> None:
    assert on(Router(), kind)(quote) is quote
    assert on(Router(), kind)()(quote) is quote
    router = Router()
    assert on(router, kind)(retries=0, timeout=timedelta(seconds=90), id="tariff")(quote) is quote
    handler = only(router)
    assert (handler.id, handler.retries, handler.timeout, handler.from_start) == ("tariff", 0, 90.0, frozenset())
    about = event(kind)
    expected = {"gap": about, "unreadable": about, "selected": getattr(about, "bid", None)}
    assert subject(about) is expected.get(kind, getattr(about, "request", None))


@pytest.mark.parametrize(("kind", "other"), [("new", "selected"), ("selected", "new")])
def test_from_start_belongs_to_its_kind_in_any_order_of_decorators(kind: str, other: str) -> None:
    for order in ([kind], [kind, other], [other, kind]):
        router = Router()
        for one in order:
            on(router, one)(from_start=one == kind, timeout=2.5)(quote)
        handler = only(router)
        assert handler.from_start == {kind}


def test_function_or_method_of_several_kinds_is_one_handler() -> None:
    router = Router()
    router.on_new(origin="Hong Kong", retries=2)(router.on_updated(retries=2)(quote))
    router.on_withdrawn(retries=2)(quote)
    assert kinds_of(router) == ["new", "updated", "withdrawn"]
    elsewhere = RateRequest(index=5, origin="Oslo")
    assert [kind for kind in KINDS if only(router).matches(event(kind, elsewhere))] == ["updated", "withdrawn"]
    quoter, methods = Quoter(), Router()
    methods.on_new(quoter.quote)
    methods.on_updated(quoter.quote)
    assert (kinds_of(methods), only(methods).id) == (["new", "updated"], "Quoter.quote")
    with pytest.raises(ConfigurationError, match="two handlers have the id"):
        methods.on_withdrawn(Quoter().quote)


def test_order_callables_and_further_parameters_are_kept() -> None:
    async def anything(*args: Any, **named: Any) -> None: ...

    async def with_pool(request: Any, ctx: Any, /, pool: Any, *, tariff: Any = None) -> None: ...

    router, it = Router(), Quoter()
    router.on_new(quote)
    router.on_gap(log)
    router.on_new(id="again")(quote)
    router.on_new(id="object")(it)
    router.on_new(id="partial")(functools.partial(quote))
    router.on_new(id="anything")(anything)
    router.on_new(id="pool")(with_pool)
    assert [one.id for one in router] == ["quote", "log", "again", "object", "partial", "anything", "pool"]
    assert [one.function for one in router][:4] == [quote, log, quote, it]


# Filters


@pytest.mark.parametrize("kind", FILTERED)
def test_filters_are_those_of_request_filter(kind: str) -> None:
    router = Router()
    on(router, kind)(
        origin={"Hong Kong", "Shenzhen"}, destination=["Oakland"], type=RequestType.SHIPPING, incoterm="FOB",
        commodity="Tea", hazardous=False, max_volume=60, max_weight="1000", need_by=date(2026, 5, 1),
        where=lambda request: request.index != 7,
    )(quote)  # fmt: skip
    handler = only(router)
    assert handler.matches(event(kind))
    assert not handler.matches(event(kind, RateRequest(index=4, origin="Oslo")))
    assert not handler.matches(event(kind, RateRequest(index=7)))


@pytest.mark.parametrize(
    ("filters", "matches"),
    [
        ({"max_volume": 5}, False), ({"max_volume": 6}, True), ({"type": "air freight"}, False),
        ({"type": "air  FREIGHT "}, False), ({"type": ["Trucking", UnknownWord("Boat")]}, False),
    ],
    ids=str,
)  # fmt: skip
def test_filter_selects_by_measures_and_words(filters: dict[str, Any], matches: bool) -> None:
    router = Router()
    router.on_new(**filters)(quote)
    assert only(router).matches(event("new")) is matches


def test_error_of_a_filter_is_raised() -> None:
    router = Router()
    router.on_new(where=lambda request: dict[int, bool]()[request.index])(quote)
    with pytest.raises(LookupError):
        only(router).matches(event("new"))
    assert not only(router).matches(event("updated"))


@pytest.mark.parametrize("kind", FILTERED)
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("origin", ""), ("destination", []), ("type", 5), ("incoterm", "FOBS"), ("commodity", 7),
        ("hazardous", "yes"), ("max_volume", 0), ("max_weight", "heavy"), ("need_by", "2026-05-01"),
        ("where", "index"), ("where", quote), ("type", "Shiping"), ("type", ["Air", RequestType.TRUCKING]),
    ],
)  # fmt: skip
def test_invalid_filter_raises(kind: str, field: str, value: Any) -> None:
    """A mistyped type would match no event."""
    router = Router()
    with pytest.raises(ValidationError, match=field) as caught:
        on(router, kind)(**{field: value})
    assert caught.value.field == field
    assert list(router) == []


# What is refused


def made() -> Any:
    async def handler(request: Any, ctx: Any) -> None: ...

    return handler


def test_second_handler_of_an_id_is_refused_with_advice() -> None:
    router = Router()
    router.on_new(id="tariff")(quote)
    for kind in KINDS:
        with pytest.raises(ConfigurationError, match=r"two handlers have the id 'tariff'.*id="):
            on(router, kind)(id="tariff")(log)
    assert (only(router).function, kinds_of(router)) == (quote, ["new"])
    router.on_new(made())
    with pytest.raises(ConfigurationError, match=r"two handlers have the id .*made"):
        router.on_updated(made())


@pytest.mark.parametrize("kind", KINDS)
def test_second_registration_for_a_kind_is_refused(kind: str) -> None:
    router = Router()
    on(router, kind)(quote)
    with pytest.raises(ConfigurationError, match=f"the handler 'quote' is registered twice for {kind}$"):
        on(router, kind)(quote)
    assert len([*router]) == 1


@pytest.mark.parametrize("more", [{"retries": 3}, {"timeout": 5}], ids=str)
def test_other_options_of_one_handler_are_refused(more: dict[str, Any]) -> None:
    router = Router()
    router.on_new(quote)
    with pytest.raises(ConfigurationError, match=r"'quote' has other retries or .* id="):
        router.on_updated(**more)(quote)
    assert kinds_of(router) == ["new"]
    router.on_updated(id="other", **more)(quote)
    assert [one.id for one in router] == ["quote", "other"]


HALF = "id holds half a character (a lone surrogate), which cannot be kept"
KEYWORDS = "on_{kind} has no {name}=: its keywords are "
REFUSED: list[tuple[list[str], str, list[Any], str]] = [
    # Kinds, option, values, and how the message begins.
    (KINDS, "retries", [-1, 1.0, True, "3", None, math.inf], "retries must be an integer of at least 0, not {value!r}"),
    (KINDS, "timeout", [0, -1, timedelta(0), -timedelta(1), True, "5", None, math.nan, math.inf, 10**400],
     "timeout must be "),
    (KINDS, "id", ["", "  \n", 5, b"quote", True], "id must be a text that is not empty, not {value!r}"),
    (KINDS, "id", ["\ud800", "quote\udfff"], HALF),
    (["new", "selected"], "from_start", [1, 0, None, "yes"], "from_start must be True or False, not {value!r}"),
    (["updated", "withdrawn", "gap", "unreadable"], "from_start", [True], "on_{kind} has no from_start"),
    *[(FILTERED, name, [5], KEYWORDS) for name in ("orgin", "volume", "_wanted", "name", "function", "self")],
    *[(KINDS[4:], name, ["Oslo"], KEYWORDS + "id, retries, timeout") for name in ("origin", "where", "max_volume")],
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "name", "value", "message"),
    [(kind, name, value, message) for kinds, name, values, message in REFUSED for value in values for kind in kinds],
    ids=lambda value: ascii(value)[:20],
)
def test_invalid_option_raises(kind: str, name: str, value: Any, message: str) -> None:
    router, expected = Router(), message.format(kind=kind, name=name, value=value)
    with pytest.raises(ConfigurationError, match=f"^{re.escape(expected)}") as caught:
        on(router, kind)(**{name: value})
    assert list(router) == []
    text = str(caught.value)
    assert len(text) < 250
    if message == KEYWORDS:
        choices = text.partition(": its keywords are ")[2].split(", ")
        assert {"origin", "where", "max_volume", "id", "retries", "timeout"} <= set(choices)
        assert ("from_start" in choices) == (kind in ("new", "selected"))
        assert not [choice for choice in choices if choice.startswith("_")]


def plain(request: Any, ctx: Any) -> None: ...


async def many(request: Any, ctx: Any) -> Any:
    yield request


async def none() -> None: ...


async def one(request: Any) -> None: ...


async def named(request: Any, *, ctx: Any) -> None: ...


async def hidden(request: Any, ctx: Any, pool: Any, /) -> None: ...


NOT_ASYNC, WRONG_SIGNATURE = (
    r"must be an async function \(request, ctx\)$",
    r"must take two arguments: \(request, ctx\)",
)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("function", "message"),
    [
        *[(function, f"'{function.__qualname__}' {NOT_ASYNC}") for function in (plain, many)],
        (lambda request, ctx: quote(request, ctx), NOT_ASYNC),
        *[(function, WRONG_SIGNATURE) for function in (none, one, named, hidden)],
        *[(value, f"^@on_.* decorates an async function, not a {type(value).__name__}")
          for value in (5, "Hong Kong", {"origin": "Hong Kong"})],
    ],
    ids=lambda value: str(getattr(value, "__name__", value))[:20],
)  # fmt: skip
def test_other_function_raises(kind: str, function: Any, message: str) -> None:
    """Each call would fail, and the delivery would become a dead letter after eight retries."""
    router = Router()
    for register in (on(router, kind), on(router, kind)(retries=3)):
        with pytest.raises(ConfigurationError, match=message):
            register(function)
    assert list(router) == []


def test_function_needs_a_usable_name() -> None:
    router, function = Router(), made()
    function.__qualname__ = "\ud800"
    for unnamed, message in ((function, f"^{re.escape(HALF)}"), (functools.partial(quote), "needs id=")):
        with pytest.raises(ConfigurationError, match=message):
            router.on_new(unnamed)
    assert list(router) == []


@pytest.mark.parametrize("kind", FILTERED)
@pytest.mark.parametrize("more", [{"origin": "Oslo"}, {"retries": 3}, {"id": "it"}, {"orgin": "Oslo"}], ids=str)
def test_function_beside_keywords_raises(kind: str, more: dict[str, Any]) -> None:
    """Its filter would be lost, and the handler would offer on each request."""
    router = Router()
    with pytest.raises(ConfigurationError, match=f"on_{kind}"):
        on(router, kind)(quote, **more)
    assert list(router) == []


# Routers in bots


def test_include_adds_present_handlers_and_merges_kinds() -> None:
    router, other, bot = Router(), Router(), Bot(store=None)
    bot.on_gap(log)
    router.on_new(origin="Hong Kong")(quote)
    router.on_updated(quote)
    other.on_withdrawn(quote)
    bot.include(router)
    bot.include(other)
    router.on_withdrawn(id="late")(log)
    assert [one.id for one in bot] == ["log", "quote"]
    assert [one.id for one in router] == ["quote", "late"]
    handler = [*bot][1]
    assert [kind for kind in KINDS if handler.handles(kind)] == ["new", "updated", "withdrawn"]
    assert handler.matches(event("new"))
    assert not handler.matches(event("new", RateRequest(index=1, origin="Oslo")))


def test_include_raises_for_equal_ids_and_other_objects() -> None:
    router, bot = Router(), Bot(store=None)
    bot.on_new(id="tariff")(quote)
    router.on_gap(id="first")(log)
    router.on_updated(id="tariff")(log)
    with pytest.raises(ConfigurationError, match="two handlers have the id 'tariff'"):
        bot.include(router)
    assert [one.id for one in bot] == ["tariff"], "all of them or none"
    with pytest.raises(ConfigurationError, match="'tariff' is registered twice for new"):
        bot.include(bot)
    for value in (None, 5, [Router()], Router):
        with pytest.raises(ConfigurationError, match=r"^include takes a Router, not a "):
            bot.include(value)  # type: ignore[arg-type]  # other objects
