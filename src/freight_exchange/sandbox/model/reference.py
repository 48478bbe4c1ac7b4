"""Carriers, currencies and routes that the exchange starts with."""

from __future__ import annotations

from collections.abc import Mapping

from freight_exchange.sandbox.model.state import Carrier, Currency, Route

__all__ = ["CARRIERS", "CURRENCIES", "ROUTES"]

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

ROUTES: tuple[Route, ...] = (
    Route(
        index=0,
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
        index=0,
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
        index=0,
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
