"""Example requests, as a shipper sends them (service document, 4.3)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from itertools import cycle, islice
from typing import Any

__all__ = ["samples"]

# Commodity, type, from, to, packaging, quantity, length, width, height, weight, incoterm.
_CARGO = (
    ("Ceramic tiles", "Shipping", "Hong Kong", "Long Beach", "pallet", 20, "1.2", "1.0", "0.9", "640", "FOB"),
    ("Watches", "Air Freight", "Hong Kong", "Chicago", "carton", 10, "0.4", "0.3", "0.25", "12.5", "FCA"),
    ("Bicycles", "Shipping", "Hong Kong", "Rotterdam", "piece", 40, "1.4", "0.25", "0.8", "16", "FOB"),
    ("Cameras", "Air Freight", "Shenzhen", "Frankfurt", "carton", 24, "0.4", "0.3", "0.25", "9.5", "FCA"),
    ("Green tea", "Shipping", "Shenzhen", "Hamburg", "pallet", 12, "1.2", "1.0", "1.1", "420", "CIF"),
    ("Machine parts", "Trucking", "Hamburg", "Vienna", "pallet", 6, "1.2", "0.8", "1.4", "780", "DAP"),
    ("Office chairs", "Shipping", "Hong Kong", "Rotterdam", "carton", 90, "0.7", "0.65", "0.6", "18", "FOB"),
    ("Garden furniture", "Warehousing", "Rotterdam", "Rotterdam", "pallet", 33, "1.2", "1.0", "1.8", "310", "DAP"),
)
_DAYS_AHEAD = 28
_DAY = 86_400


def samples(count: int, now: float) -> Iterator[dict[str, Any]]:
    """Yield `count` bodies of requests to publish, needed about four weeks after `now`."""
    for number, cargo in enumerate(islice(cycle(_CARGO), count)):
        commodity, kind, origin, destination, packaging, quantity, length, width, height, weight, incoterm = cargo
        day = dt.datetime.fromtimestamp(now + (_DAYS_AHEAD + number % 9) * _DAY, dt.UTC)
        yield {
            "commodityname": commodity,
            "requesttype": kind,
            "origin": origin,
            "destination": destination,
            "arrival": f"{day:%Y-%m-%d} 00:00:00",
            "packaging": packaging,
            "quantity": quantity,
            "length": Decimal(length),
            "width": Decimal(width),
            "height": Decimal(height),
            "weight": Decimal(weight),
            "incoterm": incoterm,
            "hazardous": 0,
        }
