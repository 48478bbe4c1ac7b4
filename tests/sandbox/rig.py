"""Exchange and clock for tests of the sandbox; the bodies are typed by hand from the service document."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from freight_sandbox import Account, Call, Exchange, Profile, Reply

NOW = 1_900_000_000.0

# fmt: off
PUBLISH: Mapping[str, Any] = {
    "commodityname": "Green tea", "requesttype": "Air Freight", "origin": "Shenzhen", "destination": "Hamburg",
    "arrival": "2030-03-15 09:30:00", "packaging": "pallet", "quantity": 4, "length": 1.2, "width": 1, "height": 0.75,
    "weight": 210.5, "incoterm": "FOB", "hazardous": 1, "notes": "Keep dry.",
}
OFFER: Mapping[str, Any] = {
    "requestIndex": 1, "offer": 1840.5, "currencyIndex": 840, "rates": {"Ocean Freight": 1700, "Chassis Fee": 140.5},
    "terms": "valid 14 days",
}
ROUTE: Mapping[str, Any] = {
    "origin": "Ningbo", "destination": "Felixstowe", "cycutoff": "2030-04-02 17:00:00",
    "cfscutoff": "2030-04-01 12:00:00", "departure": "2030-04-04 06:00:00", "arrival": "2030-05-06 14:00:00",
    "carrier": 2, "vessel": "Anchor Prudence", "voyageId": "202W", "timezone": "Asia/Shanghai",
}
# fmt: on


class RigReply(NamedTuple):
    """Reply of the exchange with its decoded JSON, or `None`."""

    reply: Reply
    json: Any

    @property
    def status(self) -> int:
        return self.reply.status


class ExchangeRig:
    """Exchange with a clock that only tests move."""

    def __init__(self, profile: Profile | None = None) -> None:
        self.exchange = Exchange(profile or Profile(), seed=7)
        self.now = NOW
        self.shipper = self.exchange.shipper
        self.forwarder = self.exchange.forwarder
        self.rival = self.exchange.rival

    def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        by: Account | None = None,
        query: Mapping[str, str] | None = None,
    ) -> RigReply:
        """Send a call with a fresh token of the account `by`, or without a token."""
        token = None if by is None else self.exchange.token(by, self.now)
        return self.send(method, path, b"" if body is None else json.dumps(body).encode(), token=token, query=query)

    def send(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        token: str | None = None,
        query: Mapping[str, str] | None = None,
        content_type: str | None = "application/json",
    ) -> RigReply:
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        headers |= {} if content_type is None else {"content-type": content_type}
        reply = self.exchange.handle(Call(method, path, query or {}, headers, body), self.now)
        try:
            return RigReply(reply, json.loads(reply.body.decode("utf-8-sig")))
        except (ValueError, RecursionError):
            return RigReply(reply, None)

    def login(self, name: str = "forwarder", password: str | None = None) -> RigReply:
        body = {"email": f"{name}@demo.example", "password": name if password is None else password}
        return self.call("POST", "login", body)

    def publish(self, count: int = 1) -> None:
        for _ in range(count):
            assert self.call("POST", "quote/submitrequest", PUBLISH, by=self.shipper).status < 300

    def offer(self, by: Account | None = None, **changes: Any) -> int:
        body = {**OFFER, **changes}
        assert self.call("POST", "quote/submitoffer", body, by=by or self.forwarder).status < 300
        return self.exchange.audit_log.offers[-1].offer.index

    def respond(self, offer: int, approved: int = 1) -> RigReply:
        body = {"offerIndex": offer, "approved": approved}
        return self.call("POST", "quote/approveoffer", body, by=self.shipper)

    def at(self, address: str, body: Mapping[str, Any] | None = None, *, by: Account | None = None) -> RigReply:
        """Send a call to an address, such as `GET quote/bid`, as the forwarder by default."""
        method, path = address.split()
        return self.call(method, path, body, by=by or self.forwarder)

    def listed(self, address: str, body: Mapping[str, Any] | None = None, *, by: Account | None = None) -> list[int]:
        """Return the indexes of the records at an address."""
        (records,) = self.at(address, body, by=by).json.values()
        return [record["index"] for record in records.values()]
