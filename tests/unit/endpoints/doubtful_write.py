"""Sandbox for one write with an unknown outcome."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from decimal import Decimal
from typing import Any

import attrs
import pytest

from freight_exchange import (
    FreightExchange,
    OutcomeUnknownError,
    RateRequestDraft,
    RouteDraft,
)
from freight_exchange.testing import FAULTS, Profile, Sandbox

Send = Callable[[FreightExchange], Awaitable[object]]

__all__ = ["DRAFT", "LISTINGS", "OLD_ROUTE", "PATHS", "PRICE", "ROUTE", "DoubtfulWrite"]

DRAFT = RateRequestDraft(
    commodity="Green tea",
    type="Air Freight",
    origin="Shenzhen",
    destination="Hamburg",
    arrival=datetime(2030, 3, 15, 9, 30),
    packaging="pallet",
    quantity=4,
    length="1.2",
    width=1,
    height="0.75",
    weight="210.5",
    incoterm="FOB",
    hazardous=True,
)
ROUTE = RouteDraft(
    origin="Ningbo",
    destination="Felixstowe",
    cy_cutoff=datetime(2030, 4, 2, 17),
    cfs_cutoff=datetime(2030, 4, 1, 12),
    departure=datetime(2030, 4, 4, 6),
    arrival=datetime(2030, 5, 6, 14),
    carrier=2,
    vessel="Anchor Prudence",
    voyage_id="202W",
    timezone="Asia/Shanghai",
)
OLD_ROUTE = 301
PRICE = Decimal("1840.50")
SHIPPERS = frozenset({"publish", "approve", "decline"})
PATHS = {
    "submit": "quote/submitoffer",
    "publish": "quote/submitrequest",
    "approve": "quote/approveoffer",
    "decline": "quote/approveoffer",
    "create": "route",
    "update": "route",
}
LISTINGS = {"submit": "quote/bid", "create": "route", "update": "route"}


class DoubtfulWrite:
    """Sandbox with a request, two offers on it, and one write to make."""

    def __init__(self, kind: str, **quirks: Any) -> None:
        self.kind = kind
        self.sandbox = Sandbox(Profile(**quirks))
        self.request = self.sandbox.exchange.publish(self.sandbox.shipper, self.long_ago)
        self.rivals = self.offer(990, rival=True)
        self.mine = self.offer(1000) if kind in SHIPPERS else 0

    @property
    def long_ago(self) -> float:
        return self.sandbox.now() - 10_000

    def offer(self, amount: Decimal | int, *, rival: bool = False) -> int:
        account = self.sandbox.rival if rival else self.sandbox.forwarder
        return self.sandbox.exchange.offer(account, self.request, self.long_ago, amount=amount)

    def client(self) -> FreightExchange:
        return self.sandbox.client(self.sandbox.shipper if self.kind in SHIPPERS else self.sandbox.forwarder)

    async def send(self, exchange: FreightExchange) -> object:
        match self.kind:
            case "submit":
                return await exchange.bids.submit(self.request, amount=PRICE, currency=840)
            case "publish":
                return await exchange.requests.publish(DRAFT)
            case "approve":
                return await exchange.offers.approve(self.mine)
            case "decline":
                return await exchange.offers.decline(self.mine)
            case "create":
                return await exchange.routes.create(ROUTE)
            case _:
                return await exchange.routes.update(attrs.evolve(await exchange.routes.get(OLD_ROUTE), vessel="New"))

    async def doubt(self, exchange: FreightExchange, *, applied: bool, send: Send | None = None) -> OutcomeUnknownError:
        """Return the error of the write, which is cut off before or after the service carries it out."""
        fault = FAULTS["reset_after_processing" if applied else "reset_after_send"]
        self.sandbox.strike(*fault(method="PUT" if self.kind == "update" else "POST", path=PATHS[self.kind]))
        with pytest.raises(OutcomeUnknownError) as caught:
            await (send or self.send)(exchange)
        assert [fired.processed for fired in self.sandbox.exchange.faults.fired] == [applied]
        return caught.value

    def strike_reads(self, name: str, **how: Any) -> None:
        self.sandbox.strike(*FAULTS[name](method="GET", path=LISTINGS.get(self.kind, "quote/offer"), **how))

    def writes(self) -> int:
        """Return the number of calls that are not reads."""
        return sum(call.method != "GET" and call.path != "login" for call in self.sandbox.audit_log.calls)
