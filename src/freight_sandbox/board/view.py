"""Snapshot of the exchange and its traffic, as JSON for the page."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from typing import Any, Final

from freight_sandbox.board.controller import BoardController
from freight_sandbox.board.events import latest_events
from freight_sandbox.board.labels import OPERATIONS, fault_label
from freight_sandbox.records import Account, Offer, Request
from freight_sandbox.samples import CURRENCIES
from freight_sandbox.service import Exchange

__all__ = ["snapshot"]

_MAX_REQUESTS: Final = 200
_DECLINED: Final = frozenset({"declined", "rejected"})


def snapshot(controller: BoardController) -> dict[str, Any]:
    """Return all changing parts of the page."""
    exchange, now = controller.exchange, controller.clock()

    requests = list(exchange.requests)
    displayed = _displayed(exchange, requests)
    states = Counter(request.state for request in requests)
    return {
        "revision": controller.revision,
        "now": now,
        "counts": {
            "open": states["open"],
            "selected": states["selected"],
            "withdrawn": states["withdrawn"],
            "waiting": _waiting(exchange),
            "struck": controller.traffic.struck,
            "duplicates": _duplicates(exchange),
        },
        "hidden": len(requests) - len(displayed),
        "requests": [_request(exchange, request, now, exchange.forwarder.index) for request in displayed],
        "events": [event.as_json(_amount(event.offer)) for event in latest_events(exchange)],
        "calls": controller.traffic.calls(),
        "strikes": [
            {**strike, "offers": _offers(exchange, strike["caller"], strike["request"], now)}
            for strike in controller.traffic.strikes()
        ],
        "armed": [
            {
                "id": armed.id,
                "name": armed.name,
                "label": fault_label(armed.name),
                "at": OPERATIONS[armed.operation].label if armed.operation else "Any call",
                "times": armed.times,
            }
            for armed in controller.armed
        ],
        "quirks": exchange.profile.changes(),
    }


def _displayed(exchange: Exchange, requests: list[Request]) -> list[Request]:
    """Return the requests, newest first. Over the limit, closed ones are dropped first, open ones with offers last."""
    offered = {offer.request for offer in exchange.offers if offer.status == "pending"}

    def rank(request: Request) -> tuple[int, int]:
        return (0 if not _is_open(request) else 2 if request.index in offered else 1), request.index

    first = sorted(requests, key=rank, reverse=True)[:_MAX_REQUESTS]
    return sorted(first, key=lambda request: request.index, reverse=True)


def _request(exchange: Exchange, request: Request, now: float, own: int) -> dict[str, Any]:
    cargo = request.cargo
    return {
        "index": request.index,
        "ref": request.refid,
        "state": request.state,
        "selected": request.selected,
        "shipper": exchange.accounts[request.owner].name,
        "created": request.created,
        "updated": request.updated,
        "commodity": cargo.commodityname,
        "type": cargo.requesttype,
        "origin": cargo.origin,
        "destination": cargo.destination,
        "arrival": cargo.arrival[:10],
        "notes": cargo.notes,
        "quantity": cargo.quantity,
        "packaging": cargo.packaging,
        "volume": _decimals(Decimal(cargo.length * cargo.width * cargo.height * cargo.quantity), 2),
        "weight": _decimals(Decimal(cargo.weight * cargo.quantity), 0),
        "incoterm": cargo.incoterm,
        "hazardous": bool(cargo.hazardous),
        "offers": [_offer(exchange, request, offer, own) for offer in exchange.offers_on(request.index, now)],
    }


def _offer(exchange: Exchange, request: Request, offer: Offer, own: int) -> dict[str, Any]:
    currency = CURRENCIES.get(offer.currency)
    chosen = offer.index == request.selected
    return {
        "id": offer.index,
        "amount": _decimals(Decimal(offer.amount), 2),
        "currency": currency.code if currency is not None else "",
        "status": "selected" if chosen else offer.status,
        "created": offer.created,
        "terms": offer.terms,
        # An offer of the account that the page assigns to a bot.
        "own": offer.account == own,
        "rates": [[fee, _decimals(Decimal(amount), 2)] for fee, amount in offer.rates.items()],
        # As in the service, a forwarder is named only once its offer is approved.
        "forwarder": _contact(exchange.accounts[offer.account]) if chosen else None,
        "shipper": _contact(exchange.accounts[request.owner]) if chosen else None,
    }


def _amount(offer: Offer | None) -> str | None:
    if offer is None:
        return None
    currency = CURRENCIES.get(offer.currency)
    return f"{'' if currency is None else currency.code} {_decimals(Decimal(offer.amount), 2)}".strip()


def _contact(account: Account) -> dict[str, str]:
    company = account.company
    place = ", ".join(part for part in (company.address1, company.city, company.state, company.country) if part)
    return {
        "name": account.name,
        "email": account.email,
        "company": company.name,
        "phone": company.phone,
        "address": place,
    }


def _decimals(value: Decimal, places: int) -> str:
    """Format a number; very large and very small ones keep an exponent."""
    return f"{value:,.{places}f}" if value == 0 or abs(value.adjusted()) < 18 else f"{value:.3E}"


def _waiting(exchange: Exchange) -> int:
    return sum(
        offer.status == "pending" and _is_open(exchange.requests.get(offer.request)) for offer in exchange.offers
    )


def _is_open(request: Request | None) -> bool:
    return request is not None and request.state == "open"


def _duplicates(exchange: Exchange) -> int:
    """Count the duplicate offers: those with the forwarder, request, amount and currency of an earlier one."""
    counts = Counter((offer.request, offer.account, offer.amount, offer.currency) for offer in exchange.offers)
    return sum(count - 1 for count in counts.values())


def _offers(exchange: Exchange, caller: str | None, request: int | None, now: float) -> int | None:
    """Count the equal offers of the caller on a request; more than one means that an offer was sent again.

    An offer with another amount is a new one, and a declined offer may be repeated.
    """
    account = next((one for one in exchange.accounts.values() if one.email == caller), None)
    if account is None or request is None:
        return None
    counts = Counter(
        (offer.amount, offer.currency)
        for offer in exchange.offers_on(request, now)
        if offer.account == account.index and offer.status not in _DECLINED
    )
    return max(counts.values(), default=0)
