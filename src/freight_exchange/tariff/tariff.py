"""Tariff: the rules of a file, and quotes from them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import date
from typing import get_args

from freight_exchange import cargo
from freight_exchange.errors import ValidationError
from freight_exchange.models import Shipment
from freight_exchange.tariff import pricing, reader
from freight_exchange.tariff.pricing import NoQuote, Quote
from freight_exchange.tariff.rule import Rule

__all__ = ["Tariff"]


class Tariff:
    """Prices of a forwarder by mode, lane, break and day.

    Args:
        rules: The rules, as `Tariff.read` reads them from a file.
        weight_per: Meaning of a request's `weight`: `"unit"`, the weight of one packaging unit, as in the service
            document, or `"total"`, the weight of all units. Published samples make sense both ways: ask your exchange.

    Raises:
        ValidationError: Two rules would apply to one request, or `weight_per` is neither word.
    """

    def __init__(self, rules: Iterable[Rule], *, weight_per: cargo.Per) -> None:
        if weight_per not in get_args(cargo.Per):
            raise ValidationError(f"weight_per must be 'unit' or 'total', not {weight_per!r}", field="weight_per")
        self.rules = tuple(rules)
        self.weight_per: cargo.Per = weight_per
        if problems := reader.contradictions(self.rules):
            raise ValidationError("; ".join(problems), field="rules")

    @classmethod
    def read(cls, path: str | os.PathLike[str], *, weight_per: cargo.Per) -> Tariff:
        """Read a tariff from a CSV file; `docs/tariff.md` lists its columns.

        Raises:
            ValidationError: Rows are wrong; the message names each by its line and column.
            OSError: The file cannot be opened.
        """
        return cls(reader.read(path), weight_per=weight_per)

    def quote(self, request: Shipment, *, on: date | None = None) -> Quote | NoQuote:
        """Price a request.

        The most precise rules about the lane price a charge: first those that name both places, then those that name
        the origin, then those that name the destination. The rate of the highest break that the request reaches applies
        to the whole request. The total includes the freight and all surcharges.

        Nothing is guessed: there is a `NoQuote` if a measure is missing, if the density is implausible, if the request
        is below the lowest break, or if charges are in two currencies.

        Args:
            request: A `RateRequest`, `Listing` or `Bid`.
            on: The day on which rules must be valid; by default today in the system's zone.
        """
        return pricing.quote(request, self.rules, weight_per=self.weight_per, on=date.today() if on is None else on)

    def __repr__(self) -> str:
        return f"Tariff({len(self.rules)} rules, weight_per={self.weight_per!r})"
