"""The shape of every record: which field stands under which keys, and what of it hangs together."""

from __future__ import annotations

from decimal import Decimal
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
from freight_exchange.models._base import FrozenMapping, frozen
from freight_exchange.models.validation import known_zone
from freight_exchange.wire import names
from freight_exchange.wire.converter import Flaws, Raw, Shape, register
from freight_exchange.wire.negotiation import NEGOTIATED, NOTHING_THERE, negotiate
from freight_exchange.wire.readers import (
    FLAG,
    INTEGER,
    MOMENT,
    NUMBER,
    QUANTITY,
    TEXT,
    Field,
    Unreadable,
    kind,
    number,
    word,
)

__all__: list[str] = []

SHIPMENT: Final = (
    Field("index", INTEGER, names.INDEX, required=True),
    Field("ref_id", TEXT, names.REF_ID),
    Field("commodity", TEXT, names.COMMODITY),
    Field("type", word(RequestType), names.TYPE),
    Field("origin", TEXT, names.ORIGIN),
    Field("destination", TEXT, names.DESTINATION),
    Field("need_date", MOMENT, names.NEED_DATE),
    Field("notes", TEXT, names.NOTES),
    Field("quantity", QUANTITY, names.QUANTITY),
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


def _finish_user(user: Any, raw: Raw, _: Flaws | None) -> None:
    company = raw.get(names.USER_COMPANY)
    if company in NOTHING_THERE:
        return
    if isinstance(company, dict):
        user.company = _OWN_COMPANY.read(company)
    else:
        user.extra = frozen({**user.extra, names.USER_COMPANY: company})


def _finish_offer(offer: Any, raw: Raw, _: Flaws | None) -> None:
    rates = raw.get(names.RATES)
    if rates is None:
        offer.rates = None
    elif isinstance(rates, dict):
        fees = {name: _rate(name, fee) for name, fee in rates.items()}
        offer.rates = FrozenMapping({name: fee for name, fee in fees.items() if fee is not None})
        if len(offer.rates) < len(fees):
            # A fee without an amount is none to add up, and its name all the same something that was said.
            unsaid = {name: rates[name] for name, fee in fees.items() if fee is None}
            offer.extra = frozen({**offer.extra, names.RATES: unsaid})
    elif rates == []:
        offer.rates = FrozenMapping()
    else:
        raise Unreadable(names.RATES, f"{kind(rates)} where a map of fees is due")


def _rate(name: str, fee: object) -> Decimal | None:
    try:
        return number(fee)
    except ValueError as error:
        raise Unreadable(f"{names.RATES}.{name}", str(error)) from None


def _finish_listing(listing: Any, raw: Raw, flaws: Flaws | None) -> None:
    found = negotiate(listing, raw, flaws)
    listing.offers = tuple(found.offers.values())
    listing.selected = None if found.selected is None else found.offers[found.selected]


def _finish_bid(bid: Any, raw: Raw, flaws: Flaws | None) -> None:
    found = negotiate(bid, raw, flaws)
    bid.offer = None if found.used is None else found.offers.get(found.used)
    if bid.offer is None:
        if found.offers:
            # Which of them the record speaks of cannot be known: they are kept, not guessed.
            bid.extra = frozen({**bid.extra, names.OFFER: raw[names.OFFER]})
        return
    # A listing says the price on the record, a submission's reply in its offer.
    bid.amount = bid.offer.amount if bid.amount is None else bid.amount
    bid.currency = bid.offer.currency if bid.currency is None else bid.currency


def _finish_route(route: Any, raw: Raw, _: Flaws | None) -> None:
    zone = None if not route.timezone else known_zone(route.timezone)
    if zone is None:
        return
    for name in ("cy_cutoff", "cfs_cutoff", "departure"):
        moment = getattr(route, name)
        if moment is not None:
            setattr(route, name, moment.replace(tzinfo=zone))


CONTACT: Final = register(Contact, Shape(Contact, (Field("name", TEXT, names.NAME), Field("email", TEXT, names.EMAIL))))
_COMPANY: Final = (
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
)
COMPANY: Final = register(Company, Shape(Company, _COMPANY))
# An account with an odd company could never log in, though its token is good.
_OWN_COMPANY: Final = Shape(Company, _COMPANY, forgiving=True)
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
            Field("enabled", FLAG, names.ENABLED),
            Field("last_login", MOMENT, names.LAST_LOGIN),
            Field("image_url", TEXT, names.IMAGE_URL),
        ),
        _finish_user,
        (names.USER_COMPANY, *names.LIFETIME),
        forgiving=True,
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
        (names.RATES,),
    ),
)
REQUEST: Final = register(
    RateRequest, Shape(RateRequest, (*SHIPMENT, Field("status", word(RequestStatus), names.STATUS)))
)
LISTING: Final = register(
    Listing,
    Shape(
        Listing,
        (*SHIPMENT, Field("status", word(RequestStatus), names.STATUS)),
        _finish_listing,
        NEGOTIATED,
    ),
)
BID: Final = register(
    Bid,
    Shape(
        Bid,
        (
            *SHIPMENT,
            Field("status", word(BidStatus), names.STATUS),
            Field("amount", NUMBER, names.PRICE),
            Field("currency", INTEGER, names.CURRENCY),
        ),
        _finish_bid,
        NEGOTIATED,
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
