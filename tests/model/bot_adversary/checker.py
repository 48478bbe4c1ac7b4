"""Checker of a run: offers too many, wrong prices, deliveries lost, and doubts that were reported."""

from __future__ import annotations

from bisect import bisect_left
from decimal import Decimal
from typing import TYPE_CHECKING, Final

import attrs

from .market import CURRENCIES

if TYPE_CHECKING:
    from .market import Bid
    from .service import Call
    from .world import World

__all__ = ["CheckResult", "check"]

_A_MOMENT: Final = 1.0
_LONGEST_WAY: Final = 120.0
_SPAN, _MOST_CALLS = 600.0, 1500


@attrs.define
class CheckResult:
    """Result of a check.

    Attributes:
        doubts: Offers that were left to a person, and reported as such.
        storms: Processes that sent too many calls in ten minutes.
        beside: Offers of the bot on a request with an offer of a person or of another machine, in cases in which the
            documentation does not promise that the bot notices.
    """

    scenario: str
    seed: int
    too_many: int = 0
    wrong: int = 0
    lost: int = 0
    doubts: int = 0
    storms: int = 0
    beside: int = 0
    flaws: list[str] = attrs.Factory(list)

    @property
    def is_bad(self) -> bool:
        """Return whether a promise was broken."""
        return bool(self.too_many or self.wrong or self.lost or self.storms)


def check(world: World, scenario: str, seed: int, *, owed_after: float) -> CheckResult:
    """Compare the exchange with the calls of the handlers."""
    result = CheckResult(scenario, seed)
    result.doubts = sum(doubt.parked for deploy in world.deploys for doubt in deploy.doubts)
    for request in world.market.shipments:
        _count_offers(world, request, result)
        _check_delivery(world, request, result, owed_after)
    _check_prices(world, result)
    _check_order(world, result)
    _check_answers(world, result)
    _check_calm(world, result)
    return result


def _count_offers(world: World, request: int, result: CheckResult) -> None:
    bids = world.market.bids_on(request)
    for disk in {deploy.disk for deploy in world.deploys}:
        makers = {deploy.name for deploy in world.deploys if deploy.disk is disk}
        own = [bid for bid in bids if bid.author in makers]
        wanted = len({call.revision for call in world.offer_calls if call.request == request and call.deploy in makers})
        if len(own) > wanted:
            result.too_many += len(own) - wanted
            result.flaws.append(f"request {request}: {len(own)} offers of the bot where its handlers wanted {wanted}")
        foreign = [bid for bid in bids if bid.author not in makers]
        if own and foreign and _is_beside(world, own[0], foreign):
            result.beside += 1
            if _was_reported(world, own[0], foreign):
                result.too_many += 1
                result.flaws.append(f"request {request}: the bot was shown {foreign[0]} and made {own[0]}")


def _is_beside(world: World, first: Bid, foreign: list[Bid]) -> bool:
    allowed = any(s.allow_existing for s in world.offer_calls if s.request == first.request)
    return not allowed and any(bid.at < first.at for bid in foreign)


def _was_reported(world: World, first: Bid, foreign: list[Bid]) -> bool:
    """Return whether a listing showed another's bid to the process before the send, or by its start."""
    (deploy,) = [deploy for deploy in world.deploys if deploy.name == first.author]
    left = first.at - _A_MOMENT
    reported = (world.service.reported.get((deploy.name, bid.number), float("inf")) for bid in foreign)
    return any(at < left for at in reported) or any(
        max(bid.shown_from, bid.at + world.service.quirks.bids_cached) < deploy.started for bid in foreign
    )


def _check_delivery(world: World, request: int, result: CheckResult, owed_after: float) -> None:
    shipment = world.market.shipments[request]
    if shipment.published < owed_after or shipment.time_open(world.now) < world.owed_when_open:
        return
    reported = {letter.request for deploy in world.deploys for letter in deploy.dead}
    reported |= {doubt.request for deploy in world.deploys for doubt in deploy.doubts}
    if request in reported or any(since <= shipment.published <= until for since, until in world.gaps):
        return
    endings = {each.ending for each in world.handled if each.request == request}
    bids = world.market.bids_on(request)
    if not endings and not bids:
        result.lost += 1
        result.flaws.append(f"request {request} was never handled, and is on no list; {_story(world, request)}")
    elif "done" in endings and not bids:
        result.lost += 1
        result.flaws.append(f"request {request} was handled, and has no offer; {_story(world, request)}")
    elif "already" in endings and not bids:
        result.lost += 1
        result.flaws.append(f"request {request} was passed over for a bid that is not there")


def _story(world: World, request: int) -> str:
    calls = [
        f"{s.deploy} offered {s.amount}: {s.ending or 'no answer'}" for s in world.offer_calls if s.request == request
    ]
    return f"calls: {calls}"


def _check_prices(world: World, result: CheckResult) -> None:
    sent_before: set[tuple[object, ...]] = set()
    for at, call in world.service.offers_sent:
        parameters = call.parameters
        request = int(parameters["requestIndex"])
        body = _body(call)
        earlier = [
            s for s in world.offer_calls if s.request == request and s.at <= at and _same_store(world, s.deploy, call)
        ]
        latest = {s.revision: s for s in earlier}
        # Of several that ask at once, any may come first.
        meant = [*latest.values(), *(s for s in earlier if s.ended > at - _LONGEST_WAY)]
        wanted = {(request, s.amount, s.currency, _fees(s.rates), s.terms or None) for s in meant}
        if body not in wanted and body not in sent_before:
            result.wrong += 1
            result.flaws.append(f"request {request}: {body} was sent, where the handlers offered {wanted}")
        sent_before.add(body)


def _check_order(world: World, result: CheckResult) -> None:
    """Return whether no offer of a later revision was followed by a first one of an earlier revision."""
    revisions: dict[tuple[object, ...], set[int]] = {}
    for call in world.offer_calls:
        disk = next(deploy.disk for deploy in world.deploys if deploy.name == call.deploy)
        key = (id(disk), call.request, call.amount, call.currency, _fees(call.rates), call.terms or None)
        revisions.setdefault(key, set()).add(call.revision)
    disks = {deploy.name: deploy.disk for deploy in world.deploys}
    highest: dict[tuple[int, int], int] = {}
    for bid in world.market.bids:
        if bid.author not in disks:
            continue
        body = (bid.request, bid.amount, CURRENCIES[bid.currency], _fees(bid.rates), bid.terms or None)
        meant = revisions.get((id(disks[bid.author]), *body), set())
        if len(meant) != 1:
            # One price for several revisions does not show their order.
            continue
        (revision,) = meant
        place = (id(disks[bid.author]), bid.request)
        if revision < highest.get(place, revision):
            result.wrong += 1
            result.flaws.append(f"request {bid.request}: the offer of revision {revision} came after a later one")
        highest[place] = max(revision, highest.get(place, revision))


def _same_store(world: World, name: str, call: Call) -> bool:
    disks = {deploy.name: deploy.disk for deploy in world.deploys}
    return disks[name] is disks[call.author]


def _body(call: Call) -> tuple[object, ...]:
    parameters = call.parameters
    rates = {name: Decimal(str(fee)) for name, fee in (parameters.get("rates") or {}).items()}
    code = CURRENCIES.get(int(parameters.get("currencyIndex", 0)), "")
    return (
        int(parameters["requestIndex"]),
        Decimal(str(parameters["offer"])),
        code,
        _fees(rates),
        parameters.get("terms") or None,
    )


def _fees(rates: dict[str, Decimal]) -> tuple[tuple[str, Decimal], ...]:
    return tuple(sorted((name, Decimal(fee)) for name, fee in rates.items()))


def _check_answers(world: World, result: CheckResult) -> None:
    """Return whether each bid that a handler received is on record at the exchange."""
    for call in world.offer_calls:
        if call.ending != "bid":
            continue
        stands = [bid for bid in world.market.bids_on(call.request) if call.returned in (bid.amount, bid.shown_amount)]
        if not stands and not world.service.quirks.rounded:
            result.wrong += 1
            result.flaws.append(
                f"request {call.request}: the handler was given a bid of {call.returned}, and none stands"
            )


def _check_calm(world: World, result: CheckResult) -> None:
    for author, calls in world.service.calls.items():
        most = max(bisect_left(calls, at + _SPAN) - first for first, at in enumerate(calls))
        if most > _MOST_CALLS:
            result.storms += 1
            result.flaws.append(f"{author} sent {most} calls in ten minutes")
