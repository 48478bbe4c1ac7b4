"""Typed results of the documented replies, field by field, and the drafts of the documented requests."""

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
    User,
)
from freight_exchange.models import UnknownWord
from freight_sandbox import Cargo

__all__: list[str] = []

AMOUNT: Final = Decimal("1840.5")
RATES: Final = {"Ocean Freight": Decimal(1700), "Chassis Fee": Decimal("140.5")}
HONG_KONG: Final = ZoneInfo("Asia/Hong_Kong")

CARGO: Final = Cargo(
    commodityname="Ceramic tiles",
    requesttype="Air Freight",
    origin="Hong Kong",
    destination="Long Beach",
    arrival="2027-03-01 09:30:00",
    packaging="pallet",
    quantity=20,
    length=Decimal("1.2"),
    width=Decimal("1.05"),
    height=Decimal("0.9"),
    weight=Decimal("640.5"),
    hazardous=1,
)

DRAFT: Final = RateRequestDraft(
    commodity="Ceramic tiles",
    type=RequestType.AIR_FREIGHT,
    origin="Hong Kong",
    destination="Long Beach",
    arrival=datetime(2027, 3, 1, 9, 30),
    packaging=Packaging.PALLET,
    quantity=20,
    length="1.2",
    width=1.05,
    height=Decimal("0.9"),
    weight="640.5",
    incoterm="fob",
    hazardous=True,
    notes="Keep dry.",
)
BARE_DRAFT: Final = RateRequestDraft(
    commodity="Ceramic tiles",
    type="warehousing",
    origin="Hong Kong",
    destination="Long Beach",
    arrival=datetime(2027, 3, 1),
    packaging="Carton",
    quantity=1,
    length=Decimal("22.68"),
    width=1,
    height=1,
    weight=7,
    incoterm="CIF",
    hazardous=False,
)

USER: Final = User(
    first_name="Fergus",
    middle_name="",
    last_name="Forward",
    email="me@co.example",
    title="Manager",
    enabled=True,
    last_login=datetime(2026, 12, 31, 8),
    image_url="https://images.example/avatars/12.png",
    company=Company(
        name="Forward & Co.",
        address1="1 Harbour Road",
        city="Hong Kong",
        state="HK",
        postal="00852",
        country="Hong Kong",
        phone="+852 5550 0100",
        oti_license="012345F",
    ),
)

REQUEST: Final = RateRequest(
    index=4,
    ref_id="FX000004",
    commodity="Ceramic tiles",
    type=RequestType.AIR_FREIGHT,
    status=RequestStatus.AVAILABLE,
    origin="Hong Kong",
    destination="Long Beach",
    need_date=datetime(2027, 3, 1),
    notes="20 pallets of Ceramic tiles.",
    quantity=20,
    packaging=Packaging.PALLET,
    length=Decimal("1.2"),
    width=Decimal("1.05"),
    height=Decimal("0.9"),
    measure_unit="m",
    weight=Decimal("640.5"),
    mass_unit="kg",
    incoterm="FOB",
    hazardous=True,
)

_FREIGHT: Final[dict[str, Any]] = {
    "commodity": "Ceramic tiles",
    "origin": "Hong Kong",
    "destination": "Long Beach",
    "need_date": datetime(2027, 3, 1),
    "notes": "20 pallets of Ceramic tiles.",
    "quantity": 20,
    "packaging": Packaging.PALLET,
    "length": Decimal("1.2"),
    "width": Decimal("1.05"),
    "height": Decimal("0.9"),
    "measure_unit": "m",
    "weight": Decimal("640.5"),
    "mass_unit": "kg",
}
_OTHER_FREIGHT: Final = _FREIGHT | {"commodity": "Green tea", "notes": "20 pallets of Green tea."}
_COMPANY: Final[dict[str, Any]] = {
    "address1": "1 Harbour Road",
    "city": "Hong Kong",
    "state": "HK",
    "postal": "00852",
    "country": "Hong Kong",
    "fax": "+852 5550 0101",
    "oti_license": "012345F",
}


def _offer(status: OfferStatus) -> Offer:
    return Offer(id=5001, amount=AMOUNT, currency=978, status=status, terms="valid 14 days", rates=RATES)


LISTINGS: Final = [
    Listing(
        index=4,
        status=RequestStatus.AVAILABLE,
        offers=(
            _offer(OfferStatus.PENDING),
            Offer(id=5002, amount=Decimal("1700.25"), currency=840, status=OfferStatus.PENDING),
        ),
        **_FREIGHT,
    ),
    Listing(index=5, status=RequestStatus.AVAILABLE, offers=(), **_OTHER_FREIGHT),
]
SELECTED: Final = Listing(
    index=4,
    # The document shows the word for bids alone, so a request's is one that the SDK does not know.
    status=UnknownWord("Selected"),
    offers=(_offer(OfferStatus.SELECTED),),
    selected=_offer(OfferStatus.SELECTED),
    contact=Contact(name="Fergus Forward", email="fergus@forward.example"),
    company=Company(name="Forward & Co.", **_COMPANY),
    **_FREIGHT,
)
BIDS: Final = [
    Bid(
        index=4,
        ref_id="FX000004",
        status=BidStatus.SELECTED,
        amount=AMOUNT,
        currency=978,
        contact=Contact(name="Sylvia Ship", email="sylvia@ship.example"),
        company=Company(name="Ship & Co.", **_COMPANY),
        **_FREIGHT,
    ),
    Bid(
        index=5,
        ref_id="FX000005",
        status=BidStatus.AVAILABLE,
        amount=Decimal("990.75"),
        currency=840,
        **_OTHER_FREIGHT,
    ),
]
SUBMITTED: Final = Bid(
    index=4,
    ref_id="FX000004",
    status=BidStatus.AVAILABLE,
    amount=AMOUNT,
    currency=978,
    offer=_offer(OfferStatus.PENDING),
    **_FREIGHT,
)

_SAILING: Final[dict[str, Any]] = {
    "origin": "Hong Kong",
    "destination": "Long Beach",
    "cy_cutoff": datetime(2027, 1, 2, 17, tzinfo=HONG_KONG),
    "cfs_cutoff": datetime(2027, 1, 1, 12, tzinfo=HONG_KONG),
    "departure": datetime(2027, 1, 4, 6, tzinfo=HONG_KONG),
    # The route's zone does not apply to it (service document, Route).
    "arrival": datetime(2027, 1, 19, 14),
    "carrier": 3,
    "vessel": "Ever Given",
    "voyage_id": "041E",
    "timezone": "Asia/Hong_Kong",
}
ROUTE: Final = Route(index=301, **_SAILING)
ROUTE_DRAFT: Final = RouteDraft(**_SAILING)
FILTERS: Final[dict[str, Any]] = {
    "origin": "Hong Kong",
    "destination": "Long Beach",
    "carrier": 3,
    "vessel": "Ever Given",
    "voyage_id": "041E",
    "timezone": "Asia/Hong_Kong",
    "departure": datetime(2027, 1, 4, 6),
    "arrival": datetime(2027, 1, 19, 14),
    "cy_cutoff": datetime(2027, 1, 2, 17),
    "cfs_cutoff": datetime(2027, 1, 1, 12),
    "departs_from": datetime(2027, 1, 3),
    "departs_until": datetime(2027, 1, 5),
    "arrives_from": datetime(2027, 1, 18),
    "arrives_until": datetime(2027, 1, 20),
    "cy_from": datetime(2027, 1, 2),
    "cy_until": datetime(2027, 1, 3),
    "cfs_from": datetime(2027, 1, 1),
    "cfs_until": datetime(2027, 1, 2),
}

CARRIERS: Final = [Carrier(index=3, name="Meridian Container Lines"), Carrier(index=12, name="Silk Road")]
CURRENCIES: Final = [Currency(index=840, name="US Dollar", code="USD"), Currency(index=978, name="Euro", code="EUR")]
