"""A request and functions for the tests of filters."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

from freight_exchange.models import RateRequest, RequestType

NEEDED = datetime(2024, 5, 17)


# Forty cubic metres.
REQUEST = RateRequest(
    index=4,
    commodity="Green Tea",
    type=RequestType.AIR_FREIGHT,
    origin="Hong Kong",
    destination="Oakland",
    need_date=NEEDED,
    quantity=10,
    length=Decimal("2.5"),
    width=Decimal("1.6"),
    height=Decimal(1),
    weight=Decimal("120.5"),
    incoterm="FOB",
    hazardous=False,
)


TEXTS = ["origin", "destination", "type", "incoterm", "commodity"]


async def later(request: RateRequest) -> bool:
    return True


def light(request: RateRequest) -> bool:
    return not Heavy()(request)


class Heavy:
    def __call__(self, request: RateRequest) -> bool:
        return request.weight is None or request.weight > 100

    def light(self, request: RateRequest) -> bool:
        return not self(request)
