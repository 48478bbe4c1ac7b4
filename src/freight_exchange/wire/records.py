"""The shape of every record: which field stands under which keys, and what of it hangs together."""

from __future__ import annotations

from typing import Any, Final

from freight_exchange.models import (
    Bid,
    BidStatus,
    Carrier,
    Company,
    Contact,
    Currency,
    Listing,
    Offer,
    OfferStatus,
    Packaging,
    RateRequest,
    RequestStatus,
    RequestType,
    Route,
    User,
)
from freight_exchange.models._base import FrozenMapping, Record, frozen
from freight_exchange.models.validation import known_zone
from freight_exchange.wire import names
from freight_exchange.wire.converter import CONVERTER, Field, Raw, Shape, register
from freight_exchange.wire.readers import (
    FLAG,
    INTEGER,
    LENIENT_FLAG,
    MOMENT,
    NUMBER,
    TEXT,
    Unreadable,
    kind,
    number,
    place,
    word,
)

__all__: list[str] = []

_SHIPMENT: Final = (
    Field("index", INTEGER, names.INDEX, required=True),
    Field("ref_id", TEXT, names.REF_ID),
    Field("commodity", TEXT, names.COMMODITY),
    Field("type", word(RequestType), names.TYPE),
    Field("origin", TEXT, names.ORIGIN),
    Field("destination", TEXT, names.DESTINATION),
    Field("need_date", MOMENT, names.NEED_DATE),
    Field("notes", TEXT, names.NOTES),
    Field("quantity", INTEGER, names.QUANTITY),
    Field("packaging", word(Packaging), names.PACKAGING),
    Field("length", NUMBER, names.LENGTH),
    Field("width", NUMBER, names.WIDTH),
    Field("height", NUMBER, names.HEIGHT),
    Field("measure_unit", TEXT, names.MEASURE_UNIT),
    Field("weight", NUMBER, names.WEIGHT),
    Field("mass_unit", TEXT, names.MASS_UNIT),
    Field("incoterm", TEXT, names.INCOTERM),
    Field("hazardous", FLAG, names.HAZARDOUS),
)
# An absent object may come as an empty list, or as what else is empty in the backend's language.
_NOTHING: Final[tuple[object, ...]] = (None, {}, [], "", False)
_NEGOTIATED: Final = (names.OFFER, names.CONTACT, names.COMPANY)


def _nested(model: type[Record], raw: object, key: str) -> Any:
    """The record under a key, or `None` where there is nothing."""
    if raw in _NOTHING:
        return None
    try:
        return CONVERTER.structure(raw, model)
    except Unreadable as fault:
        raise fault.under(key) from None


def _finish_user(user: Any, raw: Raw) -> None:
    user.company = _nested(Company, raw.get(names.USER_COMPANY), names.USER_COMPANY)


def _finish_offer(offer: Any, raw: Raw) -> None:
    rates = raw.get(names.RATES)
    if rates is None:
        offer.rates = None
    elif isinstance(rates, dict):
        offer.rates = FrozenMapping({name: _rate(name, fee) for name, fee in rates.items() if fee is not None})
    elif rates == []:
        offer.rates = FrozenMapping()
    else:
        raise Unreadable(names.RATES, f"{kind(rates)} where a map of fees is due")


def _rate(name: str, fee: object) -> object:
    try:
        return number(fee)
    except ValueError as error:
        raise Unreadable(f"{names.RATES}.{name}", str(error)) from None


def _entries(raw: object) -> list[tuple[str, Raw]]:
    """The offer entries of a record with where each stands: one entry, a collection of them, or none."""
    if raw in _NOTHING:
        return []
    if isinstance(raw, dict):
        if any(key in raw for key in (*names.OFFER_AMOUNT, *names.OFFER_ID)):
            return [(names.OFFER, raw)]
        # The contacts of a selection may stand beside the entries.
        found = [(key, entry) for key, entry in raw.items() if key not in (names.CONTACT, names.COMPANY)]
        found.sort(key=lambda entry: place(entry[0]))
    elif isinstance(raw, list):
        found = [(str(place), entry) for place, entry in enumerate(raw)]
    else:
        raise Unreadable(names.OFFER, f"{kind(raw)} where offers are due")
    entries: list[tuple[str, Raw]] = []
    for key, entry in found:
        path = f"{names.OFFER}.{key}"
        if entry in _NOTHING:
            continue
        if not isinstance(entry, dict):
            raise Unreadable(path, f"{kind(entry)} where an offer is due")
        entries.append((path, entry))
    return entries


def _negotiate(record: Any, raw: Raw) -> tuple[tuple[Offer, ...], Offer | None]:
    """Read the offers on a record and set whom to talk to; the offers, and the selected one."""
    entries = _entries(raw.get(names.OFFER))
    offers: tuple[Offer, ...] = tuple(_nested(Offer, entry, path) for path, entry in entries)
    selected = next((place for place, offer in enumerate(offers) if offer.status == OfferStatus.SELECTED), None)
    # The approval's reply puts the contacts into the offer, bid listings on the record.
    places: list[object] = [raw, raw.get(names.OFFER)]
    if selected is not None:
        places.append(entries[selected][1])
    record.contact = _first(Contact, names.CONTACT, places)
    record.company = _first(Company, names.COMPANY, places)
    return offers, None if selected is None else offers[selected]


def _first(model: type[Record], key: str, places: list[object]) -> Any:
    found = (_nested(model, place.get(key), key) for place in places if isinstance(place, dict))
    return next((record for record in found if record is not None), None)


def _finish_listing(listing: Any, raw: Raw) -> None:
    listing.offers, listing.selected = _negotiate(listing, raw)


def _finish_bid(bid: Any, raw: Raw) -> None:
    offers, selected = _negotiate(bid, raw)
    bid.offer = selected or (offers[0] if len(offers) == 1 else None)
    if bid.offer is None:
        if offers:
            # Which of them the record speaks of cannot be known: they are kept, not guessed.
            bid.extra = frozen({**bid.extra, names.OFFER: raw[names.OFFER]})
        return
    # A listing says the price on the record, a submission's reply in its offer.
    bid.amount = bid.offer.amount if bid.amount is None else bid.amount
    bid.currency = bid.offer.currency if bid.currency is None else bid.currency


def _finish_route(route: Any, raw: Raw) -> None:
    zone = None if not route.timezone else known_zone(route.timezone)
    if zone is None:
        return
    for name in ("cy_cutoff", "cfs_cutoff", "departure"):
        moment = getattr(route, name)
        if moment is not None:
            setattr(route, name, moment.replace(tzinfo=zone))


CONTACT: Final = register(Contact, Shape(Contact, (Field("name", TEXT, names.NAME), Field("email", TEXT, names.EMAIL))))
COMPANY: Final = register(
    Company,
    Shape(
        Company,
        (
            Field("index", INTEGER, names.INDEX),
            Field("name", TEXT, names.NAME),
            Field("address1", TEXT, names.ADDRESS1),
            Field("city", TEXT, names.CITY),
            Field("state", TEXT, names.STATE),
            Field("postal", TEXT, names.POSTAL),
            Field("country", TEXT, names.COUNTRY),
            Field("phone", TEXT, names.PHONE),
            Field("fax", TEXT, names.FAX),
            Field("oti_license", TEXT, names.OTI_LICENSE),
        ),
    ),
)
USER: Final = register(
    User,
    Shape(
        User,
        (
            Field("first_name", TEXT, names.FIRST_NAME),
            Field("middle_name", TEXT, names.MIDDLE_NAME),
            Field("last_name", TEXT, names.LAST_NAME),
            Field("email", TEXT, names.EMAIL),
            Field("title", TEXT, names.TITLE),
            Field("enabled", LENIENT_FLAG, names.ENABLED),
            Field("last_login", MOMENT, names.LAST_LOGIN),
            Field("image_url", TEXT, names.IMAGE_URL),
        ),
        _finish_user,
        (names.USER_COMPANY, *names.LIFETIME),
    ),
)
OFFER: Final = register(
    Offer,
    Shape(
        Offer,
        (
            Field("id", INTEGER, names.OFFER_ID),
            Field("amount", NUMBER, names.OFFER_AMOUNT),
            Field("currency", INTEGER, names.CURRENCY),
            Field("status", word(OfferStatus), names.STATUS),
            Field("terms", TEXT, names.TERMS),
        ),
        _finish_offer,
        (names.RATES, names.CONTACT, names.COMPANY),
    ),
)
REQUEST: Final = register(
    RateRequest, Shape(RateRequest, (*_SHIPMENT, Field("status", word(RequestStatus), names.STATUS)))
)
LISTING: Final = register(
    Listing,
    Shape(
        Listing,
        (*_SHIPMENT, Field("status", word(RequestStatus), names.STATUS)),
        _finish_listing,
        _NEGOTIATED,
    ),
)
BID: Final = register(
    Bid,
    Shape(
        Bid,
        (
            *_SHIPMENT,
            Field("status", word(BidStatus), names.STATUS),
            Field("amount", NUMBER, names.PRICE),
            Field("currency", INTEGER, names.CURRENCY),
        ),
        _finish_bid,
        _NEGOTIATED,
    ),
)
ROUTE: Final = register(
    Route,
    Shape(
        Route,
        (
            Field("index", INTEGER, names.INDEX, required=True),
            Field("origin", TEXT, names.ORIGIN),
            Field("destination", TEXT, names.DESTINATION),
            Field("cy_cutoff", MOMENT, names.CY_CUTOFF),
            Field("cfs_cutoff", MOMENT, names.CFS_CUTOFF),
            Field("departure", MOMENT, names.DEPARTURE),
            Field("arrival", MOMENT, names.ARRIVAL),
            Field("carrier", INTEGER, names.CARRIER),
            Field("vessel", TEXT, names.VESSEL),
            Field("voyage_id", TEXT, names.VOYAGE_ID),
            Field("timezone", TEXT, names.TIMEZONE),
        ),
        _finish_route,
    ),
)
CARRIER: Final = register(
    Carrier,
    Shape(Carrier, (Field("index", INTEGER, names.INDEX, required=True), Field("name", TEXT, names.NAME))),
)
CURRENCY: Final = register(
    Currency,
    Shape(
        Currency,
        (
            Field("index", INTEGER, names.INDEX, required=True),
            Field("name", TEXT, names.NAME),
            Field("code", TEXT, names.CODE),
        ),
    ),
)
