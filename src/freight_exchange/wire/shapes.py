"""Shapes of all records: the keys of each field, nested records and dependent fields."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Final

import attrs

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
from freight_exchange.models._base import FrozenMapping
from freight_exchange.models.validation import find_zone
from freight_exchange.wire import fields
from freight_exchange.wire.converter import CONVERTER, Extra, Field, Flaws, Raw, RecordShape, register
from freight_exchange.wire.nested_offers import NOTHING_THERE, OFFER_KEYS, read_nested_offers
from freight_exchange.wire.scalars import (
    UnreadableRecordError,
    date_time,
    flag,
    integer,
    kind,
    number,
    quantity,
    text,
    word,
)

__all__ = ["CONVERTER"]

SHIPMENT: Final = (
    Field("index", integer, fields.INDEX, required=True),
    Field("ref_id", text, fields.REF_ID),
    Field("commodity", text, fields.COMMODITY),
    Field("type", word(RequestType), fields.TYPE),
    Field("origin", text, fields.ORIGIN),
    Field("destination", text, fields.DESTINATION),
    Field("need_date", date_time, fields.NEED_DATE),
    Field("notes", text, fields.NOTES),
    Field("quantity", quantity, fields.QUANTITY),
    Field("packaging", word(Packaging), fields.PACKAGING),
    Field("length", number, fields.LENGTH),
    Field("width", number, fields.WIDTH),
    Field("height", number, fields.HEIGHT),
    Field("measure_unit", text, fields.MEASURE_UNIT),
    Field("weight", number, fields.WEIGHT),
    Field("mass_unit", text, fields.MASS_UNIT),
    Field("incoterm", text, fields.INCOTERM),
    Field("hazardous", flag, fields.HAZARDOUS),
)


def _user_parts(raw: Raw, extra: Extra, _: Flaws | None) -> dict[str, object]:
    company = raw.get(fields.USER_COMPANY)
    if company in NOTHING_THERE:
        return {}
    if isinstance(company, dict):
        return {"company": _OWN_COMPANY.structure(company)}
    extra[fields.USER_COMPANY] = company
    return {}


def _offer_parts(raw: Raw, extra: Extra, _: Flaws | None) -> dict[str, object]:
    rates = raw.get(fields.RATES)
    if rates is None:
        return {}
    if rates == []:
        return {"rates": FrozenMapping()}
    if not isinstance(rates, dict):
        raise UnreadableRecordError(fields.RATES, f"{kind(rates)} where a map of fees is expected")
    fees = {name: _rate(name, fee) for name, fee in rates.items()}
    # A fee without an amount cannot be added up, but its name is information.
    without_amount = {name: rates[name] for name, fee in fees.items() if fee is None}
    if without_amount:
        extra[fields.RATES] = without_amount
    return {"rates": FrozenMapping({name: fee for name, fee in fees.items() if fee is not None})}


def _rate(name: str, fee: object) -> Decimal | None:
    try:
        return number(fee)
    except ValueError as error:
        raise UnreadableRecordError(f"{fields.RATES}.{name}", str(error)) from None


def _listing_parts(raw: Raw, extra: Extra, flaws: Flaws | None) -> dict[str, object]:
    found = read_nested_offers(raw, extra, flaws)
    selected = None if found.selected is None else found.offers[found.selected]
    return {**found.contacts, "offers": tuple(found.offers.values()), "selected": selected}


def _bid_parts(raw: Raw, extra: Extra, flaws: Flaws | None) -> dict[str, object]:
    found = read_nested_offers(raw, extra, flaws)
    offer = None if found.used is None else found.offers.get(found.used)
    if offer is None and found.offers:
        # The record does not tell which offer it is about: all are kept in `extra`.
        extra[fields.OFFER] = raw[fields.OFFER]
    return {**found.contacts, "offer": offer}


def _complete_bid(bid: Bid) -> Bid:
    """Copy the price of a submitted bid from its offer; a listed bid has it in the record."""
    offer = bid.offer
    if offer is None or (bid.amount is not None and bid.currency is not None):
        return bid
    amount = offer.amount if bid.amount is None else bid.amount
    return attrs.evolve(bid, amount=amount, currency=offer.currency if bid.currency is None else bid.currency)


def _complete_route(route: Route) -> Route:
    zone = None if not route.timezone else find_zone(route.timezone)
    if zone is None:
        return route

    def zoned(moment: datetime | None) -> datetime | None:
        return None if moment is None else moment.replace(tzinfo=zone)

    return attrs.evolve(
        route,
        cy_cutoff=zoned(route.cy_cutoff),
        cfs_cutoff=zoned(route.cfs_cutoff),
        departure=zoned(route.departure),
    )


CONTACT: Final = register(
    Contact, RecordShape(Contact, (Field("name", text, fields.NAME), Field("email", text, fields.EMAIL)))
)
_COMPANY: Final = (
    Field("index", integer, fields.INDEX),
    Field("name", text, fields.NAME),
    Field("address1", text, fields.ADDRESS1),
    Field("city", text, fields.CITY),
    Field("state", text, fields.STATE),
    Field("postal", text, fields.POSTAL),
    Field("country", text, fields.COUNTRY),
    Field("phone", text, fields.PHONE),
    Field("fax", text, fields.FAX),
    Field("oti_license", text, fields.OTI_LICENSE),
)
COMPANY: Final = register(Company, RecordShape(Company, _COMPANY))
# Forgiving, since an account with an unreadable company could otherwise not log in.
_OWN_COMPANY: Final = RecordShape(Company, _COMPANY, forgiving=True)
USER: Final = register(
    User,
    RecordShape(
        User,
        (
            Field("first_name", text, fields.FIRST_NAME),
            Field("middle_name", text, fields.MIDDLE_NAME),
            Field("last_name", text, fields.LAST_NAME),
            Field("email", text, fields.EMAIL),
            Field("title", text, fields.TITLE),
            Field("enabled", flag, fields.ENABLED),
            Field("last_login", date_time, fields.LAST_LOGIN),
            Field("image_url", text, fields.IMAGE_URL),
        ),
        parts=_user_parts,
        also=(fields.USER_COMPANY, *fields.LIFETIME),
        forgiving=True,
    ),
)
OFFER: Final = register(
    Offer,
    RecordShape(
        Offer,
        (
            Field("id", integer, fields.OFFER_ID),
            Field("amount", number, fields.OFFER_AMOUNT),
            Field("currency", integer, fields.CURRENCY),
            Field("status", word(OfferStatus), fields.STATUS),
            Field("terms", text, fields.TERMS),
        ),
        parts=_offer_parts,
        also=(fields.RATES,),
    ),
)
REQUEST: Final = register(
    RateRequest, RecordShape(RateRequest, (*SHIPMENT, Field("status", word(RequestStatus), fields.STATUS)))
)
LISTING: Final = register(
    Listing,
    RecordShape(
        Listing,
        (*SHIPMENT, Field("status", word(RequestStatus), fields.STATUS)),
        parts=_listing_parts,
        also=OFFER_KEYS,
    ),
)
BID: Final = register(
    Bid,
    RecordShape(
        Bid,
        (
            *SHIPMENT,
            Field("status", word(BidStatus), fields.STATUS),
            Field("amount", number, fields.PRICE),
            Field("currency", integer, fields.CURRENCY),
        ),
        parts=_bid_parts,
        complete=_complete_bid,
        also=OFFER_KEYS,
    ),
)
ROUTE: Final = register(
    Route,
    RecordShape(
        Route,
        (
            Field("index", integer, fields.INDEX, required=True),
            Field("origin", text, fields.ORIGIN),
            Field("destination", text, fields.DESTINATION),
            Field("cy_cutoff", date_time, fields.CY_CUTOFF),
            Field("cfs_cutoff", date_time, fields.CFS_CUTOFF),
            Field("departure", date_time, fields.DEPARTURE),
            Field("arrival", date_time, fields.ARRIVAL),
            Field("carrier", integer, fields.CARRIER),
            Field("vessel", text, fields.VESSEL),
            Field("voyage_id", text, fields.VOYAGE_ID),
            Field("timezone", text, fields.TIMEZONE),
        ),
        complete=_complete_route,
    ),
)
CARRIER: Final = register(
    Carrier,
    RecordShape(Carrier, (Field("index", integer, fields.INDEX, required=True), Field("name", text, fields.NAME))),
)
CURRENCY: Final = register(
    Currency,
    RecordShape(
        Currency,
        (
            Field("index", integer, fields.INDEX, required=True),
            Field("name", text, fields.NAME),
            Field("code", text, fields.CODE),
        ),
    ),
)
