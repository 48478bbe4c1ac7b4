"""Tests of writes: sent once, in doubt without a reply that shows the effect, and reconciled afterwards."""

from __future__ import annotations

import pickle
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any

import anyio
import attrs
import httpx
import pytest
import respx
from tests.calls.support import (
    BID,
    BRISK,
    LOGGED_IN,
    REQUEST,
    URL,
    Kind,
    arm,
    client,
    outcome,
    perform,
    reply,
    scripted,
    stocked,
    stranger,
    unkept,
)

from freight_exchange import (
    Applied,
    BadRequestError,
    Bot,
    ConfigurationError,
    Conflict,
    FreightExchange,
    NotApplied,
    NotFoundError,
    OutcomeUnknownError,
    RateRequestDraft,
    RouteDraft,
    StillUnknown,
    TransportError,
)
from freight_exchange.testing import FAULTS, Fault, Profile, Sandbox

pytestmark = pytest.mark.virtual_time

DRAFT = RateRequestDraft(
    commodity="Green tea",
    type="Air Freight",
    origin="Shenzhen",
    destination="Hamburg",
    arrival=datetime(2030, 3, 15, 9, 30),
    packaging="pallet",
    quantity=4,
    length="1.2",
    width=1,
    height="0.75",
    weight="210.5",
    incoterm="FOB",
    hazardous=True,
)
ROUTE = RouteDraft(
    origin="Ningbo",
    destination="Felixstowe",
    cy_cutoff=datetime(2030, 4, 2, 17),
    cfs_cutoff=datetime(2030, 4, 1, 12),
    departure=datetime(2030, 4, 4, 6),
    arrival=datetime(2030, 5, 6, 14),
    carrier=2,
    vessel="Anchor Prudence",
    voyage_id="202W",
    timezone="Asia/Shanghai",
)
OLD_ROUTE = 301


@attrs.frozen
class Write:
    """One kind of write: its address, and what it does in a sandbox with a request and an offer of the rival's."""

    method: str
    path: str
    send: Callable[[FreightExchange, Market], Awaitable[object]]
    shippers: bool = False
    baseline: Callable[[FreightExchange], Awaitable[list[Any]]] | None = None


class Market:
    """Sandbox with a request and two offers on it, all made long ago."""

    def __init__(self, **quirks: Any) -> None:
        self.sandbox = Sandbox(Profile(**quirks))
        long_ago = self.sandbox.now() - 10_000
        server = self.sandbox.exchange
        self.request = server.publish(self.sandbox.shipper, long_ago)
        self.theirs = server.offer(self.sandbox.rival, self.request, long_ago, amount=990)
        self.offer = server.offer(self.sandbox.rival, self.request, long_ago, amount=1000)

    def client(self, write: Write, **options: Any) -> FreightExchange:
        return client(self.sandbox, self.sandbox.shipper if write.shippers else None, **options)

    def sent(self, write: Write) -> list[bool]:
        """Return, for each time that the write was received, whether it was carried out."""
        return [call.processed for call in self.sandbox.audit_log.calls_to(write.method, write.path)]


async def _update(exchange: FreightExchange, _: Market) -> object:
    return await exchange.routes.update(attrs.evolve(await exchange.routes.get(OLD_ROUTE), vessel="New"))


WRITES: dict[str, Write] = {
    "submit": Write(
        "POST",
        "quote/submitoffer",
        lambda fx, market: fx.bids.submit(market.request, amount="1840.50", currency=840),
        baseline=lambda fx: fx.bids.list(sweep=True).collect(),
    ),
    "publish": Write(
        *("POST", "quote/submitrequest", lambda fx, _: fx.requests.publish(DRAFT), True),
        baseline=lambda fx: fx.offers.list().collect(),
    ),
    "approve": Write("POST", "quote/approveoffer", lambda fx, market: fx.offers.approve(market.offer), True),
    "decline": Write("POST", "quote/approveoffer", lambda fx, market: fx.offers.decline(market.offer), True),
    "create": Write(
        *("POST", "route", lambda fx, _: fx.routes.create(ROUTE)),
        baseline=lambda fx: fx.routes.list().collect(),
    ),
    "update": Write("PUT", "route", _update, baseline=lambda fx: fx.routes.list().collect()),
}
_ROUTE_BODY = {
    "origin": "Ningbo",
    "destination": "Felixstowe",
    "carrier": 2,
    "vessel": "V",
    "voyageId": "1",
    **dict.fromkeys(("cycutoff", "cfscutoff", "departure", "arrival"), "2030-04-02 17:00:00"),
    "timezone": "Asia/Shanghai",
}
RAW = Write("POST", "route", lambda fx, _: fx.request("POST", "route", body=_ROUTE_BODY))
KINDS = pytest.mark.parametrize("kind", list(WRITES))


async def doubt(
    market: Market, write: Write, exchange: FreightExchange, fault: str = "reset_after_processing", **how: Any
) -> OutcomeUnknownError[Any]:
    market.sandbox.strike(*FAULTS[fault](method=write.method, path=write.path, **how))
    with pytest.raises(OutcomeUnknownError) as caught:
        await write.send(exchange, market)
    return caught.value


# Doubt


@pytest.mark.parametrize(
    ("fault", "processed"),
    [
        ("reset_mid_body", False),
        ("reset_after_send", False),
        ("reset_after_processing", True),
        ("stall", True),
        ("stall", False),
        ("server_error_after_commit", True),
        ("unavailable_retry_after", False),
        ("request_timeout", True),
        ("redirect", False),
        ("html_200", True),
        ("half_json", True),
    ],
)
@pytest.mark.parametrize("kind", [*WRITES, "raw"])
async def test_write_without_a_reply_that_shows_its_effect_is_in_doubt(kind: str, fault: str, processed: bool) -> None:
    write, market = WRITES.get(kind, RAW), Market()
    async with market.client(write, deadline=120) as exchange:
        error = await doubt(market, write, exchange, fault, processed=processed)
    assert market.sent(write) == [processed]
    assert error.may_have_taken_effect
    assert (error.method, error.path, error.attempts) == (write.method, write.path, 1)
    assert error.write is not None


@pytest.mark.parametrize("kind", ["submit", "publish", "approve"])
async def test_reply_without_the_record_is_a_doubt(kind: str) -> None:
    """The document shows no reply to a decline, and none to a route."""
    write, market = WRITES[kind], Market()
    async with market.client(write) as exchange:
        await doubt(market, write, exchange, "maintenance_200")
    assert market.sent(write) == [True]


@KINDS
async def test_write_that_was_provably_not_sent_is_tried_again(kind: str) -> None:
    write, market = WRITES[kind], Market()
    async with market.client(write, retries=BRISK, middleware=[unkept]) as exchange:
        await exchange.login()
        market.sandbox.strike(*FAULTS["refused"](method=write.method, path=write.path, times=2))
        await write.send(exchange, market)
        market.sandbox.strike(*FAULTS["refused"](method=write.method, path=write.path, times=None))
        with pytest.raises(TransportError) as caught:
            await write.send(exchange, market)
    assert caught.value.unsent
    assert not caught.value.may_have_taken_effect
    assert market.sent(write).count(True) == 1


@KINDS
@pytest.mark.parametrize(("status", "error"), [(400, BadRequestError), (404, NotFoundError), (422, BadRequestError)])
async def test_refused_write_did_not_happen(kind: str, status: int, error: type[Exception]) -> None:
    write, market = WRITES[kind], Market()
    with scripted(reply(status, {"message": "no such port"})) as service:
        async with stranger() as exchange:
            send = write.send if kind != "update" else RAW.send
            with pytest.raises(error, match="no such port"):
                await send(exchange, market)
    assert len(service.requests) == 1


@pytest.mark.parametrize("profile", [Profile(), Profile(number_form="string"), Profile(number_form="exponent")])
@pytest.mark.parametrize(
    "name", ["reply_of_another_request", "reply_with_another_amount", "reply_with_another_currency"]
)
async def test_reply_about_another_offer_is_a_doubt(name: str, profile: Profile) -> None:
    sandbox = stocked(Sandbox(profile))
    async with client(sandbox) as exchange:
        arm(sandbox, name, Kind.WRITE)
        with pytest.raises(OutcomeUnknownError) as caught:
            await perform(exchange, Kind.WRITE)
        assert isinstance(await caught.value.reconcile(), Applied)
    assert len(sandbox.audit_log.offers_on(REQUEST)) == 1


@pytest.mark.parametrize("name", ["reply_of_another_request", "approval_of_another_offer"])
async def test_reply_about_another_approval_is_a_doubt(name: str) -> None:
    write, market = WRITES["approve"], Market()
    async with market.client(write) as exchange:
        await exchange.offers.get(market.request)
        error = await doubt(market, write, exchange, name)
        assert isinstance(await error.reconcile(), Applied)
    assert market.sent(write) == [True]


@pytest.mark.parametrize("kind", ["create", "update"])
@pytest.mark.parametrize("status", [200, 201, 204])
async def test_route_may_be_written_without_a_reply_in_its_body(kind: str, status: int) -> None:
    """The service's document shows no body for these (4.5)."""

    def answer(request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return reply(200, {"routes": [{"index": OLD_ROUTE, "origin": "A", "timezone": "UTC"}]})
        return httpx.Response(status)

    with scripted(answer) as service:
        async with stranger() as exchange:
            if kind == "create":
                await exchange.routes.create(ROUTE)
            else:
                await exchange.request("PUT", "route", body={"index": OLD_ROUTE})
    assert len(service.requests) == 1


@pytest.mark.parametrize(
    "body", [{**BID, "Unauthorized": None}, {**BID, "Unauthorized": "odd"}, {**BID, "message": "ok"}]
)
async def test_result_beside_the_key_of_a_refusal_is_no_refusal(body: dict[str, object]) -> None:
    """If it were one, the write would be sent again with a new token."""
    with scripted(reply(200, body)) as service:
        async with stranger() as exchange:
            assert await outcome(exchange, Kind.WRITE) in ("ok", "OutcomeUnknownError")
    assert len(service.requests) == 1


@pytest.mark.parametrize(
    "failure",
    ["ConnectError", "ConnectTimeout", "PoolTimeout", "ReadError", "ReadTimeout", "RemoteProtocolError", "WriteError"],
)
async def test_class_of_an_exception_proves_nothing(failure: str) -> None:
    with respx.mock(base_url=URL, assert_all_called=False) as router:
        router.post("/login").respond(json=LOGGED_IN)
        submit = router.post("/quote/submitoffer").mock(side_effect=getattr(httpx, failure))
        async with stranger(retries=BRISK) as exchange:
            with pytest.raises(OutcomeUnknownError):
                await perform(exchange, Kind.WRITE)
    assert submit.call_count == 1


def _long_refusal(size: int) -> Any:
    def mutate(good: Any, *_: object) -> Any:
        body = b'{"message": "The offer is too low.", "trace": "%s"}' % (b"x" * size)
        return attrs.evolve(good, status=400, headers=(("content-type", "application/json"),), body=body)

    return mutate


@pytest.mark.parametrize("size", [1_000, 9_000])
async def test_bot_believes_a_refusal_of_its_offer_with_a_body_of_any_length(size: int) -> None:
    sandbox = Sandbox()
    bot = Bot(store=None, start="backfill")
    mutate = _long_refusal(size)
    sandbox.strike(Fault(name="long", path=Kind.WRITE.value, processed=False, times=None, mutate=mutate))

    @bot.on_new(id="quote")
    async def quote(request: Any, ctx: Any) -> None:
        await ctx.offer(amount=5, currency="USD")

    async with sandbox.running(bot):
        sandbox.publish()
        await anyio.sleep(3600)
    assert len(sandbox.audit_log.calls_to("POST", Kind.WRITE.value)) == 1


# Reconciliation


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
