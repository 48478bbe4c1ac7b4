"""Tests of offer records: a stored record loads with the same digits."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any, get_args

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from freight_exchange import Bid, Company, Contact, Offer, UnknownWord, validation
from freight_exchange.bot.offers.record import OfferRecord, State, is_offer, offer_key
from freight_exchange.models import BidStatus, SubmitOffer
from freight_exchange.store.work import Effect

RECORD = OfferRecord(request=4, handler="quote", amount=Decimal("1840.50"), currency=978)
indexes = st.integers(1, 2**62)
money = st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=0, max_value=10**12)
amounts = st.decimals(allow_nan=False, allow_infinity=False, min_value=0, max_value=10**25).filter(bool)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
words = texts.filter(str.strip)
fees = st.none() | st.dictionaries(words, amounts | money.map(lambda fee: -fee), max_size=3)
offers = st.none() | st.builds(
    Offer,
    id=st.none() | indexes,
    amount=st.none() | money,
    currency=st.none() | indexes,
    terms=st.none() | texts,
    rates=st.none() | st.dictionaries(words, money, max_size=2),
)
bids = st.builds(
    Bid,
    index=indexes,
    ref_id=st.none() | texts,
    origin=st.none() | texts,
    quantity=st.none() | indexes,
    weight=st.none() | money,
    hazardous=st.none() | st.booleans(),
    status=st.none() | st.sampled_from(BidStatus) | st.just(UnknownWord("Frozen")),
    amount=st.none() | money,
    currency=st.none() | indexes,
    offer=offers,
    contact=st.none() | st.builds(Contact, name=st.none() | texts, email=st.none() | texts),
    company=st.none() | st.builds(Company, index=st.none() | indexes, name=st.none() | texts),
)
records = st.builds(
    OfferRecord,
    request=indexes,
    revision=st.integers(0, 99),
    state=st.sampled_from(get_args(State)),
    handler=texts,
    amount=amounts | money.filter(bool),
    currency=indexes,
    rates=fees,
    terms=st.none() | texts,
    baseline=st.lists(bids, max_size=3).map(tuple),
    bid=st.none() | bids,
    refusal=st.none() | texts,
    status=st.none() | st.integers(100, 599),
    changed_fields=st.lists(words, max_size=2).map(tuple),
    own_update=st.none() | indexes,
    checks=st.integers(0, 1000),
    resends=st.integers(0, 3),
    unknown_since=st.none() | st.floats(0, 1e12),
    parked=st.booleans(),
    at=st.floats(0, 1e12),
)


def digits(value: Any) -> Any:
    """Convert numbers to text: `Decimal("1.50")` differs from `Decimal("1.5")` here."""
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, tuple):
        return [digits(item) for item in value]
    if hasattr(value, "keys"):
        return {name: digits(value[name]) for name in value}
    if attrs.has(type(value)):
        return {field.name: digits(getattr(value, field.name)) for field in attrs.fields(type(value))}
    return type(value), str(value)


class TestStorage:
    @given(records)
    def test_effect_gives_the_same_record_back(self, record: OfferRecord) -> None:
        effect = record.to_effect()
        back = OfferRecord.from_effect(effect)
        assert back == record
        assert digits(back) == digits(record)
        assert (effect.key, effect.state, effect.at) == (record.key, record.state, record.at)
        assert back.to_effect() == effect

    @given(records)
    def test_is_ascii_json(self, record: OfferRecord) -> None:
        payload = record.to_effect().payload
        assert payload.isascii()
        assert isinstance(json.loads(payload), dict)

    def test_keeps_order_of_fees(self) -> None:
        """The shipper sees the fees in this order."""
        record = attrs.evolve(RECORD, rates={"Ocean Freight": Decimal(1700), "Chassis Fee": Decimal("140.50")})
        back = OfferRecord.from_effect(record.to_effect())
        assert back.rates is not None
        assert [*back.rates] == ["Ocean Freight", "Chassis Fee"]

    @pytest.mark.parametrize(
        "amount", ["0.01", "1840.50", "1840.5", "1E+3", "12345678901234567890.123456789012345678", "1e-29"]
    )
    def test_keeps_digits_of_amounts(self, amount: str) -> None:
        arguments = validation.amount(amount, "amount")
        back = OfferRecord.from_effect(
            attrs.evolve(RECORD, amount=arguments, rates=validation.rates({"Freight": amount})).to_effect()
        )
        assert back.rates is not None
        assert str(back.amount) == str(back.rates["Freight"]) == str(arguments)

    def test_empty_fees_differ_from_none(self) -> None:
        assert OfferRecord.from_effect(attrs.evolve(RECORD, rates={}).to_effect()).rates == {}
        assert OfferRecord.from_effect(RECORD.to_effect()).rates is None
        assert OfferRecord.from_effect(attrs.evolve(RECORD, terms="").to_effect()).terms == ""
        assert OfferRecord.from_effect(RECORD.to_effect()).terms is None

    def test_unknown_state_raises(self) -> None:
        effect = attrs.evolve(RECORD.to_effect(), state="reported")
        with pytest.raises(ValueError, match="not a state of an offer: 'reported'"):
            OfferRecord.from_effect(effect)

    def test_ignores_what_a_newer_version_has_stored(self) -> None:
        """During a deploy, newer replicas write to the same tables."""
        effect = RECORD.to_effect()
        newer = json.dumps({**json.loads(effect.payload), "invented_later": 1}).encode()
        assert OfferRecord.from_effect(attrs.evolve(effect, payload=newer)) == RECORD


class TestKey:
    @given(indexes, st.integers(0, 99), indexes, st.integers(0, 99))
    @example(1, 11, 11, 1)
    @example(4, 2, 4, 2)
    def test_is_unique(self, one: int, first: int, two: int, second: int) -> None:
        assert (offer_key(one, first) == offer_key(two, second)) == ((one, first) == (two, second))

    @given(records)
    def test_is_made_of_request_and_revision(self, record: OfferRecord) -> None:
        assert record.key == offer_key(record.request, record.revision) == record.to_effect().key
        assert is_offer(record.to_effect())

    def test_format_is_stable(self) -> None:
        """A changed format would hide each stored offer, and the bot would repeat it."""
        assert offer_key(4, 0) == "offer:4:0"
        assert offer_key(17, 2) == "offer:17:2"

    @pytest.mark.parametrize("key", ["selected:4", "selections", "handler:quote", "offers:4:0", "offer", "x offer:4:0"])
    def test_other_effects_are_no_offers(self, key: str) -> None:
        assert not is_offer(Effect(key=key, state="confirmed", payload=b"", at=0.0))


class TestEquality:
    def test_write_has_all_fields(self) -> None:
        record = attrs.evolve(RECORD, rates={"Freight": Decimal(1700)}, terms="14 days", revision=3)
        assert record.write == SubmitOffer(4, Decimal("1840.50"), 978, {"Freight": Decimal(1700)}, "14 days")

    @pytest.mark.parametrize(
        "change",
        [
            {"amount": Decimal("1840.51")}, {"currency": 344}, {"terms": "14 days"}, {"terms": ""},
            {"rates": {"Freight": Decimal(1)}}, {"rates": {}}, {"request": 5},
        ],
        ids=str,
    )  # fmt: skip
    def test_differs_by_fields_that_shipper_sees(self, change: dict[str, Any]) -> None:
        assert not RECORD.is_same_offer(attrs.evolve(RECORD, **change))
        assert not attrs.evolve(RECORD, **change).is_same_offer(RECORD)

    @pytest.mark.parametrize(
        "change",
        [
            {"amount": Decimal("1840.5")}, {"handler": "other"}, {"state": "confirmed"}, {"revision": 1},
            {"bid": Bid(index=4)}, {"baseline": (Bid(index=4),)}, {"checks": 3, "parked": True}, {"at": 9.0},
            {"refusal": "no", "status": 400},
        ],
        ids=str,
    )  # fmt: skip
    def test_ignores_fields_of_ledger(self, change: dict[str, Any]) -> None:
        assert RECORD.is_same_offer(attrs.evolve(RECORD, **change))


def test_new_record_is_intent() -> None:
    assert (RECORD.state, RECORD.revision, RECORD.checks, RECORD.parked, RECORD.baseline) == ("intent", 0, 0, False, ())


def test_states_of_an_offer_are_five() -> None:
    assert set(get_args(State)) == {"intent", "sending", "unknown", "confirmed", "rejected"}


def test_text_names_request_and_later_revision() -> None:
    assert str(RECORD) == "the offer on request 4"
    assert str(attrs.evolve(RECORD, revision=2)) == "the offer on request 4, revision 2"
