"""Handlers and routers: what is registered under which id for what, and what is refused before anything is sent."""

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
from freight_exchange.bot.decorators import DEFAULT_RETRIES, DEFAULT_TIMEOUT
from freight_exchange.bot.handlers.handler import Handler, subject

NOW = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
KINDS = ["new", "updated", "withdrawn", "selected", "gap", "unreadable"]
FILTERED = KINDS[:4]
BARE = KINDS[4:]
REQUEST = RateRequest(
    index=4, origin="Hong Kong", type=RequestType.SHIPPING, quantity=1, length=Decimal(3), width=Decimal(2),
    height=Decimal(1),
)  # fmt: skip


async def quote(request: Any, ctx: Any) -> int:
    return 1


async def log(request: Any, ctx: Any) -> None: ...


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


class TestRegistering:
    @pytest.mark.parametrize("kind", KINDS)
    def test_gives_the_function_back(self, kind: str) -> None:
        assert on(Router(), kind)(quote) is quote
        assert on(Router(), kind)()(quote) is quote
        assert on(Router(), kind)(retries=1, timeout=3, id="it")(quote) is quote

    @pytest.mark.parametrize("kind", KINDS)
    def test_bare_takes_everything_of_its_kind(self, kind: str) -> None:
        router = Router()
        on(router, kind)(quote)
        handler = only(router)
        assert (handler.id, handler.function) == ("quote", quote)
        assert (handler.retries, handler.timeout, handler.from_start) == (8, 300.0, False)
        assert (8, timedelta(minutes=5)) == (DEFAULT_RETRIES, DEFAULT_TIMEOUT)
        assert {other: handler.handles(other) for other in KINDS} == {other: other == kind for other in KINDS}
        assert {other: handler.matches(event(other)) for other in KINDS} == {other: other == kind for other in KINDS}

    @pytest.mark.parametrize("kind", KINDS)
    def test_keeps_what_it_is_told(self, kind: str) -> None:
        router = Router()
        on(router, kind)(retries=0, timeout=timedelta(seconds=90), id="tariff")(quote)
        handler = only(router)
        assert (handler.id, handler.retries, handler.timeout, handler.from_start) == ("tariff", 0, 90.0, False)

    @pytest.mark.parametrize("kind", ["new", "selected"])
    def test_from_start_is_for_each_kind_of_its_own(self, kind: str) -> None:
        router = Router()
        on(router, kind)(from_start=True, timeout=2.5)(quote)
        handler = only(router)
        assert (handler.from_start, handler.selected_from_start) == (kind == "new", kind == "selected")
        assert handler.timeout == 2.5
        other = "new" if kind == "selected" else "selected"
        for order in ([kind, other], [other, kind]):
            both = Router()
            for one in order:
                on(both, one)(from_start=one == kind)(quote)
            assert only(both).from_start is handler.from_start
            assert only(both).selected_from_start is handler.selected_from_start

    def test_the_id_is_the_qualified_name(self) -> None:
        class Desk:
            async def quote(self, request: Any, ctx: Any) -> None: ...

        router = Router()
        router.on_new(Desk().quote)
        assert only(router).id.endswith("<locals>.Desk.quote")

    def test_one_function_for_several_kinds_is_one_handler(self) -> None:
        router = Router()
        router.on_new(origin="Hong Kong", retries=2)(router.on_updated(retries=2)(quote))
        router.on_withdrawn(retries=2)(quote)
        handler = only(router)
        assert [kind for kind in KINDS if handler.handles(kind)] == ["new", "updated", "withdrawn"]
        elsewhere = RateRequest(index=5, origin="Oslo")
        assert [kind for kind in KINDS if handler.matches(event(kind, elsewhere))] == ["updated", "withdrawn"]

    def test_from_start_holds_for_one_function_however_its_decorators_are_stacked(self) -> None:
        above, below = Router(), Router()
        above.on_new(from_start=True)(above.on_updated(quote))
        below.on_updated(below.on_new(from_start=True)(quote))
        for router in (above, below):
            assert only(router).from_start
            assert [kind for kind in KINDS if only(router).handles(kind)] == ["new", "updated"]

    def test_a_method_for_several_kinds_is_one_handler(self) -> None:
        class Desk:
            async def quote(self, request: Any, ctx: Any) -> None: ...

        unit_of_work, router = Desk(), Router()
        router.on_new(unit_of_work.quote)
        router.on_updated(unit_of_work.quote)
        assert [kind for kind in KINDS if only(router).handles(kind)] == ["new", "updated"]
        with pytest.raises(ConfigurationError, match="two handlers have the id"):
            router.on_withdrawn(Desk().quote)

    def test_several_functions_stand_in_their_order(self) -> None:
        router = Router()
        router.on_new(quote)
        router.on_gap(log)
        router.on_new(id="again")(quote)
        assert [(one.id, one.function) for one in router] == [("quote", quote), ("log", log), ("again", quote)]

    def test_what_is_callable_and_async_is_as_good_as_a_function(self) -> None:
        class Quote:
            async def __call__(self, request: Any, ctx: Any) -> None: ...

        router, it = Router(), Quote()
        router.on_new(id="object")(it)
        router.on_new(id="partial")(functools.partial(quote))
        assert [(one.id, one.function is it) for one in router] == [("object", True), ("partial", False)]


class TestFilters:
    @pytest.mark.parametrize("kind", FILTERED)
    def test_are_those_of_request_filter(self, kind: str) -> None:
        router = Router()
        on(router, kind)(
            origin={"Hong Kong", "Shenzhen"},
            destination=["Oakland"],
            type=RequestType.SHIPPING,
            incoterm="FOB",
            commodity="Tea",
            hazardous=False,
            max_volume=60,
            max_weight="1000",
            need_by=date(2026, 5, 1),
            where=lambda request: request.index != 7,
        )(quote)
        handler = only(router)
        assert handler.matches(event(kind))
        assert not handler.matches(event(kind, RateRequest(index=4, origin="Oslo")))
        assert not handler.matches(event(kind, RateRequest(index=7)))

    def test_of_measures_and_words(self) -> None:
        router = Router()
        router.on_new(max_volume=5)(quote)
        router.on_new(max_volume=6, id="larger")(quote)
        router.on_new(type="air freight", id="air")(quote)
        assert {one.id: one.matches(event("new")) for one in router} == {"quote": False, "larger": True, "air": False}

    @pytest.mark.parametrize("kind", FILTERED)
    @pytest.mark.parametrize("given", ["Shiping", {"Shipping", "Boat"}, ["Air", RequestType.TRUCKING]], ids=repr)
    def test_a_mistyped_type_is_refused(self, kind: str, given: Any) -> None:
        """It would match nothing, and nobody would know."""
        with pytest.raises(ValidationError, match=r"type must be Shipping, Air Freight.*UnknownWord") as caught:
            on(Router(), kind)(type=given)(quote)
        assert caught.value.field == "type"

    @pytest.mark.parametrize("given", ["air  FREIGHT ", RequestType.AIR_FREIGHT, {"Trucking", UnknownWord("Boat")}])
    def test_a_type_in_any_case_and_one_to_come_are_not(self, given: Any) -> None:
        router = Router()
        router.on_new(type=given)(quote)
        assert not only(router).matches(event("new"))

    def test_what_they_raise_is_raised(self) -> None:
        def broken(request: RateRequest) -> bool:
            raise LookupError(request.index)

        router = Router()
        router.on_new(where=broken)(quote)
        with pytest.raises(LookupError):
            only(router).matches(event("new"))
        assert not only(router).matches(event("updated"))

    @pytest.mark.parametrize("kind", FILTERED)
    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("origin", ""), ("destination", []), ("type", 5), ("incoterm", "FOBS"), ("commodity", 7),
            ("hazardous", "yes"), ("max_volume", 0), ("max_weight", "heavy"), ("need_by", "2026-05-01"),
            ("where", "index"), ("where", quote),
        ],
    )  # fmt: skip
    def test_that_cannot_be_right_are_refused(self, kind: str, field: str, value: Any) -> None:
        router = Router()
        with pytest.raises(ValidationError, match=field) as caught:
            on(router, kind)(**{field: value})
        assert caught.value.field == field
        assert list(router) == []


class TestRefusals:
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("retries", [-1, 1.0, True, "3", None, math.inf], ids=repr)
    def test_retries(self, kind: str, retries: Any) -> None:
        refused(kind, f"retries must be a whole number from 0, not {retries!r}", retries=retries)

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize(
        "timeout", [0, -1, timedelta(0), timedelta(seconds=-1), True, "5", None, math.nan, math.inf, 10**400],
        ids=lambda timeout: repr(timeout)[:20],
    )  # fmt: skip
    def test_timeout(self, kind: str, timeout: Any) -> None:
        refused(kind, "timeout must be ", timeout=timeout)

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("name", ["", "  \n", 5, b"quote", True], ids=repr)
    def test_id(self, kind: str, name: Any) -> None:
        refused(kind, f"id must be a text that is not empty, not {name!r}", id=name)

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("half", ["\ud800", "quote\udfff"], ids=ascii)
    def test_id_that_cannot_be_kept(self, kind: str, half: str) -> None:
        refused(kind, "id holds half a character (a lone surrogate), which cannot be kept", id=half)

    def test_a_name_that_cannot_be_kept(self) -> None:
        async def named(request: Any, ctx: Any) -> None: ...

        named.__qualname__ = "\ud800"
        router = Router()
        with pytest.raises(ConfigurationError, match=r"^id holds half a character"):
            router.on_new(named)
        assert list(router) == []

    @pytest.mark.parametrize("value", [1, 0, None, "yes"], ids=repr)
    @pytest.mark.parametrize("kind", ["new", "selected"])
    def test_from_start(self, kind: str, value: Any) -> None:
        refused(kind, f"from_start must be True or False, not {value!r}", from_start=value)

    @pytest.mark.parametrize("kind", ["updated", "withdrawn", "gap", "unreadable"])
    def test_from_start_of_what_is_only_now(self, kind: str) -> None:
        refused(kind, f"on_{kind} knows no from_start", from_start=True)

    @pytest.mark.parametrize("kind", FILTERED)
    @pytest.mark.parametrize("name", ["orgin", "volume", "_wanted", "name", "function", "self"])
    def test_a_keyword_that_there_is_not(self, kind: str, name: str) -> None:
        said = refused(kind, f"on_{kind} knows no {name}=: it has ", **{name: 5})
        choices = said.partition(": it has ")[2].split(", ")
        assert {"origin", "where", "max_volume", "id", "retries", "timeout"} <= set(choices)
        assert not [choice for choice in choices if choice.startswith("_")]

    @pytest.mark.parametrize("kind", FILTERED)
    def test_a_keyword_misspelt_is_shown_beside_all_that_there_are(self, kind: str) -> None:
        said = refused(kind, f"on_{kind} knows no fromstart=: it has ", fromstart=True)
        assert ("from_start" in said) == (kind in ("new", "selected"))

    @pytest.mark.parametrize("kind", BARE)
    @pytest.mark.parametrize("name", ["origin", "where", "max_volume", "orgin"])
    def test_a_filter_of_what_is_about_no_request(self, kind: str, name: str) -> None:
        said = refused(kind, f"on_{kind} knows no {name}=: it has id, retries, timeout", **{name: "Oslo"})
        assert said.endswith("timeout")

    @pytest.mark.parametrize("kind", KINDS)
    def test_a_function_that_is_not_async(self, kind: str) -> None:
        def plain(request: Any, ctx: Any) -> None: ...

        async def many(request: Any, ctx: Any) -> Any:
            yield request

        for function in (plain, many, lambda request, ctx: quote(request, ctx)):
            router = Router()
            with pytest.raises(ConfigurationError, match=r"must be an async function \(request, ctx\)$") as caught:
                on(router, kind)(function)
            assert repr(function.__qualname__) in str(caught.value)
            with pytest.raises(ConfigurationError, match="must be an async function"):
                on(router, kind)(retries=3)(function)
            assert list(router) == []

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("value", [5, "Hong Kong", {"origin": "Hong Kong"}], ids=repr)
    def test_what_is_no_function(self, kind: str, value: Any) -> None:
        router = Router()
        for register in (on(router, kind), on(router, kind)(id="it")):
            with pytest.raises(ConfigurationError, match=f"^@on_{kind} decorates an async function, not a ") as caught:
                register(value)
            assert type(value).__name__ in str(caught.value)
        assert list(router) == []

    def test_what_has_no_name_needs_an_id(self) -> None:
        router = Router()
        with pytest.raises(ConfigurationError, match="needs id="):
            router.on_new(functools.partial(quote))
        assert list(router) == []

    @pytest.mark.parametrize("kind", FILTERED)
    @pytest.mark.parametrize("more", [{"origin": "Oslo"}, {"retries": 3}, {"id": "it"}, {"orgin": "Oslo"}], ids=str)
    def test_a_function_beside_keywords_that_would_be_dropped(self, kind: str, more: dict[str, Any]) -> None:
        """Not the decorator's form: what it drops is a filter, and the handler would offer on everything."""
        router = Router()
        with pytest.raises(ConfigurationError, match=f"on_{kind}"):
            on(router, kind)(quote, **more)
        assert list(router) == []

    @pytest.mark.parametrize("kind", KINDS)
    def test_a_function_that_takes_no_request_and_context(self, kind: str) -> None:
        """Called, it would fail each time: eight retries later its delivery is dead, and the business lost."""

        async def none() -> None: ...

        async def one(request: Any) -> None: ...

        async def named(request: Any, *, ctx: Any) -> None: ...

        async def hidden(request: Any, ctx: Any, pool: Any, /) -> None: ...

        for function in (none, one, named, hidden):
            router = Router()
            with pytest.raises(ConfigurationError, match=r"\(request, ctx\)"):
                on(router, kind)(function)
            assert list(router) == []

    def test_what_takes_more_than_it_must_is_a_handler(self) -> None:
        async def anything(*given: Any, **named: Any) -> None: ...

        async def with_pool(request: Any, ctx: Any, /, pool: Any, *, tariff: Any = None) -> None: ...

        router = Router()
        router.on_new(anything)
        router.on_new(with_pool)
        assert len([*router]) == 2


class TestTwoHandlersOfOneId:
    def test_are_refused(self) -> None:
        router = Router()
        router.on_new(id="tariff")(quote)
        for kind in KINDS:
            with pytest.raises(ConfigurationError, match=r"two handlers have the id 'tariff'.*id="):
                on(router, kind)(id="tariff")(log)
        assert (only(router).function, [kind for kind in KINDS if only(router).handles(kind)]) == (quote, ["new"])

    def test_are_refused_where_functions_share_a_name(self) -> None:
        def made() -> Any:
            async def handler(request: Any, ctx: Any) -> None: ...

            return handler

        router = Router()
        router.on_new(made())
        with pytest.raises(ConfigurationError, match=r"two handlers have the id .*made"):
            router.on_updated(made())

    @pytest.mark.parametrize("kind", KINDS)
    def test_are_refused_where_one_is_registered_twice_for_a_kind(self, kind: str) -> None:
        router = Router()
        on(router, kind)(quote)
        with pytest.raises(ConfigurationError, match=f"the handler 'quote' is registered twice for {kind}$"):
            on(router, kind)(quote)
        assert len([*router]) == 1

    @pytest.mark.parametrize("more", [{"retries": 3}, {"timeout": 5}], ids=str)
    def test_are_refused_where_their_options_differ(self, more: dict[str, Any]) -> None:
        router = Router()
        router.on_new(quote)
        with pytest.raises(ConfigurationError, match=r"'quote' has other retries or .* id="):
            router.on_updated(**more)(quote)
        assert [kind for kind in KINDS if only(router).handles(kind)] == ["new"]
        router.on_updated(id="other", **more)(quote)
        assert [one.id for one in router] == ["quote", "other"]


class TestIncluding:
    def test_takes_over_what_is_there_now(self) -> None:
        router, bot = Router(), Bot(store=None)
        bot.on_gap(log)
        router.on_new(origin="Hong Kong")(quote)
        bot.include(router)
        router.on_withdrawn(id="late")(log)
        assert [one.id for one in bot] == ["log", "quote"]
        assert [one.id for one in router] == ["quote", "late"]
        handler = [*bot][1]
        assert handler.matches(event("new"))
        assert not handler.matches(event("new", RateRequest(index=1, origin="Oslo")))

    def test_joins_the_kinds_of_one_function(self) -> None:
        router, other, bot = Router(), Router(), Bot(store=None)
        router.on_new(quote)
        router.on_updated(quote)
        other.on_withdrawn(quote)
        bot.include(router)
        bot.include(other)
        assert [kind for kind in KINDS if only(bot).handles(kind)] == ["new", "updated", "withdrawn"]
        assert [kind for kind in KINDS if only(router).handles(kind)] == ["new", "updated"]

    def test_refuses_the_id_of_another(self) -> None:
        router, bot = Router(), Bot(store=None)
        bot.on_new(id="tariff")(quote)
        router.on_gap(id="first")(log)
        router.on_updated(id="tariff")(log)
        with pytest.raises(ConfigurationError, match="two handlers have the id 'tariff'"):
            bot.include(router)
        assert [one.id for one in bot] == ["tariff"], "all of them or none"

    def test_refuses_the_same_twice(self) -> None:
        router, bot = Router(), Bot(store=None)
        router.on_new(quote)
        bot.include(router)
        for again in (router, bot):
            with pytest.raises(ConfigurationError, match="'quote' is registered twice for new"):
                bot.include(again)

    @pytest.mark.parametrize("value", [None, 5, [Router()], Router], ids=["None", "number", "list", "class"])
    def test_refuses_what_is_no_router(self, value: Any) -> None:
        with pytest.raises(ConfigurationError, match=r"^include takes a Router, not a "):
            Bot(store=None).include(value)


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_argument_is_what_the_event_is_about(kind: str) -> None:
    about = event(kind)
    expected = {"gap": about, "unreadable": about, "selected": getattr(about, "bid", None)}
    assert subject(about) is expected.get(kind, getattr(about, "request", None))


class TestTheArgumentsOfABot:
    @pytest.mark.parametrize("value", [5, "https://host/api", object], ids=str)
    def test_exchange(self, value: Any) -> None:
        unmade(f"exchange must be a FreightExchange, not a {type(value).__name__}", exchange=value)

    @pytest.mark.parametrize("value", [0, -1, 1001, 2.0, True, None, "8", math.inf], ids=repr)
    def test_concurrency(self, value: Any) -> None:
        unmade(f"concurrency must be a whole number from 1 to 1000, not {value!r}", concurrency=value)

    @pytest.mark.parametrize("value", [-1, 65536, 80.0, True, "80"], ids=repr)
    def test_port(self, value: Any) -> None:
        unmade(f"port must be a whole number from 0 to 65535, not {value!r}", port=value)

    @pytest.mark.parametrize("value", [5, "pool", {"pool": 1}], ids=str)
    def test_lifespan(self, value: Any) -> None:
        unmade(f"lifespan must be a function, not a {type(value).__name__}", lifespan=value)

    @pytest.mark.parametrize("name", ["interval", "allowance", "drain", "settle", "selection_interval"])
    @pytest.mark.parametrize("value", [30, 0.5, 0, True, None, "30 s"], ids=repr)
    def test_durations(self, name: str, value: Any) -> None:
        unmade(f"{name} must be a timedelta", **{name: value})

    @pytest.mark.parametrize("name", ["interval", "allowance", "drain", "settle", "selection_interval"])
    def test_durations_that_are_negative(self, name: str) -> None:
        unmade(f"{name} must be ", **{name: timedelta(seconds=-1)})

    @pytest.mark.parametrize("name", ["interval", "allowance", "selection_interval"])
    def test_durations_of_nothing(self, name: str) -> None:
        said = unmade(f"{name} must be ", **{name: timedelta(0)})
        assert "more than 0" in said

    @pytest.mark.parametrize("name", ["interval", "selection_interval"])
    def test_durations_that_would_flood_the_service(self, name: str) -> None:
        said = unmade(f"{name} must be at least one second", **{name: timedelta(microseconds=999_999)})
        assert "spare the service" in said

    @pytest.mark.parametrize("name", ["interval", "allowance"])
    def test_durations_longer_than_a_feed_takes(self, name: str) -> None:
        unmade(f"{name} must be at most", **{name: timedelta(days=1, seconds=1)})

    @pytest.mark.parametrize("value", ["yesterday", 5, None, True, timedelta(seconds=-1), timedelta(days=6)], ids=repr)
    def test_start(self, value: Any) -> None:
        unmade("start must be ", start=value)

    @pytest.mark.parametrize("value", ["", None, 5], ids=repr)
    def test_name(self, value: Any) -> None:
        unmade("name must be ", name=value)

    @pytest.mark.parametrize("value", ["\ud800", "bids \udfff"], ids=ascii)
    def test_name_that_cannot_be_kept(self, value: str) -> None:
        unmade("name holds half a character (a lone surrogate), which cannot be kept", name=value)

    def test_lifespan_that_cannot_be_called(self) -> None:
        async def two(exchange: Any, settings: Any) -> Any:
            yield settings

        async def by_name(*, exchange: Any) -> Any:
            yield exchange

        for lifespan, missing in ((two, "'settings'"), (by_name, "'exchange'"), (dict.get, ""), (type, "")):
            said = unmade("lifespan must be a function of the exchange, or of nothing: ", lifespan=lifespan)
            assert missing in said

    @pytest.mark.parametrize("value", [1, None, "yes"], ids=repr)
    def test_standby(self, value: Any) -> None:
        unmade("standby must be ", standby=value)

    @pytest.mark.parametrize("value", [5, object(), b"bot.db"], ids=lambda value: type(value).__name__)
    def test_store(self, value: Any) -> None:
        unmade("store must be ", store=value)

    @pytest.mark.parametrize("value", [5, None, ""], ids=repr)
    def test_host(self, value: Any) -> None:
        unmade("host must be ", host=value)

    def test_the_widest_that_there_are(self) -> None:
        Bot(store=None, concurrency=1, port=0, drain=timedelta(0), settle=timedelta(0), start=timedelta(0))
        Bot(store=None, concurrency=1000, port=65535, interval=timedelta(days=1), allowance=timedelta(days=1))
        Bot(store="bot.db", start=timedelta(days=5), standby=True, name="bids", host="::1")

    def test_a_drain_without_end(self) -> None:
        Bot(store=None, drain=timedelta.max, settle=timedelta.max, selection_interval=timedelta.max)

    def test_a_store_must_be_named(self) -> None:
        with pytest.raises(TypeError, match="store"):
            Bot()  # type: ignore[call-arg]  # whether anything lasts is a decision


def refused(kind: str, message: str, **keywords: Any) -> str:
    """Both the decorator and what it decorates are left alone; what was said."""
    router = Router()
    with pytest.raises(ConfigurationError, match=f"^{re.escape(message)}") as caught:
        on(router, kind)(**keywords)
    assert list(router) == []
    assert len(str(caught.value)) < 250
    return str(caught.value)


def unmade(message: str, **arguments: Any) -> str:
    with pytest.raises(ConfigurationError, match=f"^{re.escape(message)}") as caught:
        Bot(**{"store": None, **arguments})
    assert len(str(caught.value)) < 250
    return str(caught.value)
