"""Service of one run, written from the service document alone: an account, its records and a ledger. Pure."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Literal

import attrs

__all__ = ["EMAIL", "PASSWORD", "TOKEN", "Call", "Reply", "Service", "Target"]

Target = Literal["login", "read", "write"]

EMAIL = "runner@freight.example"
# A text that contains one of these shows a secret.
PASSWORD = 'canary-pw "4711"/%'
TOKEN = "canary-tok-4711"

_WRITES = {
    ("POST", "quote/submitoffer"),
    ("POST", "quote/submitrequest"),
    ("POST", "quote/approveoffer"),
    ("POST", "route"),
    ("PUT", "route"),
}
_DATES = ("cycutoff", "cfscutoff", "departure", "arrival")


@attrs.frozen(kw_only=True)
class Call:
    """Request as a server read it."""

    method: str
    path: str
    token: str
    body: Mapping[str, Any]

    @property
    def target(self) -> Target:
        if self.path == "login":
            return "login"
        return "write" if (self.method, self.path) in _WRITES else "read"

    @property
    def is_undocumented(self) -> bool:
        """Return whether the document shows no reply to this write, so that nearly any object is a success."""
        return self.path == "route" or not self.body.get("approved", 1)


@attrs.frozen(kw_only=True)
class Reply:
    """Status and JSON of a reply."""

    status: int
    data: Any

    @property
    def content(self) -> bytes:
        return json.dumps(self.data, default=float).encode()


@attrs.define
class Service:
    """Account that is both shipper and forwarder, and the records that it sees.

    Attributes:
        requests: Other parties' rate requests.
        listings: The account's own requests, each with its offers by id.
        bids: Its offers on the others' requests.
        routes: Routes by index.
        clamp: Maximum rows in a page.
        commits: Number of commits of each write.
    """

    clamp: int = 100
    requests: dict[int, dict[str, Any]] = attrs.field(factory=dict)
    listings: dict[int, dict[str, Any]] = attrs.field(factory=dict)
    bids: list[dict[str, Any]] = attrs.field(factory=list)
    routes: dict[int, dict[str, Any]] = attrs.field(factory=dict)
    commits: Counter[str] = attrs.field(factory=Counter)
    calls: Counter[str] = attrs.field(factory=Counter)
    logins: int = 0
    expired: bool = False

    def __attrs_post_init__(self) -> None:
        for index in (2, 3, 4, 5):
            self.requests[index] = _cargo(index)
        for index in range(11, 17):
            offer = {"offerId": str(100 + index), "offerAmount": 700 + index, "currencyId": 840, "status": "pending"}
            self.listings[index] = _listed(index) | {"offer": {"0": offer}}
        self.bids.append(_listed(5) | {"price": 777.7, "currencyIndex": 840, "status": "Available"})
        self.routes[301] = _route(301, {"vessel": "First", "voyageId": "1W", "carrier": 2})

    def expire(self) -> None:
        """Refuse the most recent token."""
        self.expired = True

    def handle(self, call: Call) -> Reply:
        """Carry out a call."""
        if call.target == "login":
            return self._log_in(call.body)
        if self.expired or not self.logins or call.token != f"{TOKEN}-{self.logins}":
            return Reply(status=401, data={"Unauthorized": "Access denied"})
        key = f"{call.method} {call.path}"
        self.calls[key] += 1
        if call.target == "write":
            return self._write(key, call.body)
        return self._read(call.path, call.body)

    @staticmethod
    def key_of(call: Call) -> str:
        """Return the parameters that distinguish a write from every other one of its run."""
        body = call.body
        if call.path == "quote/submitoffer":
            return f"submit {body['requestIndex']} {Decimal(str(body['offer'])).normalize():f}"
        if call.path == "quote/submitrequest":
            return f"publish {body['commodityname']}"
        if call.path == "quote/approveoffer":
            return f"{'approve' if body['approved'] else 'decline'} {body['offerIndex']}"
        return f"{'create' if call.method == 'POST' else 'update'} {body['voyageId']}"

    def _log_in(self, body: Mapping[str, Any]) -> Reply:
        if (body.get("email"), body.get("password")) != (EMAIL, PASSWORD):
            return Reply(status=401, data={"message": "The user name or password is invalid."})
        self.logins += 1
        self.expired = False
        user = {"access_token": f"{TOKEN}-{self.logins}", "expires_on": 3600, "firstname": "A", "email": EMAIL}
        return Reply(status=200, data={"user": user})

    def _read(self, path: str, body: Mapping[str, Any]) -> Reply:
        rows: list[dict[str, Any]]
        match path:
            case "quote/getrequests" | "quote/request":
                name, rows = "raterequests", [*self.requests.values()]
            case "quote/offer" | "quote/getoffers":
                name, rows = "offers", [*self.listings.values()]
            case "quote/bid":
                name, rows = "bids", self.bids
            case "route":
                name, rows = "routes", [*self.routes.values()]
            case "currency":
                name, rows = "currencies", [{"index": 840, "name": "US dollar", "code": "USD"}]
            case "carrier":
                name, rows = "carriers", [{"index": 1, "name": "Anchor"}, {"index": 2, "name": "Bower"}]
            case _:
                return Reply(status=404, data={"message": "Not Found"})
        if "index" in body:
            rows = [row for row in rows if row["index"] == int(body["index"])]
        elif "rowsperpage" in body:
            size = min(int(body["rowsperpage"]), self.clamp)
            rows = rows[int(body["offset"]) * size :][:size]
        return Reply(status=200, data={name: {str(number): row for number, row in enumerate(rows)}})

    def _write(self, key: str, body: Mapping[str, Any]) -> Reply:
        method, _, path = key.partition(" ")
        name = self.key_of(Call(method=method, path=path, token="", body=body))
        reply: dict[str, Any]
        match path:
            case "quote/submitoffer":
                if (request := self.requests.get(body["requestIndex"])) is None:
                    return Reply(status=400, data={"message": "No such request."})
                terms = {"offerAmount": body["offer"], "currencyIndex": body["currencyIndex"], "status": "pending"}
                listed = _listed(request["index"])
                self.bids.append(listed | {"price": body["offer"], "currencyIndex": body["currencyIndex"]})
                reply = {"bid": listed | {"offer": terms | {"index": 900 + len(self.bids)}}}
            case "quote/submitrequest":
                index = 50 + len(self.listings)
                self.listings[index] = _listed(index, body) | {"offer": {}}
                reply = {"raterequests": {"0": _cargo(index, body)}}
            case "quote/approveoffer":
                found = [row for row in self.listings.values() if row["index"] + 100 == body["offerIndex"]]
                if not found:
                    return Reply(status=400, data={"message": "No such offer."})
                offer = found[0]["offer"]["0"]
                offer["status"] = "selected" if body["approved"] else "declined"
                contact = {"name": "Kim", "email": "kim@forwarder.example"}
                record = found[0] | {"offer": offer} | ({"loadingPOC": contact} if body["approved"] else {})
                reply = {"offers": {"0": record}}
            case _:
                index = body["index"] if method == "PUT" else 301 + len(self.routes)
                self.routes[index] = _route(index, body)
                reply = {"routes": {"0": self.routes[index]}}
        self.commits[name] += 1
        return Reply(status=200, data=reply)


def _cargo(index: int, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
    sent = body or {}
    return {
        "index": index,
        "refId": f"R{index}",
        "commodityname": sent.get("commodityname", f"Tea {index}"),
        "requesttype": "Shipping",
        "status": "Available",
        "origin": sent.get("origin", "Shenzhen"),
        "destination": sent.get("destination", "Hamburg"),
        "needdate": "2030-04-04 00:00:00",
        "qty": sent.get("quantity", 4),
        "packaging": "Pallet",
        "measureUnit": "m",
        "length": sent.get("length", 1.2),
        "width": sent.get("width", 0.8),
        "height": sent.get("height", 1),
        "massUnit": "kg",
        "weight": sent.get("weight", 300),
        "incoterm": "FOB",
        "hazardous": 0,
    }


def _listed(index: int, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
    cargo = _cargo(index, body)
    other = {"commodityname": "cargoname", "packaging": "packingtype"}
    other |= {size: f"cargo{size}" for size in ("length", "width", "height")}
    left_out = ("requesttype", "incoterm", "hazardous")
    return {other.get(name, name): value for name, value in cargo.items() if name not in left_out}


def _route(index: int, body: Mapping[str, Any]) -> dict[str, Any]:
    cycutoff, cfscutoff, departure, arrival = (body.get(name, "2030-04-02 17:00:00") for name in _DATES)
    return {
        "index": index,
        "origin": body.get("origin", "Ningbo"),
        "destination": body.get("destination", "Felixstowe"),
        "cycutoff": cycutoff,
        "cfscutoff": cfscutoff,
        "estDeparture": departure,
        "estArrival": arrival,
        "carrier": body.get("carrier", 2),
        "vesselName": body["vessel"],
        "voyageId": body["voyageId"],
        "timezone": body.get("timezone", "Asia/Shanghai"),
    }
