"""Exchange of a run: its records before the write, changes by others, and the record of what happened."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING

from tests.model.fault_runs.plan import Plan

from freight_exchange import FreightExchange
from freight_exchange.testing import FAULTS, Cargo, Sandbox
from freight_sandbox import Account, Call

if TYPE_CHECKING:
    from freight_sandbox.audit import CallRecord

__all__ = ["ADDRESSES", "ROUTE", "World"]

ADDRESSES: Mapping[str, tuple[str, str]] = {
    "submit": ("POST", "quote/submitoffer"),
    "publish": ("POST", "quote/submitrequest"),
    "approve": ("POST", "quote/approveoffer"),
    "decline": ("POST", "quote/approveoffer"),
    "create_route": ("POST", "route"),
    "update_route": ("PUT", "route"),
}
_LISTINGS: Mapping[str, str] = {
    "submit": "quote/bid",
    "publish": "quote/offer",
    "approve": "quote/offer",
    "decline": "quote/offer",
    "create_route": "route",
    "update_route": "route",
}
_LONG_AGO = 100_000.0

ROUTE = 301
"""Route that exists from the start, and that runs update."""


class World:
    """Sandbox of one run."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.sandbox = Sandbox(plan.profile, seed=plan.seed)
        self.method, self.path = ADDRESSES[plan.kind]
        self._meddling: list[int] = []
        self.meddled = False
        exchange, shipper = self.sandbox.exchange, self.sandbox.shipper
        past = self.sandbox.now() - _LONG_AGO
        self.request = exchange.publish(shipper, past, Cargo(commodityname="Green tea", origin="Shenzhen"))
        other = exchange.publish(shipper, past, Cargo(commodityname="Cotton", quantity=7))
        exchange.offer(self.sandbox.forwarder, other, past, amount=Decimal("777.70"))
        self.rivals_offer = exchange.offer(self.sandbox.rival, self.request, past, amount=990)
        if plan.kind in ("approve", "decline"):
            self.offer = exchange.offer(self.sandbox.forwarder, self.request, past, amount=plan.amount)
        if plan.kind == "submit" and plan.twin:
            exchange.offer(self.sandbox.forwarder, self.request, past, amount=plan.amount)
        if plan.kind == "submit" and plan.earlier:
            # Like it in all but the amount, or in all but the currency.
            more, currency = (50, 1) if plan.seed % 4 < 2 else (0, 2)
            exchange.offer(self.sandbox.forwarder, self.request, past, amount=plan.amount + more, currency=currency)
        if plan.kind == "publish" and plan.twin:
            exchange.publish(shipper, past, self.cargo())
        if plan.kind == "create_route" and plan.twin:
            self._call(self.sandbox.rival, "POST", "route", self.route(), when=past)

    @property
    def account(self) -> Account:
        shipper = self.plan.kind in ("publish", "approve", "decline")
        return self.sandbox.shipper if shipper else self.sandbox.forwarder

    def client(self) -> FreightExchange:
        return self.sandbox.client(self.account, deadline=self.plan.deadline)

    # What the writes carry, in the words of the wire

    def cargo(self) -> Cargo:
        number = self.plan.seed % 1000
        return Cargo(
            commodityname=f"Lamps {number}",
            origin="Shenzhen",
            destination="Hamburg",
            quantity=1 + number % 9,
            packaging="pallet",
            length=Decimal("1.2"),
            width=1 + Decimal(number) / 500,
            height=Decimal("0.75"),
            weight=Decimal("210.5"),
        )

    def route(self, index: int | None = None) -> dict[str, object]:
        body: dict[str, object] = {
            "origin": "Ningbo",
            "destination": "Felixstowe",
            "cycutoff": "2030-04-02 17:00:00",
            "cfscutoff": "2030-04-01 12:00:00",
            "departure": "2030-04-04 06:00:00",
            "arrival": "2030-05-06 14:00:00",
            "carrier": 2,
            "vessel": f"Anchor Prudence {self.plan.seed % 1000}",
            "voyageId": "202W",
            "timezone": "Asia/Shanghai",
        }
        return body if index is None else {"index": index, **body}

    def body(self) -> dict[str, object]:
        """Return the complete body of the run's write, typed by hand."""
        match self.plan.kind:
            case "submit":
                return {"requestIndex": self.request, "offer": float(self.plan.amount), "currencyIndex": 840}
            case "publish":
                cargo = self.cargo()
                sizes = {name: float(getattr(cargo, name)) for name in ("length", "width", "height", "weight")}
                words = ("commodityname", "requesttype", "origin", "destination", "arrival", "packaging", "quantity")
                return {name: getattr(cargo, name) for name in words} | sizes | {"incoterm": "FOB", "hazardous": 0}
            case "approve" | "decline":
                return {"offerIndex": self.offer, "approved": int(self.plan.kind == "approve")}
            case "create_route":
                return self.route()
            case "update_route":
                return self.route(ROUTE)

    # Faults and meddlers

    def arm(self, place: str) -> None:
        strike = self.plan.strike(place)
        if strike is None:
            return
        method, path = {
            "write": (self.method, self.path),
            "login": ("POST", "login"),
            "reading": ("GET", _LISTINGS[self.plan.kind]),
        }[place]
        factory = FAULTS[strike.name]
        if place == "login" and factory.times is None:
            self.sandbox.strike(*factory(method=method, path=path, processed=strike.processed))
        else:
            self.sandbox.strike(*factory(method=method, path=path, processed=strike.processed, times=strike.times))

    def meddle(self, moment: str) -> None:
        """Select the other offer, or change the vessel of the route, from another account."""
        if self.plan.intervention != moment:
            return
        if self.plan.kind in ("submit", "approve", "decline"):
            body: dict[str, object] = {"offerIndex": self.rivals_offer, "approved": 1}
            self.meddled = self._call(self.sandbox.shipper, "POST", "quote/approveoffer", body)
        elif self.plan.kind == "update_route":
            body = {**self.route(ROUTE), "vessel": "Somebody Else"}
            self.meddled = self._call(self.sandbox.rival, "PUT", "route", body)

    def _call(
        self, account: Account, method: str, path: str, body: Mapping[str, object], *, when: float | None = None
    ) -> bool:
        exchange, now = self.sandbox.exchange, self.sandbox.now() if when is None else when
        armed = exchange.faults.waiting
        exchange.faults.clear()
        headers = {"authorization": f"Bearer {exchange.token(account, now)}", "content-type": "application/json"}
        reply = exchange.handle(Call(method, path, {}, headers, json.dumps(body).encode()), now)
        exchange.faults.add(*armed)
        self._meddling.append(self.sandbox.audit_log.count)
        return reply.status // 100 == 2

    # The truth

    def calls(self) -> list[CallRecord]:
        """Return the calls of the run's client to the address of its write, in order."""
        calls = self.sandbox.audit_log.calls_to(self.method, self.path)
        return [call for call in calls if call.number not in self._meddling]

    def done(self) -> list[CallRecord]:
        """Return the calls that were carried out."""
        return [call for call in self.calls() if call.processed]

    def overridden(self) -> bool:
        """Return whether the last change is another account's."""
        done = self.done()
        return self.meddled and (not done or done[-1].number < self._meddling[-1])
