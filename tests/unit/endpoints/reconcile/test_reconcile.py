"""Tests of each write with an unknown outcome: reconciliation finds the outcome, and sends nothing."""

from __future__ import annotations

import pickle
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import anyio
import pytest
from tests.unit.endpoints.doubtful_write import PATHS, PRICE, DoubtfulWrite

from freight_exchange import (
    Applied,
    Bid,
    Carrier,
    ConfigurationError,
    Listing,
    LoginRejectedError,
    NotApplied,
    OutcomeUnknownError,
    RateRequest,
    Route,
    StillUnknown,
    ValidationError,
)
from freight_exchange.testing import Cargo

pytestmark = pytest.mark.virtual_time

KINDS = pytest.mark.parametrize("kind", list(PATHS))


def each_once(name: str, *values: Any) -> pytest.MarkDecorator:
    """Parametrise one kind of write with all values, and each other kind with the first one."""
    first, *others = list(PATHS)
    return pytest.mark.parametrize(
        ("kind", name), [*((first, value) for value in values), *((kind, values[0]) for kind in others)]
    )


@KINDS
@pytest.mark.parametrize("applied", [True, False])
async def test_reconcile_finds_whether_a_write_happened_and_sends_none(kind: str, applied: bool) -> None:
    setup = DoubtfulWrite(kind)
    async with setup.client() as exchange:
        error = await setup.doubt(exchange, applied=applied)
        before = setup.writes()
        verdict = await error.reconcile()
    assert isinstance(verdict, Applied if applied else NotApplied)
    assert setup.writes() == before
    if isinstance(verdict, Applied):
        wanted = {"submit": Bid, "create": Route, "update": Route}.get(kind, Listing)
        assert isinstance(verdict.record, wanted)


@KINDS
@pytest.mark.parametrize("applied", [True, False])
async def test_baseline_decides_about_a_write(kind: str, applied: bool) -> None:
    setup = DoubtfulWrite(kind)
    if kind == "submit":
        setup.offer(777)
    async with setup.client() as exchange:
        read: dict[str, Callable[[], Awaitable[Any]]] = {
            "submit": exchange.bids.list().collect,
            "create": exchange.routes.list().collect,
            "update": exchange.routes.list().collect,
        }
        baseline = await read.get(kind, exchange.offers.list().collect)()
        error = await setup.doubt(exchange, applied=applied)
        verdict = await error.reconcile(baseline=baseline)
    assert isinstance(verdict, Applied if applied else NotApplied)


@each_once("times", (20.0, 30, True), (45.0, 30, False), (45.0, 60, True))
async def test_the_service_has_the_settle_time_to_show_it(kind: str, times: tuple[float, int, bool]) -> None:
    late, settle, seen = times
    setup = DoubtfulWrite(kind, late_visibility=late)
    async with setup.client() as exchange:
        error = await setup.doubt(exchange, applied=True)
        verdict = await error.reconcile(settle=timedelta(seconds=settle))
    assert isinstance(verdict, Applied if seen else NotApplied)


@KINDS
async def test_a_failed_reading_starts_the_count_again(kind: str) -> None:
    setup = DoubtfulWrite(kind, late_visibility=45.0)
    async with setup.client() as exchange:
        error = await setup.doubt(exchange, applied=True)

        async def fail_once() -> None:
            await anyio.sleep(20)
            # The attempts of one page in each of the sizes 100, 20 and 10.
            setup.strike_reads("server_error", times=9)

        async with anyio.create_task_group() as group:
            group.start_soon(fail_once)
            # Without the failure the count ends before the service shows it.
            assert isinstance(await error.reconcile(), Applied)


@each_once("outage", "unavailable_forever", "refused", "stall", "throttled", "unauthorized_forever")
async def test_an_outage_ends_in_doubt(kind: str, outage: str) -> None:
    setup = DoubtfulWrite(kind)
    async with setup.client() as exchange:
        error = await setup.doubt(exchange, applied=True)
        setup.strike_reads(outage, times=None)
        with anyio.fail_after(3600):
            assert await error.reconcile() == StillUnknown()


@each_once("fault", "html_200", "not_found_page", "redirect", "truncated_length", "tokens_revoked")
async def test_a_short_failure_ends_nothing(kind: str, fault: str) -> None:
    setup = DoubtfulWrite(kind)
    async with setup.client() as exchange:
        error = await setup.doubt(exchange, applied=False)
        setup.strike_reads(fault, times=4)
        assert isinstance(await error.reconcile(), NotApplied)


@each_once("outage", "unavailable_retry_after", "throttled_seconds")
async def test_the_service_is_left_alone_for_as_long_as_it_asks(kind: str, outage: str) -> None:
    setup = DoubtfulWrite(kind)
    async with setup.client() as exchange:
        error = await setup.doubt(exchange, applied=True)
        setup.strike_reads(outage, times=None, seconds=90.0)
        before = len(setup.sandbox.audit_log.calls)
        assert await error.reconcile(settle=timedelta(seconds=30)) == StillUnknown()
    # Of the three minutes in which readings may fail.
    assert len(setup.sandbox.audit_log.calls) - before <= 3


@KINDS
async def test_an_error_that_travelled_takes_the_client_as_an_argument(kind: str) -> None:
    setup = DoubtfulWrite(kind)
    async with setup.client() as exchange:
        error: OutcomeUnknownError = pickle.loads(pickle.dumps(await setup.doubt(exchange, applied=True)))
        with pytest.raises(ConfigurationError, match="client"):
            await error.reconcile()
        assert isinstance(await error.reconcile(exchange), Applied)


# Broken records


@pytest.mark.parametrize("kind", ["submit", "publish", "create"])
@pytest.mark.parametrize("poison", ["string", "null", "hollow", "bad_index"])
async def test_a_broken_record_never_proves_absence(kind: str, poison: str) -> None:
    setup = DoubtfulWrite(kind, poison=poison, order="oldest")
    if kind == "submit":
        other = setup.sandbox.exchange.publish(setup.sandbox.shipper, setup.long_ago, Cargo(commodityname="Cotton"))
        for _ in range(2):
            setup.sandbox.exchange.offer(setup.sandbox.forwarder, other, setup.long_ago)
    else:
        setup.sandbox.exchange.publish(setup.sandbox.shipper, setup.long_ago, Cargo(commodityname="Cotton"))
    async with setup.client() as exchange:
        error = await setup.doubt(exchange, applied=False)
        assert isinstance(await error.reconcile(), StillUnknown)
    whole = DoubtfulWrite(kind, poison=poison, order="newest")
    async with whole.client() as exchange:
        error = await whole.doubt(exchange, applied=True)
        # The newest is the first, and the second is the broken one.
        assert isinstance(await error.reconcile(), Applied)


# Wrong use


@pytest.mark.parametrize("settle", [timedelta(seconds=-1), 30])
async def test_a_settle_time_that_is_none(settle: Any) -> None:
    setup = DoubtfulWrite("submit")
    async with setup.client() as exchange:
        error = await setup.doubt(exchange, applied=True)
        with pytest.raises(ValidationError) as caught:
            await error.reconcile(settle=settle)
    assert caught.value.field == "settle"


RIGHT = {"submit": "Bid", "create": "Route", "update": "Route"}


@each_once(
    "wrong",
    ([RateRequest(index=7)], "RateRequest"),
    ([Carrier(index=7)], "Carrier"),
    ([7], "int"),
    ("7", "str"),
    ([None], "NoneType"),
    (5, "int"),
    ({7}, "set"),
    (iter([]), "list_iterator"),
)
async def test_a_baseline_of_anything_else(kind: str, wrong: tuple[Any, str]) -> None:
    baseline, name = wrong
    setup = DoubtfulWrite(kind)
    async with setup.client() as exchange:
        error = await setup.doubt(exchange, applied=True)
        before = len(setup.sandbox.audit_log.calls)
        with pytest.raises(ConfigurationError, match=rf"baseline .* {RIGHT.get(kind, 'Listing')}s, not (a )?{name}"):
            await error.reconcile(baseline=baseline)
    assert len(setup.sandbox.audit_log.calls) == before


@KINDS
async def test_baseline_with_records_of_another_type_is_refused(kind: str) -> None:
    setup = DoubtfulWrite(kind)
    records: dict[str, Any] = {"Bid": Bid(index=7), "Route": Route(index=7), "Listing": Listing(index=7)}
    wanted = RIGHT.get(kind, "Listing")
    async with setup.client() as exchange:
        error = await setup.doubt(exchange, applied=True)
        for name, record in records.items():
            if name != wanted:
                with pytest.raises(ConfigurationError, match=f"{wanted}s, not {name}s"):
                    await error.reconcile(baseline=[records[wanted], record])
        assert isinstance(await error.reconcile(baseline=(records[wanted],)), Applied)


async def test_a_listing_that_was_never_read_is_no_baseline() -> None:
    setup = DoubtfulWrite("publish")
    async with setup.client() as exchange:
        error = await setup.doubt(exchange, applied=True)
        unread: Any = exchange.offers.list()
        with pytest.raises(ConfigurationError, match="sequence of Listings, not a Paginator"):
            await error.reconcile(baseline=unread)


async def test_a_settle_time_of_nothing_takes_two_readings() -> None:
    setup = DoubtfulWrite("submit")
    async with setup.client() as exchange:
        error = await setup.doubt(exchange, applied=False)
        assert isinstance(await error.reconcile(settle=timedelta(0)), NotApplied)
    plain = [call for call in setup.sandbox.audit_log.calls_to("GET", "quote/bid") if "type" not in call.parameters]
    # A reading of no rows looks a hundred rows past the end, in pages of ten.
    assert len(plain) == 2 * 10


async def test_reconcile_of_a_raw_write_finds_nothing() -> None:
    setup = DoubtfulWrite("submit")
    body = {"requestIndex": setup.request, "offer": PRICE, "currencyIndex": 840}
    async with setup.client() as exchange:
        error = await setup.doubt(
            exchange, applied=True, send=lambda client: client.request("POST", PATHS["submit"], body=body)
        )
        assert await error.reconcile() == StillUnknown()


async def test_password_that_is_rejected_three_times_ends_the_search() -> None:
    setup = DoubtfulWrite("submit")
    async with setup.client() as exchange:
        error = await setup.doubt(exchange, applied=True)
        before = len(setup.sandbox.audit_log.calls)
        setup.sandbox.forwarder.password = "changed"
        setup.sandbox.exchange.expire_tokens()
        with pytest.raises(LoginRejectedError):
            await error.reconcile()
    logins = [call for call in setup.sandbox.audit_log.calls[before:] if call.path == "login"]
    assert len(logins) == 3
