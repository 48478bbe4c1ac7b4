"""Carriers, currencies and routes that the exchange starts with, and sample requests."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from decimal import Decimal
from itertools import cycle, islice
from typing import Any

from freight_sandbox.records import Route

_CARRIERS = {1: "Pacific Star Line", 2: "Blue Anchor Shipping", 3: "Meridian Container Lines"}
_CARRIERS |= {7: "Northern Air Cargo", 12: "Silk Road Trucking"}
_CURRENCIES = {840: ("US Dollar", "USD"), 978: ("Euro", "EUR"), 344: ("Hong Kong Dollar", "HKD")}
_CURRENCIES |= {156: ("Chinese Yuan", "CNY"), 826: ("Pound Sterling", "GBP")}
_CURRENCIES |= {392: ("Japanese Yen", "JPY"), 702: ("Singapore Dollar", "SGD")}
References = Mapping[int, dict[str, Any]]
"""Records of a reference list, by index."""
CARRIERS: References = {index: {"index": index, "name": name} for index, name in _CARRIERS.items()}
CURRENCIES: References = {
    index: {"index": index, "name": name, "code": code} for index, (name, code) in _CURRENCIES.items()
}

# From, to, carrier, vessel, voyage, time zone; the two cut-offs, departure and arrival.
_ROUTES: tuple[tuple[Any, ...], ...] = (
    ("Hong Kong", "Los Angeles", 1, "Pacific Star Aurora", "041E", "Asia/Hong_Kong"),
    ("Shanghai", "Rotterdam", 2, "Anchor Fidelity", "118W", "Asia/Shanghai"),
    ("Hamburg", "New York", 3, "Meridian Hansa", "007W", "Europe/Berlin"),
)
_TIMES = (
    ("2030-01-02 17:00:00", "2030-01-01 12:00:00", "2030-01-04 06:00:00", "2030-01-19 14:00:00"),
    ("2030-01-05 18:00:00", "2030-01-04 18:00:00", "2030-01-07 23:30:00", "2030-02-06 08:00:00"),
    ("2030-01-09 15:00:00", "2030-01-08 15:00:00", "2030-01-11 10:00:00", "2030-01-21 07:00:00"),
)
ROUTES = tuple(
    Route(index, *[*route[:2], *times, *route[2:]])
    for index, route, times in zip(range(301, 304), _ROUTES, _TIMES, strict=True)
)

_FIELDS = ("commodityname", "requesttype", "origin", "destination", "packaging", "quantity")
_SIZES = ("length", "width", "height", "weight")
_CARGO: tuple[tuple[Any, ...], ...] = (
    ("Ceramic tiles", "Shipping", "Hong Kong", "Long Beach", "pallet", 20, "1.2", "1.0", "0.9", "640", "FOB"),
    ("Watches", "Air Freight", "Hong Kong", "Chicago", "carton", 10, "0.4", "0.3", "0.25", "12.5", "FCA"),
    ("Bicycles", "Shipping", "Hong Kong", "Rotterdam", "piece", 40, "1.4", "0.25", "0.8", "16", "FOB"),
    ("Cameras", "Air Freight", "Shenzhen", "Frankfurt", "carton", 24, "0.4", "0.3", "0.25", "9.5", "FCA"),
    ("Green tea", "Shipping", "Shenzhen", "Hamburg", "pallet", 12, "1.2", "1.0", "1.1", "420", "CIF"),
    ("Machine parts", "Trucking", "Hamburg", "Vienna", "pallet", 6, "1.2", "0.8", "1.4", "780", "DAP"),
    ("Office chairs", "Shipping", "Hong Kong", "Rotterdam", "carton", 90, "0.7", "0.65", "0.6", "18", "FOB"),
    ("Garden furniture", "Warehousing", "Rotterdam", "Rotterdam", "pallet", 33, "1.2", "1.0", "1.8", "310", "DAP"),
)


def samples(count: int, now: float) -> Iterator[dict[str, Any]]:
    """Yield `count` bodies of requests to publish, needed about four weeks after `now`."""
    for number, (*cargo, incoterm) in enumerate(islice(cycle(_CARGO), count)):
        day = dt.datetime.fromtimestamp(now + (28 + number % 9) * 86_400, dt.UTC)
        body: dict[str, Any] = dict(zip(_FIELDS, cargo, strict=False))
        body |= zip(_SIZES, map(Decimal, cargo[-len(_SIZES) :]), strict=True)
        yield body | {"arrival": f"{day:%Y-%m-%d} 00:00:00", "incoterm": incoterm, "hazardous": 0}
