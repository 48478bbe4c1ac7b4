"""Checker of a bot's run: compares the exchange and the store's file with the promises. Imports nothing of the bot."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Final

import attrs
from tests.crash.bot.tariff import price
from tests.crash.bot.trigger_log import Step, StoreContents

from freight_sandbox.audit import AuditLog, OfferRecord

__all__ = ["RIVAL", "CheckResult", "Reported", "check", "reported"]

_WAYS: Final = {
    None: {"intent"},
    "intent": {"intent", "sending"},
    "sending": {"confirmed", "rejected", "unknown", "intent"},
    "unknown": {"unknown", "confirmed", "intent"},
    "confirmed": {"confirmed"},  # the update that shows its answer is noted
    "rejected": set[str](),
}
"""States that may follow each state of an offer."""

RIVAL: Final = "rival@demo.example"
"""Account whose bids only fill pages."""

_ENDS: Final = {"confirmed", "rejected"}


@attrs.frozen
class Reported:
    """A line of the journal: a selection that a bot's handler received, and in which run of the process."""

    run: int
    request: int
    contact: bool


@attrs.frozen(kw_only=True)
class CheckResult:
    """Everything that may be wrong, as sentences, and what was counted.

    Attributes:
        missed: Requests on which no offer was made.
        duplicated: Requests on which more than one was made.
        wrong: Offers with an amount that the request never cost before they were made, or on no request.
        unended: Unfinished records: offers in doubt, parked or in flight, and waiting deliveries.
        dead: Dead letters.
        astray: Steps of the ledger that no offer may take, and differences between it and the exchange.
        unreported: Selections that no handler received, received twice in one run, without a contact, or in vain.
        published, offered, duplicates: Requests; offers; offers beyond the first on their request.
        retries: Claims of deliveries beyond the first.
        doubted: Times that it was not known whether an offer was taken.
        taken, not_taken: Doubts that were resolved as taken, and as not taken.
        reported_again: Selections reported again by a later run, as they must be when the first was cut off.
    """

    missed: Sequence[str]
    duplicated: Sequence[str]
    wrong: Sequence[str]
    unended: Sequence[str]
    dead: Sequence[str]
    astray: Sequence[str]
    unreported: Sequence[str]
    published: int
    offered: int
    duplicates: int
    selected: int
    retries: int
    doubted: int
    taken: int
    not_taken: int
    reported_again: int

    @property
    def flaws(self) -> Sequence[str]:
        return [
            *self.missed,
            *self.duplicated,
            *self.wrong,
            *self.unended,
            *self.dead,
            *self.astray,
            *self.unreported,
        ]

    @property
    def idle(self) -> bool:
        """Return whether the bot has no more work."""
        return not (self.missed or self.unended or self.unreported)


def reported(path: Path) -> list[Reported]:
    """Return the journal's lines, without a last line that was cut off."""
    if not path.exists():
        return []
    lines = [json.loads(text) for text in path.read_bytes().split(b"\n")[:-1]]
    return [Reported(line["run"], line["request"], line["contact"]) for line in lines]


def check(
    audit_log: AuditLog, contents: StoreContents, received: Sequence[Reported] = (), *, ledger: bool = True
) -> CheckResult:
    """Compare the exchange with the store. Without a `ledger`, its records are not checked."""
    published = [publication.request for publication in audit_log.publications]
    offers = Counter(record.offer.request for record in _offers(audit_log))
    selected = {change.request for change in audit_log.changes if change.what == "selected"}
    moves = Counter((step.was, step.became) for step in contents.steps)
    return CheckResult(
        missed=[f"request {request} has no offer" for request in published if not offers[request]],
        duplicated=[f"request {request} has {count} offers" for request, count in offers.items() if count > 1],
        wrong=[*_wrong(audit_log)],
        unended=[*_unended(contents)],
        dead=[f"{dead} is dead" for dead in contents.deliveries if dead.state == "dead"],
        astray=[*_astray(contents.steps), *_denied(audit_log, contents)] if ledger else [],
        unreported=[*_unreported(selected, received)],
        published=len(published),
        offered=offers.total(),
        duplicates=offers.total() - len(offers),
        selected=len(selected),
        retries=sum(max(0, delivery.claims - 1) for delivery in contents.deliveries),
        doubted=moves["sending", "unknown"],
        taken=moves["unknown", "confirmed"],
        not_taken=moves["unknown", "intent"],
        reported_again=len(received) - len({line.request for line in received}),
    )


def _offers(audit_log: AuditLog) -> list[OfferRecord]:
    """Return all offers except those of the rival, whose bids only fill pages."""
    return [record for record in audit_log.offers if record.account != RIVAL]


def _wrong(audit_log: AuditLog) -> Iterable[str]:
    prices: dict[int, list[tuple[float, Decimal]]] = {}
    for change in audit_log.changes:
        cargo = change.state.cargo
        prices.setdefault(change.request, []).append((change.time, price(cargo.quantity, cargo.destination)))
    for record in _offers(audit_log):
        offer = record.offer
        right = {amount for time, amount in prices.get(offer.request, ()) if time <= record.time}
        if offer.amount not in right:
            yield f"request {offer.request} was offered on for {offer.amount}; it cost {sorted(right)}"


def _unended(contents: StoreContents) -> Iterable[str]:
    for entry in contents.offers:
        if entry.state not in _ENDS:
            yield f"{entry} is not at its end"
    for delivery in contents.deliveries:
        if delivery.state not in ("done", "dead"):
            yield f"{delivery} waits"
    if contents.waiting:
        yield f"{contents.waiting} events wait for their handlers"


def _astray(steps: Iterable[Step]) -> Iterable[str]:
    states: dict[str, str] = {}
    for step in steps:
        if step.was != states.get(step.key) or step.became not in _WAYS[step.was]:
            yield f"{step} after {states.get(step.key)}"
        states[step.key] = step.became


def _denied(audit_log: AuditLog, contents: StoreContents) -> Iterable[str]:
    """Return the offers on which the ledger and the exchange disagree."""
    seen = Counter((record.offer.request, Decimal(record.offer.amount)) for record in _offers(audit_log))
    recorded = Counter((entry.request, entry.amount) for entry in contents.offers if entry.state == "confirmed")
    for request, amount in recorded - seen:
        yield f"the ledger has an offer on request {request} for {amount} that the exchange never saw"
    for request, amount in seen - recorded:
        yield f"the ledger does not have the offer on request {request} for {amount} that the exchange saw"


def _unreported(selected: Collection[int], received: Sequence[Reported]) -> Iterable[str]:
    runs: dict[int, list[int]] = {}
    for line in received:
        runs.setdefault(line.request, []).append(line.run)
        if not line.contact:
            yield f"the selection on request {line.request} was reported without a contact"
    yield from (f"the selection on request {request} was never reported" for request in selected if request not in runs)
    for request, reported_in in runs.items():
        if request not in selected:
            yield f"request {request} was reported to be selected, and is not"
        if len(reported_in) != len(set(reported_in)):
            yield f"the selection on request {request} was reported twice in one run: {reported_in}"
