"""Registration of handlers."""

from __future__ import annotations

import functools
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from tests.bot.registration import FILTERED, KINDS, on, quote

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

NOW = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
REQUEST = RateRequest(
    index=4, origin="Hong Kong", type=RequestType.SHIPPING, quantity=1, length=Decimal(3), width=Decimal(2),
    height=Decimal(1),
)  # fmt: skip


async def log(request: Any, ctx: Any) -> None: ...


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


class TestRegistration:
    @pytest.mark.parametrize("kind", KINDS)
    def test_returns_function(self, kind: str) -> None:
        assert on(Router(), kind)(quote) is quote
        assert on(Router(), kind)()(quote) is quote
        assert on(Router(), kind)(retries=1, timeout=3, id="it")(quote) is quote

    @pytest.mark.parametrize("kind", KINDS)
    def test_keeps_options(self, kind: str) -> None:
        router = Router()
        on(router, kind)(retries=0, timeout=timedelta(seconds=90), id="tariff")(quote)
        handler = only(router)
        assert (handler.id, handler.retries, handler.timeout, handler.from_start) == ("tariff", 0, 90.0, False)

    @pytest.mark.parametrize("kind", ["new", "selected"])
    def test_from_start_belongs_to_its_kind(self, kind: str) -> None:
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

    def test_default_id_is_qualified_name(self) -> None:
        class Quoter:
            async def quote(self, request: Any, ctx: Any) -> None: ...

        router = Router()
        router.on_new(Quoter().quote)
        assert only(router).id.endswith("<locals>.Quoter.quote")

    def test_function_of_several_kinds_is_one_handler(self) -> None:
        router = Router()
        router.on_new(origin="Hong Kong", retries=2)(router.on_updated(retries=2)(quote))
        router.on_withdrawn(retries=2)(quote)
        handler = only(router)
        assert [kind for kind in KINDS if handler.handles(kind)] == ["new", "updated", "withdrawn"]
        elsewhere = RateRequest(index=5, origin="Oslo")
        assert [kind for kind in KINDS if handler.matches(event(kind, elsewhere))] == ["updated", "withdrawn"]

    def test_from_start_holds_for_any_order_of_decorators(self) -> None:
        above, below = Router(), Router()
        above.on_new(from_start=True)(above.on_updated(quote))
        below.on_updated(below.on_new(from_start=True)(quote))
        for router in (above, below):
            assert only(router).from_start
            assert [kind for kind in KINDS if only(router).handles(kind)] == ["new", "updated"]

    def test_method_of_several_kinds_is_one_handler(self) -> None:
        class Quoter:
            async def quote(self, request: Any, ctx: Any) -> None: ...

        quoter, router = Quoter(), Router()
        router.on_new(quoter.quote)
        router.on_updated(quoter.quote)
        assert [kind for kind in KINDS if only(router).handles(kind)] == ["new", "updated"]
        with pytest.raises(ConfigurationError, match="two handlers have the id"):
            router.on_withdrawn(Quoter().quote)

    def test_order_is_kept(self) -> None:
        router = Router()
        router.on_new(quote)
        router.on_gap(log)
        router.on_new(id="again")(quote)
        assert [(one.id, one.function) for one in router] == [("quote", quote), ("log", log), ("again", quote)]

    def test_async_callable_is_a_handler(self) -> None:
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

    def test_by_measures_and_words(self) -> None:
        router = Router()
        router.on_new(max_volume=5)(quote)
        router.on_new(max_volume=6, id="larger")(quote)
        router.on_new(type="air freight", id="air")(quote)
        assert {one.id: one.matches(event("new")) for one in router} == {"quote": False, "larger": True, "air": False}

    @pytest.mark.parametrize("kind", FILTERED)
    @pytest.mark.parametrize("types", ["Shiping", {"Boat"}, ["Air", RequestType.TRUCKING]], ids=repr)
    def test_mistyped_type_raises(self, kind: str, types: Any) -> None:
        """A mistyped type would match no event."""
        with pytest.raises(ValidationError, match=r"type must be Shipping, Air Freight.*UnknownWord") as caught:
            on(Router(), kind)(type=types)(quote)
        assert caught.value.field == "type"

    @pytest.mark.parametrize("types", ["air  FREIGHT ", RequestType.AIR_FREIGHT, {"Trucking", UnknownWord("Boat")}])
    def test_unknown_word_is_accepted(self, types: Any) -> None:
        router = Router()
        router.on_new(type=types)(quote)
        assert not only(router).matches(event("new"))

    def test_error_of_filter_is_raised(self) -> None:
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
    def test_invalid_filter_raises(self, kind: str, field: str, value: Any) -> None:
        router = Router()
        with pytest.raises(ValidationError, match=field) as caught:
            on(router, kind)(**{field: value})
        assert caught.value.field == field
        assert list(router) == []


class TestEqualIds:
    def test_are_refused_with_advice(self) -> None:
        router = Router()
        router.on_new(id="tariff")(quote)
        for kind in KINDS:
            with pytest.raises(ConfigurationError, match=r"two handlers have the id 'tariff'.*id="):
                on(router, kind)(id="tariff")(log)
        assert (only(router).function, [kind for kind in KINDS if only(router).handles(kind)]) == (quote, ["new"])

    def test_raise_for_functions_of_one_name(self) -> None:
        def made() -> Any:
            async def handler(request: Any, ctx: Any) -> None: ...

            return handler

        router = Router()
        router.on_new(made())
        with pytest.raises(ConfigurationError, match=r"two handlers have the id .*made"):
            router.on_updated(made())

    @pytest.mark.parametrize("kind", KINDS)
    def test_raise_for_same_kind(self, kind: str) -> None:
        router = Router()
        on(router, kind)(quote)
        with pytest.raises(ConfigurationError, match=f"the handler 'quote' is registered twice for {kind}$"):
            on(router, kind)(quote)
        assert len([*router]) == 1

    @pytest.mark.parametrize("more", [{"retries": 3}, {"timeout": 5}], ids=str)
    def test_raise_for_different_options(self, more: dict[str, Any]) -> None:
        router = Router()
        router.on_new(quote)
        with pytest.raises(ConfigurationError, match=r"'quote' has other retries or .* id="):
            router.on_updated(**more)(quote)
        assert [kind for kind in KINDS if only(router).handles(kind)] == ["new"]
        router.on_updated(id="other", **more)(quote)
        assert [one.id for one in router] == ["quote", "other"]


class TestInclude:
    def test_adds_present_handlers(self) -> None:
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

    def test_merges_kinds_of_function(self) -> None:
        router, other, bot = Router(), Router(), Bot(store=None)
        router.on_new(quote)
        router.on_updated(quote)
        other.on_withdrawn(quote)
        bot.include(router)
        bot.include(other)
        assert [kind for kind in KINDS if only(bot).handles(kind)] == ["new", "updated", "withdrawn"]
        assert [kind for kind in KINDS if only(router).handles(kind)] == ["new", "updated"]

    def test_raises_for_equal_id(self) -> None:
        router, bot = Router(), Bot(store=None)
        bot.on_new(id="tariff")(quote)
        router.on_gap(id="first")(log)
        router.on_updated(id="tariff")(log)
        with pytest.raises(ConfigurationError, match="two handlers have the id 'tariff'"):
            bot.include(router)
        assert [one.id for one in bot] == ["tariff"], "all of them or none"

    def test_raises_for_second_time(self) -> None:
        router, bot = Router(), Bot(store=None)
        router.on_new(quote)
        bot.include(router)
        for again in (router, bot):
            with pytest.raises(ConfigurationError, match="'quote' is registered twice for new"):
                bot.include(again)

    @pytest.mark.parametrize("value", [None, 5, [Router()], Router], ids=["None", "number", "list", "class"])
    def test_raises_for_other_object(self, value: Any) -> None:
        with pytest.raises(ConfigurationError, match=r"^include takes a Router, not a "):
            Bot(store=None).include(value)


@pytest.mark.parametrize("kind", KINDS)
def test_subject_of_an_event_is_its_request_its_bid_or_itself(kind: str) -> None:
    about = event(kind)
    expected = {"gap": about, "unreadable": about, "selected": getattr(about, "bid", None)}
    assert subject(about) is expected.get(kind, getattr(about, "request", None))
