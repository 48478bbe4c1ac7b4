"""Tests of the contacts and companies of a record: on the record, next to its offers, or inside them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.unit.wire.raw_records import (
    CONTACTS,
    ENTRY,
    LISTING,
    WITH_OFFERS,
    flawed,
)

from freight_exchange import wire
from freight_exchange.models import (
    Company,
    Contact,
)


class TestContacts:
    """A contact is on the record or inside `offer`."""

    CONTACT = Contact(name="Ada", email="ada@co.example")
    COMPANY = Company(name="Co", fax="1")

    @pytest.mark.parametrize(
        "raw",
        [
            pytest.param({**LISTING, **CONTACTS, "offer": ENTRY}, id="on the record"),
            pytest.param({**LISTING, "offer": {**ENTRY, "status": "selected", **CONTACTS}}, id="in the one entry"),
            pytest.param({**LISTING, "offer": {"0": ENTRY, **CONTACTS}}, id="beside the entries"),
            pytest.param({**LISTING, "offer": {**ENTRY, **CONTACTS}}, id="in the one pending entry"),
            pytest.param(
                {**LISTING, **CONTACTS, "offer": {"0": {**ENTRY, **CONTACTS}, **CONTACTS}}, id="in each of the places"
            ),
            pytest.param({**LISTING, "offer": {"0": {**ENTRY, **CONTACTS}}}, id="in the only entry"),
            pytest.param(
                {**LISTING, "offer": [{**ENTRY, "status": "Won", **CONTACTS}]}, id="in the only one of a list"
            ),
            pytest.param(
                {**LISTING, "offer": {"0": ENTRY, "1": {**ENTRY, "status": "selected", **CONTACTS}}},
                id="in the selected entry",
            ),
        ],
    )
    def test_contact_and_company_are_found_in_each_place(self, raw: dict[str, Any]) -> None:
        for kind in WITH_OFFERS:
            record = wire.decode_one({kind.collection: [raw]}, kind)
            assert (record.contact, record.company) == (self.CONTACT, self.COMPANY)
            assert record.extra == {}
            offers = record.offers if kind is wire.OFFERS else (record.offer,)
            assert [offer.extra for offer in offers if offer] == [{}] * len(offers)

    def test_of_entries_that_are_not_used(self) -> None:
        other = {"loadingPOC": {"name": "Eve"}, "rank": 2}
        entries = [{**ENTRY, **other}, {**ENTRY, "status": "selected", **CONTACTS, "rank": 1}]
        listing = wire.decode_one({"offers": [{**LISTING, "offer": entries}]}, wire.OFFERS)
        assert listing.contact == self.CONTACT
        assert [offer.extra for offer in listing.offers] == [other, {"rank": 1}]
        assert listing.selected == listing.offers[1]
        pending = wire.decode_one({"offers": [{**LISTING, "offer": [entries[0], ENTRY]}]}, wire.OFFERS)
        assert pending.contact is None
        assert pending.offers[0].extra == other

    def test_of_the_record_go_before_those_of_its_offer(self) -> None:
        raw = {**LISTING, **CONTACTS, "offer": {"0": {**ENTRY, "loadingPOC": {"name": "Eve"}}}}
        listing = wire.decode_one({"offers": [raw]}, wire.OFFERS)
        assert listing.contact == self.CONTACT
        assert listing.offers[0].extra == {"loadingPOC": {"name": "Eve"}}
        beside = {**LISTING, **CONTACTS, "offer": {"0": ENTRY, "loadingPOC": {"name": "Eve"}}}
        assert wire.decode_one({"offers": [beside]}, wire.OFFERS).extra == {"offer": {"loadingPOC": {"name": "Eve"}}}

    def test_contact_of_an_unreadable_offer_is_read(self) -> None:
        entry = {**ENTRY, "offerAmount": "much", **CONTACTS}
        listing, flaws = flawed(wire.OFFERS, {**LISTING, "offer": {"0": entry}})
        assert (listing.contact, listing.company, listing.offers) == (self.CONTACT, self.COMPANY, ())
        assert flaws == ["offers.3.offer.0.offerAmount"]

    def test_unreadable_contact_leaves_its_offer_readable(self) -> None:
        listing, flaws = flawed(wire.OFFERS, {**LISTING, "offer": {"0": {**ENTRY, "loadingPOC": {"name": []}}}})
        assert flaws == ["offers.3.offer.0.loadingPOC.name"]
        assert (listing.contact, listing.offers[0].id) == (None, 7)
        assert listing.offers[0].extra == {"loadingPOC": {"name": ()}}
        beside, flaws = flawed(wire.OFFERS, {**LISTING, "offer": {"0": ENTRY, "loadingPOC": "Ada"}})
        assert flaws == ["offers.3.offer.loadingPOC"]
        assert beside.extra == {"offer": {"loadingPOC": "Ada"}}

    @pytest.mark.parametrize("nothing", [None, {}, [], ""])
    def test_contact_and_company_may_be_absent(self, nothing: object) -> None:
        raw = {**LISTING, "loadingPOC": nothing, "loadingCompany": nothing}
        bid = wire.decode_one({"bids": [raw]}, wire.BIDS)
        assert bid.contact is None
        assert bid.company is None

    @pytest.mark.parametrize("kind", WITH_OFFERS)
    @pytest.mark.parametrize(
        ("key", "unread", "path"),
        [
            ("loadingPOC", "Bob", "loadingPOC"),
            ("loadingPOC", {"name": ()}, "loadingPOC.name"),
            ("loadingCompany", "Co", "loadingCompany"),
            ("loadingCompany", {"index": "abc", "name": "Co"}, "loadingCompany.index"),
        ],
    )
    def test_unreadable_on_the_record(self, kind: wire.Kind[Any], key: str, unread: Any, path: str) -> None:
        raw = json.loads(json.dumps({key: unread}))
        record, flaws = flawed(kind, {**LISTING, **raw, "new": 1})
        assert flaws == [f"{kind.collection}.3.{path}"]
        assert (record.contact, record.company, record.extra) == (None, None, {key: unread, "new": 1})

    def test_unreadable_on_the_record_and_readable_in_its_offer(self) -> None:
        raw = {**LISTING, "loadingPOC": "Bob", "offer": {**ENTRY, **CONTACTS}}
        for kind in WITH_OFFERS:
            record, flaws = flawed(kind, raw)
            assert flaws == [f"{kind.collection}.3.loadingPOC"]
            assert (record.contact, record.company) == (self.CONTACT, self.COMPANY)
            assert record.extra == {"loadingPOC": "Bob"}

    def test_unreadable_beside_an_unreadable_offer(self) -> None:
        raw = {**LISTING, "loadingPOC": "Bob", "offer": {"0": {**ENTRY, "offerAmount": "much"}}}
        listing, flaws = flawed(wire.OFFERS, raw)
        assert flaws == ["offers.3.offer.0.offerAmount", "offers.3.loadingPOC"]
        assert listing.extra == {"loadingPOC": "Bob", "offer": raw["offer"]}
