"""Checker of a shipper's bot: counts its answers at the exchange, and the wrong ones. Imports nothing of the bot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Final, NamedTuple

from freight_sandbox.audit import AuditLog

__all__ = ["APPROVE", "FLAWS", "PriceChange", "check", "not_approved"]

APPROVE: Final = "quote/approveoffer"

FLAWS: Final = ("approvals too many", "wrong offer approved", "declines too many", "not approved")
"""Counts that must be zero."""


class PriceChange(NamedTuple):
    """New amount of an offer from a given time."""

    time: float
    offer: int
    amount: Decimal


def check(log: AuditLog, expected: Iterable[int], changes: Sequence[PriceChange] = ()) -> Counter[str]:
    """Count the answers, and what is wrong with them.

    An approval is wrong if another pending offer on the request was cheaper at the time. A selection by a person counts
    as an approval: a bot's approval after it is one too many. A request whose offers were all declined has none left to
    approve, and is counted apart.

    Args:
        log: Audit log of the exchange.
        expected: The requests that must be awarded.
        changes: Prices that were changed.
    """
    request_of = {record.offer.index: record.offer.request for record in log.offers}
    counts: Counter[str] = Counter()
    approvals: Counter[int] = Counter()
    declines: dict[int, list[float]] = {}
    by_hand = [change for change in log.changes if change.what == "selected" and change.call is None]
    approvals.update(change.request for change in by_hand)
    counts["selections by hand"] = len(by_hand)
    for call in log.calls_to("POST", APPROVE):
        if not call.processed:
            continue
        offer = int(call.parameters["offerIndex"])
        if call.parameters["approved"] != 1:
            declines.setdefault(offer, []).append(call.time)
            continue
        counts["approvals"] += 1
        approvals[request_of[offer]] += 1
        counts["wrong offer approved"] += offer != _cheapest(log, request_of[offer], changes, declines, call.time)
    counts["declines"] = sum(map(len, declines.values()))
    counts["approvals too many"] = sum(number - 1 for number in approvals.values())
    counts["declines too many"] = sum(len(times) - 1 for times in declines.values())
    unanswered = not_approved(log, expected)
    counts["not approved"] = len(unanswered)
    counts["all offers declined"] = sum(request not in approvals for request in expected) - len(unanswered)
    return counts


def not_approved(log: AuditLog, expected: Iterable[int]) -> list[int]:
    """Return the requests without an approval, but for those whose offers were all declined."""
    request_of = {record.offer.index: record.offer.request for record in log.offers}
    answers = [call.parameters for call in log.calls_to("POST", APPROVE) if call.processed]
    declined = {int(answer["offerIndex"]) for answer in answers if answer["approved"] != 1}
    approved = {request_of[int(answer["offerIndex"])] for answer in answers if answer["approved"] == 1}
    approved |= {change.request for change in log.changes if change.what == "selected" and change.call is None}
    left = {request for offer, request in request_of.items() if offer not in declined}
    return [
        request
        for request in expected
        if request not in approved and (request in left or request not in request_of.values())
    ]


def _cheapest(
    log: AuditLog, request: int, changes: Sequence[PriceChange], declined: Mapping[int, object], time: float
) -> int:
    prices = {
        record.offer.index: Decimal(record.offer.amount)
        for record in log.offers
        if record.offer.request == request and record.time <= time and record.offer.index not in declined
    }
    for change in changes:
        if change.offer in prices and change.time <= time:
            prices[change.offer] = change.amount
    return min(prices, key=lambda offer: prices[offer])
