"""Tests of comparing offers in one currency."""

from __future__ import annotations

from decimal import Decimal

import pytest

from freight_exchange import Currency, Listing, Offer, OfferStatus, ValidationError, quotes
from freight_exchange.testing import Sandbox

CURRENCIES = [Currency(index=840, code="USD"), Currency(index=978, code="eur"), Currency(index=392, code="JPY")]
RATES: dict[str, str | float] = {"EUR": "1.08", "JPY": 0.0067}


def offer(id: int, amount: str | None, currency: int | None = 840, **others: object) -> Offer:
    figure = None if amount is None else Decimal(amount)
    return Offer(id=id, amount=figure, currency=currency, status=OfferStatus.PENDING, **others)  # type: ignore[arg-type]


async def test_offers_are_ranked_by_total_in_one_currency() -> None:
    listing = Listing(index=4, offers=(offer(1, "1000"), offer(2, "900", 978), offer(3, "150000", 392)))
    comparison = await quotes.compare(listing, to="usd", rates=RATES, currencies=CURRENCIES)
    assert comparison.currency == "USD"
    rows = [(row.rank, row.offer.id, row.total, row.currency) for row in comparison.offers]
    assert rows == [(1, 2, Decimal("972.00"), "EUR"), (2, 1, Decimal(1000), "USD"), (3, 3, Decimal(1005), "JPY")]
    assert comparison.best is comparison.offers[0]


async def test_equal_totals_share_a_rank_in_the_order_of_the_listing() -> None:
    comparison = await quotes.compare(
        [offer(1, "200"), offer(2, "100"), offer(3, "100.00")], to="USD", currencies=CURRENCIES
    )
    assert [(row.rank, row.offer.id) for row in comparison.offers] == [(1, 2), (1, 3), (3, 1)]


async def test_fees_are_compared_by_name_in_any_case() -> None:
    comparison = await quotes.compare(
        [
            offer(1, "100", rates={"Ocean Freight": Decimal(90), "Documents": Decimal(10)}),
            offer(2, "100", 978, rates={"ocean  freight": Decimal(80), "Chassis": Decimal(20)}),
            offer(3, "300"),
        ],
        to="USD",
        rates=RATES,
        currencies=CURRENCIES,
    )
    assert comparison.fee_names == ("Ocean Freight", "Documents", "Chassis")
    figures = [(row.offer.id, figure) for row, figure in comparison.by_fee("OCEAN FREIGHT")]
    assert figures == [(2, Decimal("86.40")), (1, Decimal(90))]
    assert comparison.by_fee("Insurance") == ()


async def test_terms_that_not_every_offer_has_stand_out() -> None:
    comparison = await quotes.compare(
        [
            offer(1, "1", terms="Valid 14 days; subject to space."),
            offer(2, "2", terms="valid 14 days. Payment in 30 days"),
        ],
        to="USD",
        currencies=CURRENCIES,
    )
    assert comparison.common_terms == ("Valid 14 days",)
    assert [row.own_terms for row in comparison.offers] == [("subject to space",), ("Payment in 30 days",)]


async def test_best_is_pending_and_offers_without_an_amount_have_no_rank() -> None:
    declined = Offer(id=1, amount=Decimal(1), currency=840, status=None)
    unpriced = offer(3, None)
    comparison = await quotes.compare([declined, offer(2, "2"), unpriced], to="USD", currencies=CURRENCIES)
    assert comparison.best is not None
    assert comparison.best.offer.id == 2
    assert comparison.unpriced == (unpriced,)
    empty = await quotes.compare([], to="USD", currencies=CURRENCIES)
    assert (empty.best, empty.offers, empty.common_terms) == (None, (), ())


@pytest.mark.parametrize("amount", ["0", "-5"])
async def test_offer_of_nothing_or_less_is_never_the_best(amount: str) -> None:
    mistake = offer(1, amount)
    comparison = await quotes.compare([mistake, offer(2, "900")], to="USD", currencies=CURRENCIES)
    assert comparison.best is not None
    assert comparison.best.offer.id == 2
    assert comparison.unpriced == (mistake,)


async def test_code_of_a_currency_may_have_spaces_around_it() -> None:
    comparison = await quotes.compare([offer(1, "5", 826)], to="GBP", currencies=[Currency(index=826, code=" gbp ")])
    assert [row.currency for row in comparison.offers] == ["GBP"]


async def test_async_rates_are_asked_once_for_each_currency() -> None:
    pairs = []

    async def rates(code: str, target: str) -> str:
        pairs.append((code, target))
        return "2"

    offers = [offer(1, "10", 978), offer(2, "20", 978), offer(3, "30")]
    comparison = await quotes.compare(offers, to="USD", rates=rates, currencies=CURRENCIES)
    assert pairs == [("EUR", "USD")]
    assert [row.total for row in comparison.offers] == [20, 30, 40]


@pytest.mark.parametrize(
    ("rates", "currency", "to", "message"),
    [
        (
            None,
            978,
            "USD",
            "an offer is in EUR: give the exchange rate of EUR to USD",
        ),
        ({"JPY": 1}, 978, "USD", "an offer is in EUR"),
        ({"EUR": 0}, 978, "USD", r"rates\['EUR'\] must be greater than zero"),
        ({"EUR": "x"}, 978, "USD", r"rates\['EUR'\] must be a number"),
        ({"euro": 1}, 978, "USD", "rates must be three letters such as USD, not 'euro'"),
        ({}, 978, "$", "to must be three letters such as USD"),
        ({}, 756, "USD", "offer 1 is in currency 756, which the list of currencies does not name"),
        ({}, None, "USD", "offer 1 is in currency None"),
        ({"EUR": "1.08", "eur": "1.2"}, 978, "USD", "rates has several rates of EUR"),
        ([("EUR", 1)], 978, "USD", "rates must be a mapping or an async function"),
        (lambda code, to: 1, 978, "USD", "rates must be a mapping or an async function"),
    ],
)
async def test_nothing_is_compared_without_a_rate(rates: object, currency: int, to: str, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        await quotes.compare([offer(1, "1", currency)], to=to, rates=rates, currencies=CURRENCIES)  # type: ignore[arg-type]


async def test_offers_of_the_service_are_compared_with_its_own_list_of_currencies() -> None:
    sandbox = Sandbox()
    request = sandbox.publish()
    async with sandbox.client() as forwarder:
        await forwarder.bids.submit(request, amount=100, currency="EUR")
    async with sandbox.client(sandbox.rival) as rival:
        await rival.bids.submit(request, amount=250, currency="USD")
    async with sandbox.client(sandbox.shipper) as exchange:
        comparison = await quotes.compare(
            await exchange.offers.get(request), to="USD", rates={"EUR": 2}, currencies=exchange.currencies.list()
        )
    assert [(row.currency, row.total) for row in comparison.offers] == [("EUR", Decimal(200)), ("USD", Decimal(250))]
