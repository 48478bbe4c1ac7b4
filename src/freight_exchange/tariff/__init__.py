"""Prices for rate requests, from a tariff in a CSV file. Exact, without I/O but for reading the file.

`Tariff.read(path, weight_per=...)` checks the whole file, and `tariff.quote(request)` returns a `Quote` or a `NoQuote`
with its reason. `rule` holds a row of the file and what it applies to, `reader` the file's columns, `pricing` the
arithmetic.
"""

from __future__ import annotations

from freight_exchange.tariff.pricing import NoQuote, Quote
from freight_exchange.tariff.rule import Rule, Unit
from freight_exchange.tariff.tariff import Tariff

__all__ = ["NoQuote", "Quote", "Rule", "Tariff", "Unit"]
