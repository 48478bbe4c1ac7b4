"""Tests of offers, publications and answers with an unknown outcome: what identifies them, and what cannot."""

from __future__ import annotations

from decimal import Context, Decimal, Inexact, Rounded, localcontext
from typing import Any

import anyio
import pytest
from tests.unit.endpoints.doubtful_write import PRICE, DoubtfulWrite

from freight_exchange import (
    Applied,
    Bid,
    Conflict,
    Listing,
    NotApplied,
    StillUnknown,
)
from freight_exchange.models import Respond
from freight_exchange.testing import Cargo, Fault
from freight_sandbox.faults import json_reply

pytestmark = pytest.mark.virtual_time

# Offers


async def test_equal_bid_without_baseline_counts_from_any_sender() -> None:
    setup = DoubtfulWrite("submit")
    setup.offer(PRICE)
    async with setup.client() as exchange:
        error = await setup.doubt(exchange, applied=False)
        assert isinstance(await error.reconcile(), Applied)


@pytest.mark.parametrize("second_offer", ["added", "replaced"])
@pytest.mark.parametrize("applied", [True, False])
async def test_a_twin_with_a_baseline_is_distinguished_from_one_more(second_offer: str, applied: bool) -> None:
    setup = DoubtfulWrite("submit", second_offer=second_offer)
    setup.offer(PRICE)
    async with setup.client() as exchange:
        baseline = await exchange.bids.list().collect()
        error = await setup.doubt(exchange, applied=applied)
        verdict = await error.reconcile(baseline=baseline)
    if applied and second_offer == "added":
        assert isinstance(verdict, Applied)
    else:
        # One stood before and one stands now: it may be the old one, or the new one in its place.
        assert verdict == StillUnknown(tuple(baseline))


@pytest.mark.parametrize("baseline", [True, False])
@pytest.mark.parametrize("stood", [None, 1841, 777])
async def test_a_rounded_amount_is_never_not_applied(baseline: bool, stood: int | None) -> None:
    setup = DoubtfulWrite("submit", amount_rounding="whole", second_offer="replaced")
    if stood is not None:
        setup.offer(stood)
    async with setup.client() as exchange:
        before = await exchange.bids.list().collect() if baseline else None
        error = await setup.doubt(exchange, applied=True)
        verdict = await error.reconcile(baseline=before)
    assert isinstance(verdict, StillUnknown)
    assert [bid.amount for bid in verdict.candidates if isinstance(bid, Bid)] == [Decimal(1841)]


async def test_amounts_are_compared_exactly_in_any_decimal_context() -> None:
    setup = DoubtfulWrite("submit")
    setup.offer(PRICE + Decimal("1.04"))
    async with setup.client() as exchange:
        before = await exchange.bids.list().collect()
        error = await setup.doubt(exchange, applied=False)
        with localcontext(Context(prec=1, traps=[Inexact, Rounded])):
            assert isinstance(await error.reconcile(baseline=before), NotApplied)


async def test_another_price_is_distinguished_by_a_baseline_only() -> None:
    setup = DoubtfulWrite("submit")
    setup.offer(PRICE + 100)
    async with setup.client() as exchange:
        before = await exchange.bids.list().collect()
        error = await setup.doubt(exchange, applied=False)
        assert isinstance(await error.reconcile(), StillUnknown)
        assert isinstance(await error.reconcile(baseline=before), NotApplied)


async def test_bid_in_another_currency_is_not_the_submitted_one() -> None:
    setup = DoubtfulWrite("submit")
    setup.sandbox.exchange.offer(setup.sandbox.forwarder, setup.request, setup.long_ago, amount=PRICE, currency=978)
    async with setup.client() as exchange:
        before = await exchange.bids.list().collect()
        error = await setup.doubt(exchange, applied=False)
        assert isinstance(await error.reconcile(), StillUnknown)
        assert isinstance(await error.reconcile(baseline=before), NotApplied)


async def test_every_type_of_the_bid_listing_is_read() -> None:
    setup = DoubtfulWrite("submit", bid_default="active")
    async with setup.client() as exchange:
        error = await setup.doubt(exchange, applied=True)
        # Once another offer is selected, the plain listing of this service leaves ours out.
        setup.sandbox.exchange.select(setup.rivals, setup.sandbox.now())
        assert isinstance(await error.reconcile(), Applied)
        assert isinstance(await error.reconcile(baseline=[]), StillUnknown)
    calls = setup.sandbox.audit_log.calls_to("GET", "quote/bid")
    assert {call.parameters.get("type") for call in calls} == {None, "active", "nsel", "sel", "offers"}


def _refusal(word: str, times: int | None) -> Fault:
    return Fault(
        name=f"no_{word}",
        method="GET",
        path="quote/bid",
        when=lambda call: f'"{word}"'.encode() in call.body,
        processed=False,
        times=times,
        mutate=json_reply(400, {"message": "There is no such type."}),
    )


@pytest.mark.parametrize("applied", [True, False])
async def test_a_type_that_the_service_refuses_is_passed_over(applied: bool) -> None:
    setup = DoubtfulWrite("submit")
    async with setup.client() as exchange:
        error = await setup.doubt(exchange, applied=applied)
        setup.sandbox.strike(_refusal("nsel", None), _refusal("offers", None))
        assert isinstance(await error.reconcile(), Applied if applied else NotApplied)


async def test_a_type_that_was_served_before_is_not_passed_over() -> None:
    setup = DoubtfulWrite("submit", bid_default="active", late_visibility=5.0)
    async with setup.client() as exchange:
        error = await setup.doubt(exchange, applied=True)
        setup.sandbox.exchange.select(setup.rivals, setup.sandbox.now())

        async def refuse_for_a_while() -> None:
            await anyio.sleep(3)
            setup.sandbox.strike(_refusal("nsel", None), _refusal("offers", None))
            await anyio.sleep(60)
            setup.sandbox.exchange.faults.clear()

        async with anyio.create_task_group() as group:
            group.start_soon(refuse_for_a_while)
            # It shows in these two alone, and their first readings come before it shows.
            assert isinstance(await error.reconcile(), Applied)


async def test_a_gateways_answer_to_a_login_is_no_refusal_of_a_type() -> None:
    setup = DoubtfulWrite("submit", bid_default="active")
    async with setup.client() as exchange:
        error = await setup.doubt(exchange, applied=True)
        setup.sandbox.exchange.select(setup.rivals, setup.sandbox.now())
        gateway = json_reply(400, {"error": {"code": 400}})
        typed = Fault(
            name="expired",
            method="GET",
            path="quote/bid",
            when=lambda call: b'"type"' in call.body,
            processed=False,
            times=None,
            mutate=json_reply(401, {"Unauthorized": "access denied"}),
        )
        setup.sandbox.strike(typed, Fault(name="gateway", path="login", processed=False, times=None, mutate=gateway))
        assert isinstance(await error.reconcile(), StillUnknown)
        setup.sandbox.exchange.faults.clear()
        await anyio.sleep(600)
        assert isinstance(await error.reconcile(), Applied)


# Publications


async def test_a_publication_is_recognised_though_little_comes_back_as_it_was_sent() -> None:
    quirks = {"published_dimensions": "permuted", "published_date": "day_later", "published_weight": "total"}
    setup = DoubtfulWrite("publish", optional_fields="absent", word_case="upper", number_form="padded", **quirks)
    async with setup.client() as exchange:
        error = await setup.doubt(exchange, applied=True)
        assert isinstance(await error.reconcile(), Applied)


@pytest.mark.parametrize(
    ("cargo", "verdict"),
    [
        ({}, Applied),
        ({"commodityname": "green  TEA"}, Applied),
        ({"length": 1, "width": Decimal("1.2")}, Applied),
        ({"commodityname": "Green te"}, StillUnknown),
        ({"weight": 200}, StillUnknown),
        ({"quantity": 8, "height": Decimal("0.375")}, StillUnknown),
        ({"quantity": 5}, NotApplied),
        ({"length": 2}, NotApplied),
        ({"height": Decimal("0.8")}, StillUnknown),
        ({"commodityname": "Oolong", "weight": 200}, NotApplied),
    ],
)
async def test_similar_requests_decide_about_a_publication_without_a_baseline(
    cargo: dict[str, Any], verdict: type
) -> None:
    setup = DoubtfulWrite("publish")
    sent: dict[str, Any] = {
        "commodityname": "Green tea",
        "origin": "Shenzhen",
        "destination": "Hamburg",
        "quantity": 4,
        "length": Decimal("1.2"),
        "width": 1,
        "height": Decimal("0.75"),
        "weight": Decimal("210.5"),
    }
    setup.sandbox.exchange.publish(setup.sandbox.shipper, setup.long_ago, Cargo(**(sent | cargo)))
    async with setup.client() as exchange:
        before = await exchange.offers.list().collect()
        error = await setup.doubt(exchange, applied=False)
        assert isinstance(await error.reconcile(), verdict)
        assert isinstance(await error.reconcile(baseline=before), NotApplied)


# Answers


@pytest.mark.parametrize("shape", ["entry", "collection"])
@pytest.mark.parametrize("known", [True, False])
async def test_an_approval_that_another_one_overtook(shape: str, known: bool) -> None:
    setup = DoubtfulWrite("approve", selected_offer_shape=shape)
    async with setup.client() as exchange:
        if known:
            await exchange.offers.list().collect()
        error = await setup.doubt(exchange, applied=False)
        setup.sandbox.exchange.select(setup.rivals, setup.sandbox.now())
        verdict = await error.reconcile()
    if known or shape == "collection":
        assert isinstance(verdict, Conflict)
        assert isinstance(verdict.record, Listing)
        assert verdict.record.selected is not None
        assert verdict.record.selected.id == setup.rivals
    else:
        # The request of the offer is not given, and the service no longer lists it.
        assert verdict == StillUnknown()


async def test_a_conflict_is_no_verdict_before_the_settle_time() -> None:
    setup = DoubtfulWrite("approve", second_approval="switched", late_visibility=5.0)
    async with setup.client() as exchange:
        await exchange.offers.list().collect()
        setup.sandbox.exchange.select(setup.rivals, setup.long_ago)
        error = await setup.doubt(exchange, applied=True)
        assert error.write == Respond(setup.mine, approved=True, request=setup.request)
        assert isinstance(await error.reconcile(), Applied)


async def test_a_decline_of_an_offer_that_was_selected() -> None:
    setup = DoubtfulWrite("decline")
    async with setup.client() as exchange:
        error = await setup.doubt(exchange, applied=False)
        setup.sandbox.exchange.select(setup.mine, setup.sandbox.now())
        assert isinstance(await error.reconcile(), Conflict)


async def test_a_decline_beside_a_selected_offer_that_is_listed_alone() -> None:
    """The offer is missing because another one is selected, which proves nothing about the decline."""
    setup = DoubtfulWrite("decline", selected_offer_shape="entry")
    async with setup.client() as exchange:
        await exchange.offers.list().collect()
        error = await setup.doubt(exchange, applied=False)
        setup.sandbox.exchange.select(setup.rivals, setup.sandbox.now())
        assert isinstance(await error.reconcile(), StillUnknown)


@pytest.mark.parametrize(
    ("outcome", "verdict"),
    [("declined", Applied), ("rejected", Applied), ("removed", Applied), ("unchanged", NotApplied)],
)
@pytest.mark.parametrize("words", ["documented", "upper"])
async def test_declined_offer_is_recognised_in_each_form_of_the_listing(
    outcome: str, verdict: type, words: str
) -> None:
    setup = DoubtfulWrite("decline", decline_outcome=outcome, word_case=words)
    async with setup.client() as exchange:
        await exchange.offers.list().collect()
        error = await setup.doubt(exchange, applied=True)
        found = await error.reconcile()
    assert type(found) is verdict
    if isinstance(found, Applied):
        assert found.record.index == setup.request


async def test_an_approval_of_a_declined_offer_is_a_conflict() -> None:
    setup = DoubtfulWrite("approve")
    async with setup.client() as exchange:
        error = await setup.doubt(exchange, applied=False)
        await exchange.offers.decline(setup.mine)
        assert isinstance(await error.reconcile(), Conflict)
