"""Exact prices for rate requests, from a tariff in a CSV file.

`Tariff.read(path, weight_per=...)` checks the whole file, and `tariff.quote(request)` returns a `Quote` or a `NoQuote`
with its reason. `rule` has the rows of the file, `reader` its columns, and `pricing` the arithmetic. Only `reader` does
I/O.
"""

from __future__ import annotations

from freight_exchange.tariff.pricing import NoQuote, Quote
from freight_exchange.tariff.rule import Rule, Unit
from freight_exchange.tariff.tariff import Tariff

__all__ = ["NoQuote", "Quote", "Rule", "Tariff", "Unit"]
