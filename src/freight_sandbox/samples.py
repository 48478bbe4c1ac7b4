"""Carriers, currencies and routes that the exchange starts with, and sample requests."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from decimal import Decimal
from itertools import cycle, islice
from typing import Any

from freight_sandbox.records import Carrier, Currency, Route

__all__ = ["CARRIERS", "CURRENCIES", "ROUTES", "samples"]

CARRIERS: Mapping[int, Carrier] = {
    carrier.index: carrier
    for carrier in (
        Carrier(1, "Pacific Star Line"),
        Carrier(2, "Blue Anchor Shipping"),
        Carrier(3, "Meridian Container Lines"),
        Carrier(7, "Northern Air Cargo"),
        Carrier(12, "Silk Road Trucking"),
    )
}

CURRENCIES: Mapping[int, Currency] = {
    currency.index: currency
    for currency in (
        Currency(840, "US Dollar", "USD"),
        Currency(978, "Euro", "EUR"),
        Currency(344, "Hong Kong Dollar", "HKD"),
        Currency(156, "Chinese Yuan", "CNY"),
        Currency(826, "Pound Sterling", "GBP"),
        Currency(392, "Japanese Yen", "JPY"),
        Currency(702, "Singapore Dollar", "SGD"),
    )
}

ROUTES = (
    Route(
        index=301,
        origin="Hong Kong",
        destination="Los Angeles",
        cycutoff="2030-01-02 17:00:00",
        cfscutoff="2030-01-01 12:00:00",
        departure="2030-01-04 06:00:00",
        arrival="2030-01-19 14:00:00",
        carrier=1,
        vessel="Pacific Star Aurora",
        voyageid="041E",
        timezone="Asia/Hong_Kong",
    ),
    Route(
        index=302,
        origin="Shanghai",
        destination="Rotterdam",
        cycutoff="2030-01-05 18:00:00",
        cfscutoff="2030-01-04 18:00:00",
        departure="2030-01-07 23:30:00",
        arrival="2030-02-06 08:00:00",
        carrier=2,
        vessel="Anchor Fidelity",
        voyageid="118W",
        timezone="Asia/Shanghai",
    ),
    Route(
        index=303,
        origin="Hamburg",
        destination="New York",
        cycutoff="2030-01-09 15:00:00",
        cfscutoff="2030-01-08 15:00:00",
        departure="2030-01-11 10:00:00",
        arrival="2030-01-21 07:00:00",
        carrier=3,
        vessel="Meridian Hansa",
        voyageid="007W",
        timezone="Europe/Berlin",
    ),
)

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
_FIRST_DAY, _DAY = 28, 86_400


def samples(count: int, now: float) -> Iterator[dict[str, Any]]:
    """Yield `count` bodies of requests to publish, needed about four weeks after `now`."""
    for number, cargo in enumerate(islice(cycle(_CARGO), count)):
        commodity, kind, origin, destination, packaging, quantity, length, width, height, weight, incoterm = cargo
        day = dt.datetime.fromtimestamp(now + (_FIRST_DAY + number % 9) * _DAY, dt.UTC)
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
