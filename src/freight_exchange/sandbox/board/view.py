"""Snapshot of the exchange and its traffic, as JSON for the page."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from typing import Any, Final

from freight_exchange.sandbox.board.controller import BoardController
from freight_exchange.sandbox.board.events import latest_events
from freight_exchange.sandbox.board.labels import OPERATIONS, fault_label
from freight_exchange.sandbox.core.database import Database
from freight_exchange.sandbox.model.profile import Profile
from freight_exchange.sandbox.model.state import Account, Offer, Request

__all__ = ["snapshot"]

_MAX_REQUESTS: Final = 200
_DECLINED: Final = frozenset({"declined", "rejected"})


def snapshot(controller: BoardController) -> dict[str, Any]:
    """Return all changing parts of the page."""
    exchange, now = controller.exchange, controller.clock()
    database = exchange.database
    requests = [request for _, _, _, request in database.requests.latest()]
    displayed = _displayed(database, requests)
    states = Counter(request.state for request in requests)
    return {
        "revision": controller.revision,
        "now": now,
        "counts": {
            "open": states["open"],
            "selected": states["selected"],
            "withdrawn": states["withdrawn"],
            "waiting": _waiting(database),
            "struck": controller.traffic.struck,
            "duplicates": _duplicates(database),
        },
        "hidden": len(requests) - len(displayed),
        "requests": [_request(database, request, now, exchange.forwarder.index) for request in displayed],
        "events": [event.as_json(_amount(database, event.offer)) for event in latest_events(database)],
        "calls": controller.traffic.calls(),
        "strikes": [
            {**strike, "offers": _offers(database, strike["caller"], strike["request"], now)}
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
        "quirks": _quirks(exchange.profile),
    }


def _displayed(database: Database, requests: list[Request]) -> list[Request]:
    """Return the requests, newest first. Over the limit, closed ones are dropped first, open ones with offers last."""
    offered = {offer.request for _, _, _, offer in database.offers.latest() if offer.status == "pending"}

    def rank(request: Request) -> tuple[int, int]:
        return (0 if not _is_open(request) else 2 if request.index in offered else 1), request.index

    first = sorted(requests, key=rank, reverse=True)[:_MAX_REQUESTS]
    return sorted(first, key=lambda request: request.index, reverse=True)


def _request(database: Database, request: Request, now: float, own: int) -> dict[str, Any]:
    cargo = request.cargo
    return {
        "index": request.index,
        "ref": request.refid,
        "state": request.state,
        "selected": request.selected,
        "shipper": database.accounts[request.owner].name,
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
        "offers": [_offer(database, request, offer, own) for offer in database.offers_on(request.index, now)],
    }


def _offer(database: Database, request: Request, offer: Offer, own: int) -> dict[str, Any]:
    currency = database.currencies.get(offer.currency)
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
        "forwarder": _contact(database.accounts[offer.account]) if chosen else None,
        "shipper": _contact(database.accounts[request.owner]) if chosen else None,
    }


def _amount(database: Database, offer: Offer | None) -> str | None:
    if offer is None:
        return None
    currency = database.currencies.get(offer.currency)
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


def _waiting(database: Database) -> int:
    return sum(
        offer.status == "pending" and _is_open(database.requests.get(offer.request))
        for _, _, _, offer in database.offers.latest()
    )


def _is_open(request: Request | None) -> bool:
    return request is not None and request.state == "open"


def _duplicates(database: Database) -> int:
    """Count the duplicate offers: those with the forwarder, request, amount and currency of an earlier one."""
    offers = (offer for _, _, _, offer in database.offers.latest())
    counts = Counter((offer.request, offer.account, offer.amount, offer.currency) for offer in offers)
    return sum(count - 1 for count in counts.values())


def _offers(database: Database, caller: str | None, request: int | None, now: float) -> int | None:
    """Count the equal offers of the caller on a request; more than one means that an offer was sent again.

    An offer with another amount is a new one, and a declined offer may be repeated.
    """
    account = database.by_email.get(caller.casefold()) if caller is not None else None
    if account is None or request is None:
        return None
    counts = Counter(
        (offer.amount, offer.currency)
        for offer in database.offers_on(request, now)
        if offer.account == account.index and offer.status not in _DECLINED
    )
    return max(counts.values(), default=0)


def _quirks(profile: Profile) -> dict[str, Any]:
    """Return the quirks that differ from the documented behaviour."""
    values = {knob.name: (getattr(profile, knob.name), knob.default) for knob in Profile.knobs()}
    return {name: value for name, (value, default) in values.items() if value != default}
