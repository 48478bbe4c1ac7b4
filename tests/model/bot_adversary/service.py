"""HTTP interface of the simulated exchange, written from the service document alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from random import Random
from typing import Any, Final

import attrs

from .market import CURRENCIES, Bid, Market, Shipment, port

__all__ = ["Call", "Quirks", "Reply", "Service"]

EMAIL: Final = "bot@forwarder.example"
PASSWORD: Final = "correct horse"
_WINDOW: Final = 3600
_MAX_WINDOW: Final = 432000

Reply = tuple[int, Any]


@attrs.frozen(kw_only=True)
class Call:
    """Request of a client."""

    method: str
    path: str
    parameters: dict[str, Any]
    token: str | None
    author: str

    @property
    def is_offer(self) -> bool:
        """Return whether it submits an offer."""
        return self.method == "POST" and self.path in ("quote/submitoffer", "quote/bid")


@attrs.define(kw_only=True)
class Quirks:
    """Behaviour that the service document leaves open, and a scenario sets.

    Attributes:
        bid_lag: Seconds until a new offer is listed, drawn for each.
        bids_cached, requests_cached: Seconds for which a listing is served from a cache.
        bids_frozen: Serve the listing of bids as it was at this time.
        twice: Share of the rows that are listed twice in one reply.
        as_text: Write identifiers as text.
        rounded: Show amounts without decimals.
        shuffled: List in a new order with each reply.
        clamp: Maximum rows in a page.
        refuses_closed: Refuse an offer on a request that is off the market.
        password: Password that a login must give.
        lifetime: Seconds for which a token is good.
    """

    bid_lag: Callable[[], float] = lambda: 0.0
    bids_cached: float = 0.0
    requests_cached: float = 0.0
    bids_frozen: float | None = None
    twice: float = 0.0
    as_text: bool = False
    rounded: bool = False
    shuffled: bool = False
    clamp: int = 100
    refuses_closed: bool = True
    password: str = PASSWORD
    lifetime: int = 86400


@attrs.define
class Service:
    """Service that answers calls from the state of a market.

    Attributes:
        offers_sent: Each offer that has reached the exchange, taken or refused.
        reported: Time at which each bid was first listed to each client.
        calls: Times of the calls of each client.
    """

    market: Market
    rng: Random
    quirks: Quirks = attrs.Factory(Quirks)
    tokens: dict[str, float] = attrs.Factory(dict)
    offers_sent: list[tuple[float, Call]] = attrs.Factory(list)
    reported: dict[tuple[str, int], float] = attrs.Factory(dict)
    calls: dict[str, list[float]] = attrs.Factory(dict)
    _cached: dict[str, tuple[float, float]] = attrs.Factory(dict)

    def revoke_tokens(self) -> None:
        """End every login."""
        self.tokens.clear()

    def answer(self, call: Call, now: float) -> Reply:
        """Answer a call."""
        self.calls.setdefault(call.author, []).append(now)
        if (call.method, call.path) == ("POST", "login"):
            return self._login(call, now)
        if call.token is None or self.tokens.get(call.token, 0.0) <= now:
            return 401, {"Unauthorized": "access denied"}
        match call.method, call.path:
            case ("POST", "quote/getrequests") | ("GET", "quote/request"):
                return self._requests(call, now)
            case "GET", "quote/bid":
                return self._bids(call, now)
            case "POST", "quote/submitoffer" | "quote/bid":
                return self._offer(call, now)
            case "GET", "currency":
                rows = [{"index": index, "name": code, "code": code} for index, code in CURRENCIES.items()]
                return 200, {"currencies": _collection(rows)}
        return 400, {"message": f"{call.method} {call.path} is not known"}

    def _login(self, call: Call, now: float) -> Reply:
        if (call.parameters.get("email"), call.parameters.get("password")) != (EMAIL, self.quirks.password):
            return 401, {"message": "the user name or password is invalid"}
        token = f"token-{len(self.tokens)}-{self.rng.getrandbits(48):x}"
        self.tokens[token] = now + self.quirks.lifetime
        user = {"access_token": token, "expires_on": self.quirks.lifetime, "firstname": "Bo", "lastname": "Ot"}
        user |= {"middlename": "", "email": EMAIL, "title": "", "enabled": "TRUE", "imageUrl": ""}
        user |= {"lastlogin": "2026-01-01 00:00:00", "company": {"name": "Forwarder", "city": "Hamburg"}}
        return 200, {"user": user}

    def _seen_at(self, what: str, now: float, lifetime: float) -> float:
        """Return the time of the state that a cached listing shows."""
        made, until = self._cached.get(what, (now, -1.0))
        if now >= until:
            made = now
            self._cached[what] = (now, now + lifetime)
        return made

    def _requests(self, call: Call, now: float) -> Reply:
        parameters = call.parameters
        window = min(int(parameters.get("secondsSinceUpdate", _WINDOW)), _MAX_WINDOW)
        if "index" in parameters:
            found = self.market.shipments.get(int(parameters["index"]))
            visible = [found] if found is not None and found.is_open(now) else []
            return 200, {"raterequests": _collection([self._request(each, now) for each in visible])}
        at = self._seen_at("requests", now, self.quirks.requests_cached)
        listed = [
            each
            for each in self.market.shipments.values()
            if each.is_open(at) and max(each.published, self._updated(each, at)) >= at - window
        ]
        return 200, {"raterequests": self._page([self._request(each, at) for each in reversed(listed)], parameters, 20)}

    @staticmethod
    def _updated(shipment: Shipment, at: float) -> float:
        return shipment.updated if shipment.updated <= at else max(when for when, _ in shipment.versions if when <= at)

    def _request(self, shipment: Shipment, at: float) -> dict[str, Any]:
        quantity = [many for when, many in shipment.versions if when <= at][-1]
        index = shipment.index
        return {
            "index": str(index) if self.quirks.as_text else index,
            "commodityname": f"Goods {index}",
            "refId": f"R-{index:05}",
            "requesttype": "Shipping",
            "status": "Available",
            "origin": port(index),
            "destination": port(index + 1),
            "needdate": "2030-01-15 00:00:00",
            "notes": f"{quantity} cartons of Goods {index}",
            "qty": quantity,
            "packaging": "Carton",
            "measureUnit": "m",
            "width": 1.0,
            "height": 0.5,
            "length": 2.0,
            "massUnit": "kg",
            "weight": 120,
            "incoterm": "FOB",
            "hazardous": 0,
        }

    def _bids(self, call: Call, now: float) -> Reply:
        at = self._seen_at(f"bids {call.parameters.get('type')}", now, self.quirks.bids_cached)
        if self.quirks.bids_frozen is not None:
            at = min(at, self.quirks.bids_frozen)
        wanted = call.parameters.get("type")
        visible = [bid for bid in self.market.bids if bid.shown_from <= at]
        if wanted == "sel":
            visible = [bid for bid in visible if bid.number in self.market.selected]
        elif wanted == "nsel":
            visible = [bid for bid in visible if bid.number not in self.market.selected]
        page = self._page([self._bid(bid, at) | {"": bid.number} for bid in reversed(visible)], call.parameters, 10)
        for row in page.values():
            self.reported.setdefault((call.author, row.pop("")), now)
        return 200, {"bids": page}

    def _bid(self, bid: Bid, at: float) -> dict[str, Any]:
        row = self._request(self.market.shipments[bid.request], max(at, bid.at))
        row["cargoname"], row["packingtype"] = row.pop("commodityname"), row.pop("packaging")
        for gone in ("requesttype", "incoterm", "hazardous"):
            del row[gone]
        for size in ("width", "height", "length"):
            row[f"cargo{size}"] = row.pop(size)
        row["price"] = _number(round(bid.shown_amount) if self.quirks.rounded else bid.shown_amount)
        row["currencyIndex"] = bid.currency
        if bid.number in self.market.selected:
            row |= {"status": "Selected", "loadingPOC": {"name": "Sheila", "email": "sheila@shipper.example"}}
            row["loadingCompany"] = {"name": "Shipper", "city": "Busan"}
        return row

    def _offer(self, call: Call, now: float) -> Reply:
        self.offers_sent.append((now, call))
        parameters = call.parameters
        shipment = self.market.shipments.get(int(parameters["requestIndex"]))
        if shipment is None or (self.quirks.refuses_closed and not shipment.is_open(now)):
            return 400, {"message": "the request is not open to offers"}
        currency = int(parameters.get("currencyIndex", parameters.get("currencyId", 0)))
        if currency not in CURRENCIES:
            return 400, {"message": "no such currency"}
        amount = Decimal(str(parameters["offer"]))
        rates = {name: Decimal(str(fee)) for name, fee in (parameters.get("rates") or {}).items()}
        bid = self.market.take(
            now,
            shipment.index,
            amount,
            currency,
            author=call.author,
            lag=self.quirks.bid_lag(),
            rates=rates,
            terms=parameters.get("terms"),
        )
        row = self._bid(bid, now)
        for gone in ("price", "currencyIndex"):
            del row[gone]
        entry: dict[str, Any] = {"index": str(bid.number), "offerAmount": _number(amount), "currencyIndex": currency}
        entry |= {"status": "pending", "terms": bid.terms or "", "rates": {k: _number(v) for k, v in rates.items()}}
        return 200, {"bid": row | {"offer": entry}}

    def _page(self, rows: list[dict[str, Any]], parameters: dict[str, Any], usual: int) -> dict[str, Any]:
        if self.quirks.shuffled:
            self.rng.shuffle(rows)
        size = min(int(parameters.get("rowsperpage", usual)), self.quirks.clamp)
        begin = int(parameters.get("offset", 0)) * size
        page = rows[begin : begin + size]
        if self.quirks.twice:
            page = [dict(row) for row in page for _ in range(1 + (self.rng.random() < self.quirks.twice))]
        return _collection(page)


def _collection(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {str(position): row for position, row in enumerate(rows)}


def _number(amount: Decimal | int) -> float | int:
    return int(amount) if amount == int(amount) else float(amount)


def read(content: bytes) -> dict[str, Any]:
    """Return the parameters of a call, with amounts as the client wrote them."""
    return dict(json.loads(content, parse_float=Decimal)) if content else {}
