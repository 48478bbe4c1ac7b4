"""The shape of every record: which field stands under which keys, and what of it hangs together."""

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
from freight_exchange.models.validation import known_zone
from freight_exchange.wire import names
from freight_exchange.wire.converter import CONVERTER, Extra, Field, Flaws, Raw, RecordShape, register
from freight_exchange.wire.negotiation import NEGOTIATED, NOTHING_THERE, negotiate
from freight_exchange.wire.readers import (
    Unreadable,
    flag,
    integer,
    kind,
    moment,
    number,
    quantity,
    text,
    word,
)

__all__ = ["CONVERTER"]

SHIPMENT: Final = (
    Field("index", integer, names.INDEX, required=True),
    Field("ref_id", text, names.REF_ID),
    Field("commodity", text, names.COMMODITY),
    Field("type", word(RequestType), names.TYPE),
    Field("origin", text, names.ORIGIN),
    Field("destination", text, names.DESTINATION),
    Field("need_date", moment, names.NEED_DATE),
    Field("notes", text, names.NOTES),
    Field("quantity", quantity, names.QUANTITY),
    Field("packaging", word(Packaging), names.PACKAGING),
    Field("length", number, names.LENGTH),
    Field("width", number, names.WIDTH),
    Field("height", number, names.HEIGHT),
    Field("measure_unit", text, names.MEASURE_UNIT),
    Field("weight", number, names.WEIGHT),
    Field("mass_unit", text, names.MASS_UNIT),
    Field("incoterm", text, names.INCOTERM),
    Field("hazardous", flag, names.HAZARDOUS),
)


def _user_parts(raw: Raw, extra: Extra, _: Flaws | None) -> dict[str, object]:
    company = raw.get(names.USER_COMPANY)
    if company in NOTHING_THERE:
        return {}
    if isinstance(company, dict):
        return {"company": _OWN_COMPANY.structure(company)}
    extra[names.USER_COMPANY] = company
    return {}


def _offer_parts(raw: Raw, extra: Extra, _: Flaws | None) -> dict[str, object]:
    rates = raw.get(names.RATES)
    if rates is None:
        return {}
    if rates == []:
        return {"rates": FrozenMapping()}
    if not isinstance(rates, dict):
        raise Unreadable(names.RATES, f"{kind(rates)} where a map of fees is due")
    fees = {name: _rate(name, fee) for name, fee in rates.items()}
    # A fee without an amount cannot be added up, and its name is information all the same.
    unsaid = {name: rates[name] for name, fee in fees.items() if fee is None}
    if unsaid:
        extra[names.RATES] = unsaid
    return {"rates": FrozenMapping({name: fee for name, fee in fees.items() if fee is not None})}


def _rate(name: str, fee: object) -> Decimal | None:
    try:
        return number(fee)
    except ValueError as error:
        raise Unreadable(f"{names.RATES}.{name}", str(error)) from None


def _listing_parts(raw: Raw, extra: Extra, flaws: Flaws | None) -> dict[str, object]:
    found = negotiate(raw, extra, flaws)
    selected = None if found.selected is None else found.offers[found.selected]
    return {**found.contacts, "offers": tuple(found.offers.values()), "selected": selected}


def _bid_parts(raw: Raw, extra: Extra, flaws: Flaws | None) -> dict[str, object]:
    found = negotiate(raw, extra, flaws)
    offer = None if found.used is None else found.offers.get(found.used)
    if offer is None and found.offers:
        # The record does not say which of them is meant: they are kept, not guessed.
        extra[names.OFFER] = raw[names.OFFER]
    return {**found.contacts, "offer": offer}


def _complete_bid(bid: Bid) -> Bid:
    """The price of a listed bid stands on the record, that of a submitted one in its offer."""
    offer = bid.offer
    if offer is None or (bid.amount is not None and bid.currency is not None):
        return bid
    amount = offer.amount if bid.amount is None else bid.amount
    return attrs.evolve(bid, amount=amount, currency=offer.currency if bid.currency is None else bid.currency)


def _complete_route(route: Route) -> Route:
    zone = None if not route.timezone else known_zone(route.timezone)
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
    Contact, RecordShape(Contact, (Field("name", text, names.NAME), Field("email", text, names.EMAIL)))
)
_COMPANY: Final = (
    Field("index", integer, names.INDEX),
    Field("name", text, names.NAME),
    Field("address1", text, names.ADDRESS1),
    Field("city", text, names.CITY),
    Field("state", text, names.STATE),
    Field("postal", text, names.POSTAL),
    Field("country", text, names.COUNTRY),
    Field("phone", text, names.PHONE),
    Field("fax", text, names.FAX),
    Field("oti_license", text, names.OTI_LICENSE),
)
COMPANY: Final = register(Company, RecordShape(Company, _COMPANY))
# An account with an odd company could never log in, though its token is good.
_OWN_COMPANY: Final = RecordShape(Company, _COMPANY, forgiving=True)
USER: Final = register(
    User,
    RecordShape(
        User,
        (
            Field("first_name", text, names.FIRST_NAME),
            Field("middle_name", text, names.MIDDLE_NAME),
            Field("last_name", text, names.LAST_NAME),
            Field("email", text, names.EMAIL),
            Field("title", text, names.TITLE),
            Field("enabled", flag, names.ENABLED),
            Field("last_login", moment, names.LAST_LOGIN),
            Field("image_url", text, names.IMAGE_URL),
        ),
        parts=_user_parts,
        also=(names.USER_COMPANY, *names.LIFETIME),
        forgiving=True,
    ),
)
OFFER: Final = register(
    Offer,
    RecordShape(
        Offer,
        (
            Field("id", integer, names.OFFER_ID),
            Field("amount", number, names.OFFER_AMOUNT),
            Field("currency", integer, names.CURRENCY),
            Field("status", word(OfferStatus), names.STATUS),
            Field("terms", text, names.TERMS),
        ),
        parts=_offer_parts,
        also=(names.RATES,),
    ),
)
REQUEST: Final = register(
    RateRequest, RecordShape(RateRequest, (*SHIPMENT, Field("status", word(RequestStatus), names.STATUS)))
)
LISTING: Final = register(
    Listing,
    RecordShape(
        Listing,
        (*SHIPMENT, Field("status", word(RequestStatus), names.STATUS)),
        parts=_listing_parts,
        also=NEGOTIATED,
    ),
)
BID: Final = register(
    Bid,
    RecordShape(
        Bid,
        (
            *SHIPMENT,
            Field("status", word(BidStatus), names.STATUS),
            Field("amount", number, names.PRICE),
            Field("currency", integer, names.CURRENCY),
        ),
        parts=_bid_parts,
        complete=_complete_bid,
        also=NEGOTIATED,
    ),
)
ROUTE: Final = register(
    Route,
    RecordShape(
        Route,
        (
            Field("index", integer, names.INDEX, required=True),
            Field("origin", text, names.ORIGIN),
            Field("destination", text, names.DESTINATION),
            Field("cy_cutoff", moment, names.CY_CUTOFF),
            Field("cfs_cutoff", moment, names.CFS_CUTOFF),
            Field("departure", moment, names.DEPARTURE),
            Field("arrival", moment, names.ARRIVAL),
            Field("carrier", integer, names.CARRIER),
            Field("vessel", text, names.VESSEL),
            Field("voyage_id", text, names.VOYAGE_ID),
            Field("timezone", text, names.TIMEZONE),
        ),
        complete=_complete_route,
    ),
)
CARRIER: Final = register(
    Carrier,
    RecordShape(Carrier, (Field("index", integer, names.INDEX, required=True), Field("name", text, names.NAME))),
)
CURRENCY: Final = register(
    Currency,
    RecordShape(
        Currency,
        (
            Field("index", integer, names.INDEX, required=True),
            Field("name", text, names.NAME),
            Field("code", text, names.CODE),
        ),
    ),
)
