"""Writes of each kind, a sandbox for one of them, and its outcome left unknown by a fault."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

import attrs
import pytest
from tests.calls.support import client

from freight_exchange import FreightExchange, OutcomeUnknownError, RateRequestDraft, RouteDraft
from freight_exchange.testing import FAULTS, Profile, Sandbox

DRAFT = RateRequestDraft(
    commodity="Green tea", type="Air Freight", origin="Shenzhen", destination="Hamburg",
    arrival=datetime(2030, 3, 15, 9, 30), packaging="pallet", quantity=4, length="1.2", width=1, height="0.75",
    weight="210.5", incoterm="FOB", hazardous=True,
)  # fmt: skip
ROUTE = RouteDraft(
    origin="Ningbo", destination="Felixstowe", cy_cutoff=datetime(2030, 4, 2, 17), cfs_cutoff=datetime(2030, 4, 1, 12),
    departure=datetime(2030, 4, 4, 6), arrival=datetime(2030, 5, 6, 14), carrier=2, vessel="Anchor Prudence",
    voyage_id="202W", timezone="Asia/Shanghai",
)  # fmt: skip
OLD_ROUTE = 301


@attrs.frozen
class Write:
    """One kind of write: its address, and what it does in a sandbox with a request and an offer of the rival's."""

    method: str
    path: str
    send: Callable[[FreightExchange, Market], Awaitable[object]]
    shippers: bool = False
    baseline: Callable[[FreightExchange], Awaitable[list[Any]]] | None = None


class Market:
    """Sandbox with a request and two offers on it, all made long ago."""

    def __init__(self, **quirks: Any) -> None:
        self.sandbox = Sandbox(Profile(**quirks))
        long_ago = self.sandbox.now() - 10_000
        server = self.sandbox.exchange
        self.request = server.publish(self.sandbox.shipper, long_ago)
        self.theirs = server.offer(self.sandbox.rival, self.request, long_ago, amount=990)
        self.offer = server.offer(self.sandbox.rival, self.request, long_ago, amount=1000)

    def client(self, write: Write, **options: Any) -> FreightExchange:
        return client(self.sandbox, self.sandbox.shipper if write.shippers else None, **options)

    def sent(self, write: Write) -> list[bool]:
        """Return, for each time that the write was received, whether it was carried out."""
        return [call.processed for call in self.sandbox.audit_log.calls_to(write.method, write.path)]


async def _update(exchange: FreightExchange, _: Market) -> object:
    return await exchange.routes.update(attrs.evolve(await exchange.routes.get(OLD_ROUTE), vessel="New"))


WRITES: dict[str, Write] = {
    "submit": Write(
        "POST",
        "quote/submitoffer",
        lambda fx, market: fx.bids.submit(market.request, amount="1840.50", currency=840),
        baseline=lambda fx: fx.bids.list(sweep=True).collect(),
    ),
    "publish": Write(
        *("POST", "quote/submitrequest", lambda fx, _: fx.requests.publish(DRAFT), True),
        baseline=lambda fx: fx.offers.list().collect(),
    ),
    "approve": Write("POST", "quote/approveoffer", lambda fx, market: fx.offers.approve(market.offer), True),
    "decline": Write("POST", "quote/approveoffer", lambda fx, market: fx.offers.decline(market.offer), True),
    "create": Write(
        *("POST", "route", lambda fx, _: fx.routes.create(ROUTE)), baseline=lambda fx: fx.routes.list().collect()
    ),
    "update": Write("PUT", "route", _update, baseline=lambda fx: fx.routes.list().collect()),
}
_ROUTE_BODY = {
    "origin": "Ningbo", "destination": "Felixstowe", "carrier": 2, "vessel": "V", "voyageId": "1",
    **dict.fromkeys(("cycutoff", "cfscutoff", "departure", "arrival"), "2030-04-02 17:00:00"),
    "timezone": "Asia/Shanghai",
}  # fmt: skip
RAW = Write("POST", "route", lambda fx, _: fx.request("POST", "route", body=_ROUTE_BODY))
KINDS = pytest.mark.parametrize("kind", list(WRITES))


async def doubt(
    market: Market, write: Write, exchange: FreightExchange, fault: str = "reset_after_processing", **how: Any
) -> OutcomeUnknownError[Any]:
    market.sandbox.strike(*FAULTS[fault](method=write.method, path=write.path, **how))
    with pytest.raises(OutcomeUnknownError) as caught:
        await write.send(exchange, market)
    return caught.value
