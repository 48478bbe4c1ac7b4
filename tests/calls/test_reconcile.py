"""Tests of reconciliation: verdicts about writes in doubt, from what the service lists and when."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Context, Decimal, Inexact, Rounded, localcontext
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import attrs
import httpx
import pytest
import respx
from tests.calls.doubts import DRAFT, KINDS, OLD_ROUTE, RAW, ROUTE, WRITES, Market, doubt
from tests.calls.support import LOGGED_IN, URL, client, reply, scripted, stranger

from freight_exchange import (
    Applied,
    Bid,
    Carrier,
    ConfigurationError,
    Conflict,
    FreightExchange,
    Listing,
    LoginRejectedError,
    NotApplied,
    OutcomeUnknownError,
    RateRequest,
    RateRequestDraft,
    Route,
    RouteDraft,
    StillUnknown,
    ValidationError,
)
from freight_exchange.models import CreateRoute, Publish, Reconciliation, Respond, SubmitOffer, UpdateRoute, Write
from freight_exchange.testing import FAULTS, Fault
from freight_sandbox.wire import Reply

pytestmark = pytest.mark.virtual_time


async def _reconciled(kind: str, fault: str, *, travels: bool = False, baseline: bool = False) -> tuple[Any, Market]:
    write, market, found = WRITES[kind], Market(), None
    async with market.client(write) as exchange:
        listed = await write.baseline(exchange) if baseline and write.baseline is not None else None
        error = await doubt(market, write, exchange, fault)
        if not travels:
            found = await error.reconcile(baseline=listed)
    if travels:
        error = pickle.loads(pickle.dumps(error))
        async with market.client(write) as later:
            with pytest.raises(ConfigurationError, match="client"):
                await error.reconcile()
            found = await error.reconcile(later, baseline=listed)
    assert len(market.sent(write)) == 1, "reconciliation sends nothing"
    return found, market


@KINDS
@pytest.mark.parametrize("baseline", [False, True], ids=["", "baseline"])
@pytest.mark.parametrize("travels", [False, True], ids=["", "pickled"])
async def test_write_that_was_carried_out_is_found(kind: str, baseline: bool, travels: bool) -> None:
    found, market = await _reconciled(kind, "reset_after_processing", baseline=baseline, travels=travels)
    assert isinstance(found, Applied)
    record = found.record
    match kind:
        case "submit":
            assert (record.index, record.amount, record.currency) == (market.request, 1840.5, 840)
        case "publish":
            assert (record.commodity, record.origin) == (DRAFT.commodity, DRAFT.origin)
        case "approve" | "decline":
            assert record.index == market.request
        case "create" | "update":
            assert record.vessel == ("New" if kind == "update" else ROUTE.vessel)


@KINDS
@pytest.mark.parametrize("travels", [False, True], ids=["", "pickled"])
async def test_absence_is_proven_over_the_settle_time(kind: str, travels: bool) -> None:
    began = anyio.current_time()
    found, _ = await _reconciled(kind, "reset_after_send", baseline=True, travels=travels)
    assert isinstance(found, NotApplied)
    assert anyio.current_time() - began >= 30


async def test_raw_write_is_never_proven() -> None:
    market = Market()
    async with market.client(RAW) as exchange:
        assert isinstance(await (await doubt(market, RAW, exchange)).reconcile(), StillUnknown)


@pytest.mark.parametrize("kind", ["approve", "update"])
async def test_another_effect_in_its_place_is_a_conflict(kind: str) -> None:
    write, market = WRITES[kind], Market()
    async with market.client(write) as exchange:
        listed = await write.baseline(exchange) if write.baseline is not None else None
        if kind == "approve":
            # A client knows the request of an offer that it has read, which may no longer be listed by itself.
            _, offer = (await exchange.offers.get(market.request)).offers
            write = attrs.evolve(write, send=lambda fx, _: fx.offers.approve(offer))
        error = await doubt(market, write, exchange, "reset_after_send")
        if kind == "approve":
            market.sandbox.exchange.select(market.theirs, market.sandbox.now())
        else:
            async with client(market.sandbox, market.sandbox.rival) as rival:
                await rival.routes.update(attrs.evolve(await rival.routes.get(OLD_ROUTE), vessel="Another"))
        found = await error.reconcile(baseline=listed)
    assert isinstance(found, Conflict)


async def test_new_bid_at_another_price_leaves_a_doubt() -> None:
    """The service may have rounded the amount."""
    write, market = WRITES["submit"], Market()
    async with market.client(write) as exchange:
        error = await doubt(market, write, exchange, "reset_after_send")
        server, sandbox = market.sandbox.exchange, market.sandbox
        server.offer(sandbox.forwarder, market.request, sandbox.now(), amount=1840)
        found = await error.reconcile(baseline=[])
    assert isinstance(found, StillUnknown)
    assert [bid.amount for bid in found.candidates] == [1840]


@KINDS
async def test_outage_of_the_listings_ends_in_doubt_in_bounded_time(kind: str) -> None:
    write, market = WRITES[kind], Market()
    async with market.client(write) as exchange:
        error = await doubt(market, write, exchange, "reset_after_send")
        market.sandbox.strike(*FAULTS["unavailable_forever"]())
        began = anyio.current_time()
        found = await error.reconcile(settle=timedelta(seconds=10))
        assert anyio.current_time() - began <= 4 * 10 + 70
    assert isinstance(found, StillUnknown)


async def test_unreadable_row_forbids_a_proof_of_absence() -> None:
    write, market = WRITES["submit"], Market()
    market.sandbox.exchange.offer(market.sandbox.forwarder, market.request, market.sandbox.now() - 9_000, amount=7)
    async with market.client(write) as exchange:
        error = await doubt(market, write, exchange, "reset_after_send")
        market.sandbox.strike(*FAULTS["poison_record"](method="GET", path="quote/bid", times=None))
        assert isinstance(await error.reconcile(settle=timedelta(seconds=5), baseline=[]), StillUnknown)


@pytest.mark.parametrize("wrong", ["x", 5, object()])
async def test_reconcile_needs_a_client_and_a_write(wrong: Any) -> None:
    write, market = WRITES["submit"], Market()
    async with market.client(write) as exchange:
        error = await doubt(market, write, exchange)
        with pytest.raises(ConfigurationError, match=type(wrong).__name__):
            await error.reconcile(wrong)
        with pytest.raises(ConfigurationError, match="no write"):
            await OutcomeUnknownError("unknown").reconcile(exchange)


# Verdicts, from what the listings show

Rows = list[dict[str, Any]]
Show = Callable[[str | None, float], Rows]
PATHS = {SubmitOffer: ("quote/bid", "bids"), Publish: ("quote/offer", "offers"), Respond: ("quote/offer", "offers")}
VIEWS = (None, "active", "nsel", "sel", "offers")


@attrs.define
class Listings:
    """Service that shows rows by the view and the second, and a record of what was read when."""

    write: Write
    show: Show
    refused: tuple[str, ...] = ()
    read: list[tuple[float, str | None]] = attrs.Factory(list)
    began: float = attrs.Factory(anyio.current_time)

    async def verdict(self, baseline: Sequence[object] | None = None, settle: float = 30) -> Reconciliation:
        with scripted(self._answer):
            async with stranger() as exchange:
                self.began = anyio.current_time()
                return await exchange.reconcile(self.write, settle=timedelta(seconds=settle), baseline=baseline)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        path, key = PATHS.get(type(self.write), ("route", "routes"))
        assert request.method == "GET"
        assert request.url.path.endswith(path)
        body = json.loads(request.content)
        view, now = body.get("type"), anyio.current_time() - self.began
        if view in self.refused:
            return reply(400, {"message": "There is no such type."})
        self.read.append((now, view))
        rows = self.show(view, now) if body["offset"] == 0 else []
        return reply(200, {key: {str(at): row for at, row in enumerate(rows)}})

    @property
    def views(self) -> list[tuple[str | None, ...]]:
        """Views that were read in each second."""
        seconds = dict.fromkeys(second for second, _ in self.read)
        return [tuple(dict.fromkeys(view for at, view in self.read if at == second)) for second in seconds]

    @property
    def end(self) -> float:
        return self.read[-1][0]


OFFER = SubmitOffer(7, Decimal("1840.50"), 840)


def row(price: object = 1840.5, currency: int = 840, index: int = 7) -> dict[str, Any]:
    return {"index": index, "price": price, "currencyIndex": currency}


def old(price: str = "1840.5", currency: int = 840) -> Bid:
    return Bid(index=7, amount=Decimal(price), currency=currency)


@pytest.mark.parametrize(
    ("rows", "baseline", "kind"),
    [
        ([], None, NotApplied),
        ([row(index=8)], None, NotApplied),
        ([row()], None, Applied),
        ([row()], [], Applied),
        ([row()], [old()], StillUnknown),
        ([row(), row()], [old()], Applied),
        # Rounded, or in place of the one before.
        ([row(1841)], None, StillUnknown),
        ([row(1841)], [], StillUnknown),
        ([row(1841)], [old("1841")], StillUnknown),
        ([row(1840)], [old("777")], StillUnknown),
        ([row(None)], [], StillUnknown),
        ([row(1940)], None, StillUnknown),
        ([row(1940)], [old("1940")], NotApplied),
        ([row(currency=978)], None, StillUnknown),
        ([row(currency=978)], [old(currency=978)], NotApplied),
        ([row("cheap")], [], StillUnknown),
    ],
)
async def test_offer_is_recognised_by_request_price_currency_and_baseline(
    rows: Rows, baseline: list[Bid] | None, kind: type
) -> None:
    assert type(await Listings(OFFER, lambda *_: rows).verdict(baseline)) is kind


async def test_amounts_are_compared_exactly_in_any_decimal_context() -> None:
    listings = Listings(OFFER, lambda *_: [row(1841.54)])
    with localcontext(Context(prec=1, traps=[Inexact, Rounded])):
        assert isinstance(await listings.verdict([old("1841.54")]), NotApplied)


@pytest.mark.parametrize(
    ("show", "baseline", "kind", "ends"),
    [
        (lambda view, now: [row()] if now > 10 else [], [], Applied, (10, 30)),
        (lambda view, now: [row()] if view == "active" and now > 10 else [], None, Applied, (30, 31)),
        # A bid that only another view shows may be older than a baseline.
        (lambda view, now: [row()] if view == "sel" else [], [], StillUnknown, (30, 31)),
        (lambda view, now: [row(1841)] if view == "sel" and now >= 30 else [], [], StillUnknown, (60, 62)),
        (lambda view, now: [row(1841)] if view == "sel" and now < 3 else [], [], NotApplied, (33, 62)),
        (lambda view, now: [row(1841)] if 5 < now < 12 else [], [], NotApplied, (42, 70)),
        # A row that moves appears twice in a reading that is not complete.
        (lambda view, now: [row(), row()] if 10 < now < 20 else [row()], [old()], StillUnknown, (30, 50)),
    ],
)
async def test_absence_must_last_for_the_settle_time(
    show: Show, baseline: list[Bid] | None, kind: type, ends: tuple[float, float]
) -> None:
    listings = Listings(OFFER, show)
    assert type(await listings.verdict(baseline)) is kind
    assert ends[0] <= listings.end <= ends[1]


@pytest.mark.parametrize("baseline", [None, []])
async def test_all_views_are_read_at_the_begin_and_the_end_of_an_absence_only(baseline: list[Bid] | None) -> None:
    listings = Listings(OFFER, lambda *_: [])
    assert isinstance(await listings.verdict(baseline), NotApplied)
    first, *between, last = listings.views
    assert first == last == VIEWS
    assert between
    assert {*between} == {(None,)}


async def test_doubt_in_the_plain_view_leaves_the_others_unread() -> None:
    listings = Listings(OFFER, lambda *_: [row(1841)])
    assert await listings.verdict([]) == StillUnknown((old("1841"),))
    assert {*listings.views} == {(None,)}


async def test_type_that_the_service_refuses_is_passed_over() -> None:
    listings = Listings(OFFER, lambda *_: [], refused=("nsel", "offers"))
    assert isinstance(await listings.verdict(), NotApplied)


async def test_type_that_was_served_before_is_not_passed_over() -> None:
    """It may be the one that shows the offer."""
    listings = Listings(OFFER, lambda view, now: [row()] if view == "nsel" and now > 100 else [])

    async def refuse_for_a_while() -> None:
        await anyio.sleep(10)
        listings.refused = ("nsel",)
        await anyio.sleep(100)
        listings.refused = ()

    async with anyio.create_task_group() as group:
        group.start_soon(refuse_for_a_while)
        assert isinstance(await listings.verdict(), Applied)


async def test_gateways_answer_to_a_login_is_no_refusal_of_a_type() -> None:
    market = Market(bid_default="active")
    async with market.client(WRITES["submit"]) as exchange:
        error = await doubt(market, WRITES["submit"], exchange)
        market.sandbox.exchange.select(market.theirs, market.sandbox.now())
        expired = FAULTS["unauthorized_forever"](method="GET", path="quote/bid")
        typed = [attrs.evolve(fault, when=lambda call: b'"type"' in call.body) for fault in expired]
        refused = Reply(400, body=b'{"error": {"code": 400}}')
        gateway = Fault(name="gateway", path="login", processed=False, times=None, mutate=lambda *_: refused)
        market.sandbox.strike(*typed, gateway)
        assert isinstance(await error.reconcile(), StillUnknown)
        market.sandbox.exchange.faults.clear()
        await anyio.sleep(600)
        assert isinstance(await error.reconcile(), Applied)


async def test_settle_time_of_nothing_takes_two_complete_readings() -> None:
    listings = Listings(OFFER, lambda *_: [])
    assert isinstance(await listings.verdict(settle=0), NotApplied)
    # A reading without rows looks a hundred rows past the end, in pages of ten.
    assert sum(view is None for _, view in listings.read) == 2 * 10


SENT = RateRequestDraft(
    commodity="Green tea", type="Shipping", origin="Hong Kong", destination="Long Beach", arrival=datetime(2027, 3, 1),
    packaging="pallet", quantity=4, length="1.2", width=1, height="0.75", weight="210.5", incoterm="FOB",
    hazardous=False,
)  # fmt: skip
SHOWN_REQUEST = {
    "index": 9, "cargoname": "Green tea", "refId": "x", "status": "Available", "origin": "Hong Kong",
    "destination": "Long Beach", "qty": 4, "weight": 210.5, "cargowidth": 1, "cargoheight": 0.75, "cargolength": 1.2,
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({}, Applied),
        ({"cargoname": "green  TEA", "needdate": "2027-03-02 00:00:00"}, Applied),
        ({"cargolength": 1, "cargowidth": 1.2}, Applied),
        ({"weight": 842}, Applied),
        ({"cargoname": "Green te"}, StillUnknown),
        ({"weight": 200}, StillUnknown),
        ({"qty": 8, "cargoheight": 0.375}, StillUnknown),
        ({"cargoheight": 0.8}, StillUnknown),
        ({"cargoname": None, "weight": None}, StillUnknown),
        ({"cargoname": "", "cargowidth": None, "qty": None}, StillUnknown),
        ({"qty": 5}, NotApplied),
        ({"cargolength": 2}, NotApplied),
        ({"cargoname": "Oolong", "weight": 200}, NotApplied),
        ({"cargoname": None, "qty": 5}, NotApplied),
    ],
)
async def test_publication_is_recognised_by_what_is_listed_of_it(changes: dict[str, Any], kind: type) -> None:
    shown = {**SHOWN_REQUEST, **changes}
    assert type(await Listings(Publish(SENT), lambda *_: [shown]).verdict()) is kind
    assert type(await Listings(Publish(SENT), lambda *_: [shown]).verdict([Listing(index=9)])) is NotApplied


NEW_ROUTE = RouteDraft(
    origin="Hong Kong", destination="Los Angeles", cy_cutoff=datetime(2027, 3, 1), cfs_cutoff=datetime(2027, 3, 1),
    departure=datetime(2027, 3, 4, 0, 0, 0, 500), arrival=datetime(2027, 3, 20), carrier=1, vessel="Aurora",
    voyage_id="041E", timezone="Asia/Hong_Kong",
)  # fmt: skip
SHOWN_ROUTE = {
    "index": 9, "origin": "Hong Kong", "destination": "Los Angeles", "cycutoff": "2027-03-01 00:00:00",
    "cfscutoff": "2027-03-01 00:00:00", "estDeparture": "2027-03-04 00:00:00", "estArrival": "2027-03-20 00:00:00",
    "carrier": 1, "vesselName": "Aurora", "voyageId": "041E", "timezone": "Asia/Hong_Kong",
}  # fmt: skip


def route(**changes: Any) -> Route:
    facts = {field.name: getattr(NEW_ROUTE, field.name) for field in attrs.fields(RouteDraft)}
    return Route(**{"index": 9, **facts, **changes})


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({}, Applied),
        ({"vesselName": "AURORA "}, Applied),
        ({"origin": "Hong Kong, HK"}, StillUnknown),
        ({"vesselName": "MV Aurora"}, StillUnknown),
        ({"voyageId": "41E"}, StillUnknown),
        ({"vesselName": None, "voyageId": None}, StillUnknown),
        ({"cycutoff": "0000-00-00 00:00:00"}, StillUnknown),
        ({"carrier": 2}, NotApplied),
        ({"voyageId": "42E", "estDeparture": "2027-03-11 00:00:00"}, NotApplied),
    ],
)
async def test_new_route_is_recognised_by_what_is_listed_of_it(changes: dict[str, Any], kind: type) -> None:
    shown = {**SHOWN_ROUTE, **changes}
    assert type(await Listings(CreateRoute(NEW_ROUTE), lambda *_: [shown]).verdict()) is kind
    assert type(await Listings(CreateRoute(NEW_ROUTE), lambda *_: [shown]).verdict([route()])) is NotApplied


BEFORE = route(vessel="Borealis")


@pytest.mark.parametrize(
    ("changes", "baseline", "kind"),
    [
        ({}, None, Applied),
        ({"vesselName": "Borealis"}, [BEFORE], NotApplied),
        # It may have been updated, and then changed back by another party.
        ({"vesselName": "Borealis"}, None, StillUnknown),
        ({"vesselName": "Borealis"}, [route(index=8)], StillUnknown),
        ({"vesselName": "Ceres"}, [BEFORE], Conflict),
        # With another vessel it would look the same.
        ({"vesselName": None}, [BEFORE], StillUnknown),
        ({"vesselName": "Borealis", "voyageId": None}, [BEFORE], StillUnknown),
        ({"vesselName": "Borealis", "voyageId": None}, [attrs.evolve(BEFORE, voyage_id=None)], NotApplied),
        ({"index": 8}, [BEFORE], StillUnknown),
    ],
)
async def test_updated_route_is_compared_with_the_new_and_the_old_one(
    changes: dict[str, Any], baseline: list[Route] | None, kind: type
) -> None:
    shown = {**SHOWN_ROUTE, **changes}
    assert type(await Listings(UpdateRoute(route()), lambda *_: [shown]).verdict(baseline)) is kind


def listing(*offers: tuple[int, str]) -> Mapping[str, Any]:
    entries = {str(at): {"offerId": id, "offerAmount": 5, "status": word} for at, (id, word) in enumerate(offers)}
    return {"index": 7, "offer": entries}


@pytest.mark.parametrize(
    ("approved", "known", "offers", "kind"),
    [
        (True, False, [(1, "selected")], Applied),
        (True, False, [(1, "pending"), (2, "pending")], NotApplied),
        (True, False, [(1, "pending"), (2, "selected")], Conflict),
        (True, False, [(1, "DECLINED")], Conflict),
        (True, False, [(1, "paused")], StillUnknown),
        # A selected offer may be listed alone.
        (True, True, [(2, "selected")], Conflict),
        (True, False, [(2, "selected")], StillUnknown),
        (True, True, [(2, "pending")], StillUnknown),
        (False, False, [(1, "declined")], Applied),
        (False, False, [(1, "Rejected")], Applied),
        (False, False, [(1, "pending")], NotApplied),
        (False, False, [(1, "selected")], Conflict),
        (False, True, [(2, "pending")], Applied),
        (False, True, [(2, "selected")], StillUnknown),
        (False, False, [(2, "pending")], StillUnknown),
    ],
)
async def test_answer_is_known_by_the_state_of_the_offer(
    approved: bool, known: bool, offers: list[tuple[int, str]], kind: type
) -> None:
    write = Respond(1, approved, 7 if known else None)
    listings = Listings(write, lambda *_: [dict(listing(*offers))])
    assert type(await listings.verdict()) is kind
    # All but a proof must last: the listing may be out of date.
    is_gone = kind is Applied and offers[0][0] != 1
    assert (listings.end >= 30) == (kind is not Applied or is_gone)


@pytest.mark.parametrize(
    ("approved", "offers", "kind"),
    [
        (True, [(2, "selected"), (1, "pending")], Conflict),
        (True, [(1, "selected"), (2, "pending")], Applied),
        (False, [(1, "pending"), (2, "pending")], NotApplied),
    ],
)
async def test_answer_is_known_from_all_rows_of_its_request(
    approved: bool, offers: list[tuple[int, str]], kind: type
) -> None:
    """A service may list a request once for each of its offers, as a join does."""
    rows = [dict(listing(offer)) for offer in offers]
    assert type(await Listings(Respond(1, approved, 7), lambda *_: rows).verdict()) is kind


@pytest.mark.parametrize("approved", [True, False])
async def test_answer_to_an_offer_that_was_read_knows_its_request(approved: bool) -> None:
    market = Market()
    name = "approve" if approved else "decline"
    async with market.client(WRITES[name]) as exchange:
        _, offer = (await exchange.offers.get(market.request)).offers
        assert offer.request == market.request
        send = exchange.offers.approve if approved else exchange.offers.decline
        write = attrs.evolve(WRITES[name], send=lambda fx, _: send(offer))
        error = await doubt(market, write, exchange)
    assert error.write == Respond(market.offer, approved, market.request)


# Calm


async def test_hundred_offers_in_doubt_share_their_readings() -> None:
    async def answer(_: httpx.Request) -> httpx.Response:
        await anyio.sleep(0.1)
        return reply(200, {"bids": {}})

    sent = []
    for offers in (1, 100):
        with respx.mock(base_url=URL, assert_all_called=False) as router:
            router.post("/login").respond(json=LOGGED_IN)
            bids = router.get("/quote/bid").mock(side_effect=answer)
            async with stranger() as exchange, anyio.create_task_group() as group:
                for number in range(offers):
                    group.start_soon(partial(exchange.reconcile, attrs.evolve(OFFER, request=number + 1)))
        sent.append(bids.call_count)
    assert sent[1] <= 4 * sent[0]


@pytest.mark.parametrize("seconds", [0.5, 1.5, 12.0])
async def test_another_reconciliation_reads_on_if_the_one_that_reads_is_cancelled(seconds: float) -> None:
    found: list[Reconciliation] = []
    began = anyio.current_time()

    async def answer(request: httpx.Request) -> httpx.Response:
        await anyio.sleep(1)
        rows = {"0": row()} if anyio.current_time() - began > 60 and b'"offset":0' in request.content else {}
        return reply(200, {"bids": rows})

    async def read(exchange: FreightExchange) -> None:
        found.append(await exchange.reconcile(OFFER))

    with respx.mock(base_url=URL, assert_all_called=False) as router:
        router.post("/login").respond(json=LOGGED_IN)
        router.get("/quote/bid").mock(side_effect=answer)
        async with stranger() as exchange, anyio.create_task_group() as group:
            with anyio.move_on_after(seconds):
                await anyio.lowlevel.checkpoint()
                group.start_soon(read, exchange)
                await exchange.reconcile(OFFER)
    assert [type(verdict) for verdict in found] == [Applied]


async def test_failure_of_a_shared_reading_is_an_error_of_its_own_for_each() -> None:
    errors: list[BaseException] = []

    async def read(exchange: FreightExchange) -> None:
        try:
            await exchange.reconcile(OFFER)
        except LoginRejectedError as error:
            errors.append(error)

    with scripted(reply(200), login=reply(401, {"message": "The user name or password is invalid."})):
        async with stranger() as exchange, anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(read, exchange)
    assert len({id(error) for error in errors}) == 3


@pytest.mark.parametrize("outage", ["unavailable_retry_after", "throttled_seconds"])
async def test_service_is_left_alone_for_as_long_as_it_asks(outage: str) -> None:
    write, market = WRITES["submit"], Market()
    async with market.client(write) as exchange:
        error = await doubt(market, write, exchange)
        market.sandbox.strike(*FAULTS[outage](method="GET", path="quote/bid", times=None, seconds=90.0))
        before = len(market.sandbox.audit_log.calls)
        assert await error.reconcile() == StillUnknown()
    # Of the three minutes in which readings may fail.
    assert len(market.sandbox.audit_log.calls) - before <= 3


@KINDS
async def test_failed_reading_starts_the_settle_time_again(kind: str) -> None:
    write, market = WRITES[kind], Market(late_visibility=45.0)
    path = {"submit": "quote/bid", "create": "route", "update": "route"}.get(kind, "quote/offer")
    async with market.client(write) as exchange:
        error = await doubt(market, write, exchange)

        async def fail_once() -> None:
            await anyio.sleep(20)
            # The attempts of one page in each of the sizes 100, 20 and 10.
            market.sandbox.strike(*FAULTS["server_error"](method="GET", path=path, times=9))

        async with anyio.create_task_group() as group:
            group.start_soon(fail_once)
            # Without the failure, the settle time ends before the service shows the write.
            assert isinstance(await error.reconcile(), Applied)


@pytest.mark.parametrize("fault", ["html_200", "not_found_page", "redirect", "truncated_length", "tokens_revoked"])
async def test_short_failure_ends_nothing(fault: str) -> None:
    write, market = WRITES["submit"], Market()
    async with market.client(write) as exchange:
        error = await doubt(market, write, exchange, "reset_after_send")
        market.sandbox.strike(*FAULTS[fault](method="GET", path="quote/bid", times=4))
        assert isinstance(await error.reconcile(), NotApplied)


async def test_password_that_is_rejected_three_times_ends_the_search() -> None:
    write, market = WRITES["submit"], Market()
    async with market.client(write) as exchange:
        error = await doubt(market, write, exchange)
        before = len(market.sandbox.audit_log.calls)
        market.sandbox.forwarder.password = "changed"
        market.sandbox.exchange.expire_tokens()
        with pytest.raises(LoginRejectedError):
            await error.reconcile()
    assert sum(call.path == "login" for call in market.sandbox.audit_log.calls[before:]) == 3


@pytest.mark.parametrize("kind", ["submit", "publish", "create"])
@pytest.mark.parametrize("poison", ["string", "null", "hollow", "bad_index"])
async def test_write_is_found_beside_an_unreadable_row(kind: str, poison: str) -> None:
    write, market = WRITES[kind], Market(poison=poison, order="newest")
    for account in (market.sandbox.forwarder, market.sandbox.rival):
        market.sandbox.exchange.offer(account, market.request, market.sandbox.now() - 9_000)
    async with market.client(write) as exchange:
        error = await doubt(market, write, exchange)
        # The newest is the first, and the second is the unreadable one.
        assert isinstance(await error.reconcile(), Applied)


# Wrong use


@pytest.mark.parametrize("settle", [timedelta(seconds=-1), 30])
async def test_settle_time_that_is_none_is_refused(settle: Any) -> None:
    async with stranger() as exchange:
        with pytest.raises(ValidationError) as caught:
            await exchange.reconcile(OFFER, settle=settle)
    assert caught.value.field == "settle"


RIGHT: dict[str, Any] = {"submit": Bid(index=7), "create": Route(index=7), "update": Route(index=7)}
WRONG = [[RateRequest(index=7)], [Carrier(index=7)], [7], "7", [None], 5, {7}, iter([])]


@KINDS
@pytest.mark.parametrize("wrong", WRONG)
async def test_baseline_of_anything_but_records_of_the_listing_is_refused(kind: str, wrong: Any) -> None:
    right = RIGHT.get(kind, Listing(index=7))
    write, market = WRITES[kind], Market()
    async with market.client(write) as exchange:
        error = await doubt(market, write, exchange)
        before = len(market.sandbox.audit_log.calls)
        for baseline in (wrong, [right, *wrong]) if isinstance(wrong, list) else (wrong,):
            with pytest.raises(ConfigurationError, match=rf"baseline .* {type(right).__name__}s, not "):
                await error.reconcile(baseline=baseline)
        assert len(market.sandbox.audit_log.calls) == before
        assert isinstance(await error.reconcile(baseline=(right,)), Applied)
