"""Changes of outcomes that `differences` lists, worked out by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final

import attrs
from tests.contract.scenarios import Failed, Outcomes

from freight_exchange import (
    BadRequestError,
    Bid,
    BidStatus,
    Company,
    Contact,
    FreightExchangeError,
    Listing,
    NotFoundError,
    Offer,
    OfferStatus,
    RateRequest,
    RequestStatus,
    Route,
    User,
    ValidationError,
)
from freight_exchange.models import UnknownWord
from freight_exchange.models._base import Record

__all__: list[str] = []

Change = Callable[[str, Outcomes], Outcomes]
SHIPMENTS: Final = (RateRequest, Listing, Bid)

SUBMIT: Final = ("POST quote/request (submit)", "POST quote/bid", "POST quote/submitoffer")
RESPOND: Final = ("POST quote/offer", "POST quote/approveoffer")
ROUTE_WRITES: Final = ("POST route", "PUT route")
PUBLISH: Final = ("POST quote/request (publish)", "POST quote/submitrequest", "POST request")


# Combinators


def records(kind: type[Any] | tuple[type[Any], ...], change: Callable[[Any], Any]) -> Change:
    """Change every record of a kind, nested ones included."""

    def walk(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return type(value)(map(walk, value))
        if not isinstance(value, Record):
            return value
        inner = {field.name: walk(getattr(value, field.name)) for field in attrs.fields(type(value))}
        whole = type(value)(**inner)
        return change(whole) if isinstance(whole, kind) else whole

    return lambda row, outcomes: {name: walk(value) for name, value in outcomes.items()}


def rows(names: tuple[str, ...], change: Callable[[Outcomes], Outcomes]) -> Change:
    """Change the outcomes of some rows."""
    return lambda row, outcomes: {**outcomes, **change(outcomes)} if row in names else outcomes


def fails(error: type[FreightExchangeError], *parts: str, field: str = "") -> Callable[[Outcomes], Outcomes]:
    """Replace these outcomes, or all, with an error."""
    return lambda outcomes: dict.fromkeys(parts or outcomes, Failed(error, field))


def both(*changes: Change) -> Change:
    def one_after_another(row: str, outcomes: Outcomes) -> Outcomes:
        for change in changes:
            outcomes = change(row, outcomes)
        return outcomes

    return one_after_another


def lists(change: Callable[[str, list[Any]], object]) -> Change:
    """Change every listing."""
    return lambda row, outcomes: {
        name: change(name, value) if isinstance(value, list) else value for name, value in outcomes.items()
    }


def only(*indexes: int) -> Callable[[list[Any]], list[Any]]:
    return lambda found: [record for record in found if record.index in indexes]


# The changes


def unknown_word(field: str, word: str, *kinds: type[Any]) -> Change:
    def change(record: Any) -> Any:
        return attrs.evolve(record, **{field: UnknownWord(word)}) if record.index % 2 else record

    return records(kinds, change)


def without_dates(text: str | None) -> Change:
    def kept(*keys: str) -> Mapping[str, object]:
        return {} if text is None else dict.fromkeys(keys, text)

    sailing = ("cycutoff", "cfscutoff", "estDeparture", "estArrival")
    gone = dict.fromkeys(("cy_cutoff", "cfs_cutoff", "departure", "arrival"))
    update = fails(BadRequestError) if text is not None else fails(ValidationError, field="cy_cutoff")
    return both(
        records(SHIPMENTS, lambda shipment: attrs.evolve(shipment, need_date=None, extra=kept("needdate"))),
        records(User, lambda user: attrs.evolve(user, last_login=None, extra=kept("lastlogin"))),
        records(Route, lambda route: attrs.evolve(route, **gone, extra=kept(*sailing))),
        rows(("PUT route",), update),
    )


EXTRA: Final = {"xShard": 7, "xAudit": {"by": "system", "flags": [1, None]}}


def missing(kind: type[Any], names: str) -> Change:
    return records(kind, lambda record: attrs.evolve(record, **dict.fromkeys(names.split())))


WITHOUT_OPTIONAL: Final = both(
    missing(RateRequest, "ref_id notes measure_unit mass_unit incoterm hazardous"),
    missing(Listing, "ref_id notes measure_unit mass_unit"),
    missing(Bid, "ref_id notes measure_unit mass_unit"),
    missing(Offer, "terms rates"),
    missing(User, "middle_name title image_url last_login"),
    missing(Route, "cy_cutoff cfs_cutoff vessel voyage_id"),
    missing(Company, "address1 state phone fax oti_license"),
    rows(("PUT route",), fails(ValidationError, field="cy_cutoff")),
)


def without_every_second(name: str, found: list[Any]) -> list[Any]:
    return found[::2] if name == "paged" else found[:1] + found[2:]


POISONED: Final = both(
    lists(without_every_second),
    # The second currency is the euro, which then cannot be found by its code.
    rows(SUBMIT, fails(ValidationError, "second", field="currency")),
)


PASSED_OVER: Final = {
    3: Offer(id=5005, amount=Decimal(950), currency=840, status=OfferStatus.PENDING),
    5: Offer(id=5006, amount=Decimal(400), currency=840, status=OfferStatus.PENDING),
}


def every_offer(listing: Listing) -> Listing:
    other = PASSED_OVER.get(listing.index)
    if listing.selected is None or other is None:
        return listing
    offers = sorted((listing.selected, other), key=lambda offer: offer.id or 0)
    return attrs.evolve(listing, offers=tuple(offers))


def with_a_fee(offer: Offer) -> Offer:
    return attrs.evolve(offer, rates={**offer.rates, "Platform Fee": Decimal(25)}) if offer.rates else offer


def priced(full: str, second: str) -> Change:
    def priced(bid: Any, amount: str) -> Any:
        return attrs.evolve(bid, amount=Decimal(amount), offer=attrs.evolve(bid.offer, amount=Decimal(amount)))

    return rows(SUBMIT, lambda o: {"full": priced(o["full"], full), "second": priced(o["second"], second)})


def settled(status: RequestStatus | UnknownWord) -> Change:
    def change(record: Any) -> Any:
        return attrs.evolve(record, status=status) if record.status == "Selected" else record

    return records((RateRequest, Listing), change)


def declined(word: OfferStatus | UnknownWord | None) -> Change:
    def change(outcomes: Outcomes) -> Outcomes:
        listing: Any = outcomes["declined"]
        offers = tuple(attrs.evolve(offer, status=word) for offer in listing.offers) if word is not None else ()
        return {"declined": attrs.evolve(listing, offers=offers)}

    return rows(RESPOND, change)


def switched(outcomes: Outcomes) -> Outcomes:
    approved: Any = outcomes["approved"]
    taken = Offer(id=5003, amount=Decimal(1650), currency=978, status=OfferStatus.SELECTED)
    contact = Contact(name="Rita Rival", email="rival@demo.example")
    company = attrs.evolve(approved.company, name="Rival & Co. Ltd")
    return {"another": attrs.evolve(approved, offers=(taken,), selected=taken, contact=contact, company=company)}


def late(outcomes: Outcomes) -> Outcomes:
    like: Any = outcomes["bare"]
    offer = attrs.evolve(like.offer, id=5011, amount=Decimal(850), currency=840)
    status, amount = BidStatus.SELECTED, Decimal(850)
    return {
        "late": attrs.evolve(like, index=3, ref_id="FX000003", status=status, amount=amount, currency=840, offer=offer)
    }


def body_dropped(row: str, outcomes: Outcomes) -> Outcomes:
    if row == "GET quote/request":
        # Without the window the service lists what changed within the hour, and the oldest request is older.
        recent = only(4, 2)(listed(outcomes, "all"))
        everything: Outcomes = dict.fromkeys(("all", "paged", "recent", "none"), recent)
        return {**outcomes, **everything, "old": Failed(NotFoundError)}
    if row in ("GET route", "GET quote/bid"):
        kept = {"none"} if row == "GET quote/bid" else set()
        return {
            name: outcomes["all"] if isinstance(value, list) and name not in kept else value
            for name, value in outcomes.items()
        }
    return outcomes


def listed(outcomes: Outcomes, name: str) -> list[Any]:
    value = outcomes[name]
    assert isinstance(value, list)
    return value


LOOKUPS: Final = ("one", "old", "settled", "bare", "missing")


def text_indexes(row: str, outcomes: Outcomes) -> Outcomes:
    if row in PUBLISH:
        return outcomes
    # What names a record: every look-up, and these writes whole; the route filter takes a carrier's index.
    whole = row in (*SUBMIT, *RESPOND, *ROUTE_WRITES)
    refused = {*LOOKUPS, "carrier"} if not whole else outcomes.keys()
    return {name: Failed(BadRequestError) if name in refused else value for name, value in outcomes.items()}


def with_notes(outcomes: Outcomes) -> Outcomes:
    published: Any = outcomes["full"]
    return {"full": attrs.evolve(published, notes="Keep dry.")}


HIDDEN: Final = rows(
    ("POST quote/getrequests",),
    lambda o: {
        **{name: only(4, 2, 1)(listed(o, name)) for name in ("all", "paged", "recent")},
        "settled": Failed(NotFoundError),
    },
)
NO_ROUTE: Final = rows(ROUTE_WRITES, lambda o: {"full": None})
NO_FEES: Final = records(Offer, lambda offer: attrs.evolve(offer, rates={}) if offer.rates is None else offer)


def any_missing(row: str, outcomes: Outcomes) -> Outcomes:
    return {name: Failed(BadRequestError) if name == "missing" else value for name, value in outcomes.items()}
