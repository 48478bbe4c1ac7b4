"""Replies of the service document and the records that they become, typed by hand, field by field."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any, Final
from zoneinfo import ZoneInfo

from freight_exchange import (
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
    RateRequestDraft,
    RequestStatus,
    RequestType,
    Route,
    RouteDraft,
    UnknownWord,
    User,
)

Json = dict[str, Any]

# fmt: off

# What the client sends

DRAFT: Final = RateRequestDraft(
    commodity="Ceramic tiles", type=RequestType.AIR_FREIGHT, origin="Hong Kong", destination="Long Beach",
    arrival=datetime(2027, 3, 1, 9, 30), packaging=Packaging.PALLET, quantity=20, length="1.2", width=1.05,
    height=Decimal("0.9"), weight="640.5", incoterm="fob", hazardous=True, notes="Keep dry.",
)
BARE_DRAFT: Final = RateRequestDraft(
    commodity="Ceramic tiles", type="warehousing", origin="Hong Kong", destination="Long Beach",
    arrival=datetime(2027, 3, 1), packaging="Carton", quantity=1, length=Decimal("22.68"), width=1, height=1, weight=7,
    incoterm="CIF", hazardous=False,
)
FILTERS: Final[dict[str, Any]] = {
    "origin": "Hong Kong", "destination": "Long Beach", "carrier": 3, "vessel": "Ever Given", "voyage_id": "041E",
    "timezone": "Asia/Hong_Kong", "departure": datetime(2027, 1, 4, 6), "arrival": datetime(2027, 1, 19, 14),
    "cy_cutoff": datetime(2027, 1, 2, 17), "cfs_cutoff": datetime(2027, 1, 1, 12), "departs_from": datetime(2027, 1, 3),
    "departs_until": datetime(2027, 1, 5), "arrives_from": datetime(2027, 1, 18),
    "arrives_until": datetime(2027, 1, 20), "cy_from": datetime(2027, 1, 2), "cy_until": datetime(2027, 1, 3),
    "cfs_from": datetime(2027, 1, 1), "cfs_until": datetime(2027, 1, 2),
}

# What the service replies (service document, 2 and 4)

_COMPANY: Final[Json] = {
    "name": "Forward & Co.", "address1": "1 Harbour Road", "city": "Hong Kong", "state": "HK", "postal": "00852",
    "country": "Hong Kong", "otilicense": "012345F",
}
_OWN_COMPANY: Final[Json] = {**_COMPANY, "phone": "+852 5550 0100"}
_LOADING_COMPANY: Final[Json] = {**_COMPANY, "fax": "+852 5550 0101"}
_POC: Final[Json] = {"name": "Fergus Forward", "email": "fergus@forward.example"}
_SHIPPER: Final[Json] = {
    "loadingPOC": {"name": "Sylvia Ship", "email": "sylvia@ship.example"},
    "loadingCompany": {**_LOADING_COMPANY, "name": "Ship & Co."},
}

_USER: Final[Json] = {
    "access_token": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMiJ9.c2lnbmF0dXJl", "expires_on": 3600, "firstname": "Fergus",
    "middlename": "", "lastname": "Forward", "email": "me@co.example", "title": "Manager", "enabled": "TRUE",
    "lastlogin": "2026-12-31 08:00:00", "imageUrl": "https://images.example/avatars/12.png", "company": _OWN_COMPANY,
}
_REQUEST: Final[Json] = {
    "index": 4, "commodityname": "Ceramic tiles", "refId": "FX000004", "requesttype": "Air Freight",
    "status": "Available", "origin": "Hong Kong", "destination": "Long Beach", "needdate": "2027-03-01 00:00:00",
    "notes": "20 pallets of Ceramic tiles.", "qty": 20, "packaging": "Pallet", "measureUnit": "m", "width": 1.05,
    "height": 0.9, "length": 1.2, "massUnit": "kg", "weight": 640.5, "incoterm": "FOB", "hazardous": 1,
}
_LISTED: Final[Json] = {
    "index": 4, "cargoname": "Ceramic tiles", "status": "Available", "origin": "Hong Kong", "destination": "Long Beach",
    "needdate": "2027-03-01 00:00:00", "notes": "20 pallets of Ceramic tiles.", "qty": 20, "packingtype": "Pallet",
    "measureUnit": "m", "massUnit": "kg", "weight": 640.5, "cargowidth": 1.05, "cargoheight": 0.9, "cargolength": 1.2,
}
_OTHER: Final[Json] = {**_LISTED, "index": 5, "cargoname": "Green tea", "notes": "20 pallets of Green tea."}
_FEES: Final[Json] = {"Ocean Freight": 1700, "Chassis Fee": 140.5}
_PENDING: Final[Json] = {
    "offerId": "5001", "offerAmount": 1840.5, "currencyId": 978, "status": "pending", "terms": "valid 14 days",
    "rates": _FEES,
}
_RIVAL: Final[Json] = {"offerId": "5002", "offerAmount": 1700.25, "currencyId": 840, "status": "pending"}
_CHOSEN: Final[Json] = {**_PENDING, "status": "selected"}
_APPROVED: Final[Json] = {
    "offerIndex": "5001", "offerAmount": 1840.5, "currencyId": 978, "status": "selected", "terms": "valid 14 days",
    "rates": _FEES, "loadingPOC": _POC, "loadingCompany": _LOADING_COMPANY,
}
_SENT_OFFER: Final[Json] = {
    "index": "5001", "offerAmount": 1840.5, "currencyIndex": 978, "status": "pending", "terms": "valid 14 days",
    "rates": _FEES,
}
_ROUTE: Final[Json] = {
    "index": 301, "origin": "Hong Kong", "destination": "Long Beach", "cycutoff": "2027-01-02 17:00:00",
    "cfscutoff": "2027-01-01 12:00:00", "estDeparture": "2027-01-04 06:00:00", "estArrival": "2027-01-19 14:00:00",
    "carrier": 3, "vesselName": "Ever Given", "voyageId": "041E", "timezone": "Asia/Hong_Kong",
}

REPLIES: Final[dict[str, Json]] = {
    "login": {"user": _USER},
    "rejected login": {"message": "The user name or password is invalid."},
    "unauthorized": {"Unauthorized": "Access denied."}, "requests": {"raterequests": {"0": _REQUEST}},
    "no requests": {"raterequests": {}},
    "offers": {"offers": {"0": {**_LISTED, "offer": {"0": _PENDING, "1": _RIVAL}}, "1": {**_OTHER, "offer": {}}}},
    "no offers": {"offers": {}},
    "selected offer": {
        "offers": {
            "0": {
                **_LISTED, "status": "Selected", "offer": _CHOSEN, "loadingPOC": _POC,
                "loadingCompany": _LOADING_COMPANY,
            }
        }
    },
    "approval": {"offers": {"0": {**_LISTED, "status": "Selected", "offer": _APPROVED}}},
    "bids": {
        "bids": {
            "0": {
                **_LISTED, "status": "Selected", "refId": "FX000004", "price": 1840.5, "currencyIndex": 978, **_SHIPPER,
            },
            "1": {**_OTHER, "refId": "FX000005", "price": 990.75, "currencyIndex": 840},
        }
    },
    "no bids": {"bids": {}}, "submission": {"bid": {**_LISTED, "refId": "FX000004", "offer": _SENT_OFFER}},
    "routes": {"routes": {"0": _ROUTE}}, "no routes": {"routes": {}},
    "carriers": {
        "carriers": {"0": {"index": 3, "name": "Meridian Container Lines"}, "1": {"index": 12, "name": "Silk Road"}}
    },
    "currencies": {
        "currencies": {
            "0": {"index": 840, "name": "US Dollar", "code": "USD"}, "1": {"index": 978, "name": "Euro", "code": "EUR"},
        }
    },
}

# The records of these replies

_AMOUNT: Final = Decimal("1840.5")
_RATES: Final = {"Ocean Freight": Decimal(1700), "Chassis Fee": Decimal("140.5")}
_FIELDS: Final[dict[str, Any]] = {
    "commodity": "Ceramic tiles", "origin": "Hong Kong", "destination": "Long Beach", "need_date": datetime(2027, 3, 1),
    "notes": "20 pallets of Ceramic tiles.", "quantity": 20, "packaging": Packaging.PALLET, "length": Decimal("1.2"),
    "width": Decimal("1.05"), "height": Decimal("0.9"), "measure_unit": "m", "weight": Decimal("640.5"),
    "mass_unit": "kg",
}
_OTHER_FIELDS: Final = _FIELDS | {"commodity": "Green tea", "notes": "20 pallets of Green tea."}
_ADDRESS: Final[dict[str, Any]] = {
    "address1": "1 Harbour Road", "city": "Hong Kong", "state": "HK", "postal": "00852", "country": "Hong Kong",
    "oti_license": "012345F",
}

USER: Final = User(
    first_name="Fergus", middle_name="", last_name="Forward", email="me@co.example", title="Manager", enabled=True,
    last_login=datetime(2026, 12, 31, 8), image_url="https://images.example/avatars/12.png",
    company=Company(name="Forward & Co.", phone="+852 5550 0100", **_ADDRESS),
)
REQUEST: Final = RateRequest(
    index=4, ref_id="FX000004", type=RequestType.AIR_FREIGHT, status=RequestStatus.AVAILABLE, incoterm="FOB",
    hazardous=True, **_FIELDS,
)


def _offer(status: OfferStatus) -> Offer:
    return Offer(id=5001, request=4, amount=_AMOUNT, currency=978, status=status, terms="valid 14 days", rates=_RATES)


LISTINGS: Final = [
    Listing(
        index=4, status=RequestStatus.AVAILABLE,
        offers=(
            _offer(OfferStatus.PENDING),
            Offer(id=5002, request=4, amount=Decimal("1700.25"), currency=840, status=OfferStatus.PENDING),
        ),
        **_FIELDS,
    ),
    Listing(index=5, status=RequestStatus.AVAILABLE, offers=(), **_OTHER_FIELDS),
]
SELECTED: Final = Listing(
    index=4,
    # The document shows the word for bids alone, so a request's is one that the SDK does not know.
    status=UnknownWord("Selected"), offers=(_offer(OfferStatus.SELECTED),),
    contact=Contact(name="Fergus Forward", email="fergus@forward.example"),
    company=Company(name="Forward & Co.", fax="+852 5550 0101", **_ADDRESS), **_FIELDS,
)
BIDS: Final = [
    Bid(
        index=4, ref_id="FX000004", status=BidStatus.SELECTED, amount=_AMOUNT, currency=978,
        contact=Contact(name="Sylvia Ship", email="sylvia@ship.example"),
        company=Company(name="Ship & Co.", fax="+852 5550 0101", **_ADDRESS), **_FIELDS,
    ),
    Bid(
        index=5, ref_id="FX000005", status=BidStatus.AVAILABLE, amount=Decimal("990.75"), currency=840, **_OTHER_FIELDS,
    ),
]
SUBMITTED: Final = Bid(
    index=4, ref_id="FX000004", status=BidStatus.AVAILABLE, amount=_AMOUNT, currency=978,
    offer=_offer(OfferStatus.PENDING), **_FIELDS,
)

_HONG_KONG: Final = ZoneInfo("Asia/Hong_Kong")
_SAILING: Final[dict[str, Any]] = {
    "origin": "Hong Kong", "destination": "Long Beach", "cy_cutoff": datetime(2027, 1, 2, 17, tzinfo=_HONG_KONG),
    "cfs_cutoff": datetime(2027, 1, 1, 12, tzinfo=_HONG_KONG), "departure": datetime(2027, 1, 4, 6, tzinfo=_HONG_KONG),
    # The route's zone does not apply to it (service document, Route).
    "arrival": datetime(2027, 1, 19, 14), "carrier": 3, "vessel": "Ever Given", "voyage_id": "041E",
    "timezone": "Asia/Hong_Kong",
}
ROUTE: Final = Route(index=301, **_SAILING)
ROUTE_DRAFT: Final = RouteDraft(**_SAILING)
CARRIERS: Final = [Carrier(index=3, name="Meridian Container Lines"), Carrier(index=12, name="Silk Road")]
CURRENCIES: Final = [Currency(index=840, name="US Dollar", code="USD"), Currency(index=978, name="Euro", code="EUR")]
# fmt: on
