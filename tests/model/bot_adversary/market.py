"""Requests and offers of the adversary's exchange, with which the checker compares the bot's work."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

import attrs

__all__ = ["CURRENCIES", "Bid", "Market", "Shipment"]

CURRENCIES: Final = {11: "EUR", 23: "USD", 40: "CNY"}

_PORTS: Final = ("Hong Kong", "Busan", "Hamburg", "Callao")


@attrs.define
class Shipment:
    """Rate request.

    Attributes:
        versions: Its notes and quantities, with the time of each; the last is the current one.
        absences: Spans in which it was withdrawn; the last may be open.
    """

    index: int
    published: float
    quantity: int
    versions: list[tuple[float, int]] = attrs.Factory(list)
    absences: list[tuple[float, float]] = attrs.Factory(list)
    updated: float = 0.0

    def is_open(self, at: float) -> bool:
        """Return whether it is on the market at that time."""
        return at >= self.published and not any(since <= at < until for since, until in self.absences)

    def time_open(self, until: float) -> float:
        """Return the seconds for which it was on the market."""
        away = sum(max(0.0, min(end, until) - max(begin, self.published)) for begin, end in self.absences)
        return until - self.published - away


@attrs.frozen(kw_only=True)
class Bid:
    """Offer that the exchange has accepted from the bot's account."""

    number: int
    request: int
    amount: Decimal
    currency: int
    rates: dict[str, Decimal]
    terms: str | None
    at: float
    author: str
    shown_from: float
    shown_amount: Decimal


@attrs.define
class Market:
    """State of the exchange."""

    shipments: dict[int, Shipment] = attrs.Factory(dict)
    bids: list[Bid] = attrs.Factory(list)
    selected: set[int] = attrs.Factory(set)
    first_index: int = 1

    def publish(self, now: float, quantity: int = 10) -> Shipment:
        """Put a new request on the market."""
        index = self.first_index + len(self.shipments)
        shipment = Shipment(index=index, published=now, quantity=quantity, versions=[(now, quantity)], updated=now)
        self.shipments[index] = shipment
        return shipment

    def update(self, index: int, now: float, quantity: int) -> None:
        """Change a request's quantity."""
        shipment = self.shipments[index]
        shipment.quantity = quantity
        shipment.versions.append((now, quantity))
        shipment.updated = now

    def withdraw(self, index: int, now: float) -> None:
        """Take a request off the market."""
        self.shipments[index].absences.append((now, float("inf")))

    def bring_back(self, index: int, now: float) -> None:
        """Put a withdrawn request on the market again."""
        shipment = self.shipments[index]
        since, _ = shipment.absences.pop()
        shipment.absences.append((since, now))
        shipment.updated = now

    def take(
        self,
        now: float,
        request: int,
        amount: Decimal,
        currency: int,
        *,
        author: str,
        lag: float = 0.0,
        shown_amount: Decimal | None = None,
        rates: dict[str, Decimal] | None = None,
        terms: str | None = None,
    ) -> Bid:
        """Accept an offer."""
        bid = Bid(
            number=1 + len(self.bids),
            request=request,
            amount=amount,
            currency=currency,
            rates=rates or {},
            terms=terms,
            at=now,
            author=author,
            shown_from=now + lag,
            shown_amount=amount if shown_amount is None else shown_amount,
        )
        self.bids.append(bid)
        self.shipments[request].updated = now
        return bid

    def bids_on(self, request: int) -> list[Bid]:
        """Return every offer of the account on a request, by this and other clients."""
        return [bid for bid in self.bids if bid.request == request]


def port(index: int) -> str:
    """Return the origin of a request, which varies with its index."""
    return _PORTS[index % len(_PORTS)]
