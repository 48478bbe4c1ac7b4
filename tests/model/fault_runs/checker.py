"""Checker of a write: compares the client's result with the exchange."""

from __future__ import annotations

import enum
from decimal import ROUND_HALF_UP, Decimal

import attrs
from tests.model.fault_runs.plan import CONTRADICTIONS, Plan
from tests.model.fault_runs.world import World

__all__ = ["CheckResult", "Wrong", "check"]

# On the reads, these leave nothing to decide by: the service asks to be left alone for ages, or is out for good.
_LASTING = frozenset({"throttled_huge", "unavailable_forever", "unauthorized_forever"})
# Each strike of this one costs a call its whole minute, and three of them all the time there is.
_SLOW, _TOO_OFTEN = "pool_exhausted", 3
# What the service answers when it wrote a route or declined an offer is not shown (service document, 3 and 4.5), so
# that nothing at all, or any object under a 200, is success. These are sent in its place by a service that did nothing.
_LIES = frozenset({"empty_200", "maintenance_200"})


class Wrong(enum.StrEnum):
    """Results that must never happen."""

    DUPLICATE = "carried out twice"
    RESENT = "sent while being looked for"
    FALSE_APPLIED = "Applied, though it was not"
    FALSE_NOT_APPLIED = "NotApplied, though it was"
    FALSE_CONFLICT = "Conflict, though nothing stands in its place"
    FALSE_SUCCESS = "a result, though it was not carried out once"
    BELIEVED = "a result, though the reply shows that it is about something else"
    FALSE_ERROR = "an error that claims that nothing happened, though it did"


@attrs.frozen(kw_only=True)
class CheckResult:
    """Result of a check: the flaw, why the outcome was not visible in time, and whether the client decided it."""

    wrong: Wrong | None
    hidden: str | None
    decided: bool


def check(plan: Plan, world: World, outcome: str, sent: int) -> CheckResult:
    """Check the outcome of a run; `sent` is the last call before the client looked for its write."""
    beyond = plan.profile.late_visibility > plan.settle.total_seconds()
    return CheckResult(
        wrong=_wrong(plan, world, outcome, sent, beyond),
        hidden=_hidden(plan, world),
        decided=outcome in ("Applied", "NotApplied", "Conflict"),
    )


def _wrong(plan: Plan, world: World, outcome: str, sent: int, beyond: bool) -> Wrong | None:
    done = world.done()
    if len(done) > 1:
        return Wrong.DUPLICATE
    if any(call.number > sent for call in world.calls()):
        return Wrong.RESENT
    if outcome == "success":
        strike = plan.strike("write")
        lied = strike is not None and strike.name in _LIES and (plan.kind == "decline" or "route" in plan.kind)
        if done and _contradicted(plan, world):
            return Wrong.BELIEVED
        return None if done or lied else Wrong.FALSE_SUCCESS
    if outcome.startswith("error"):
        return Wrong.FALSE_ERROR if done else None
    if outcome == "Applied":
        equal = plan.twin and not (plan.baseline and plan.kind in ("submit", "publish", "create_route"))
        return None if done or equal else Wrong.FALSE_APPLIED
    if outcome == "NotApplied":
        # A server that shows its writes later than it was given time for is believed too early: that is what the
        # settle time means. A decline that changes nothing is none.
        nothing = plan.kind == "decline" and plan.profile.decline_outcome == "unchanged"
        return Wrong.FALSE_NOT_APPLIED if done and not (nothing or beyond) else None
    if outcome == "Conflict":
        return None if world.overridden() or (beyond and world.meddled) else Wrong.FALSE_CONFLICT
    return None


def _contradicted(plan: Plan, world: World) -> bool:
    """Return whether the reply to the write visibly describes something else."""
    struck = any(fired.name in CONTRADICTIONS and fired.processed for fired in world.sandbox.exchange.faults.fired)
    if not struck or plan.kind == "decline":
        # What a decline returns is not documented.
        return False
    strike = plan.strike("write")
    if plan.kind == "approve" and strike is not None and strike.name == "reply_of_another_request":
        return plan.known
    is_visible = plan.profile.route_write in ("collection", "record") and plan.profile.optional_fields == "present"
    return is_visible or "route" not in plan.kind


def _hidden(plan: Plan, world: World) -> str | None:
    """Return why no reader of the listings could prove the outcome within the settle time; `None` if one can."""
    profile, done = plan.profile, bool(world.done())
    reading = plan.strike("reading")
    if reading is not None and (reading.times is None or reading.name in _LASTING):
        return "the service cannot be read"
    if reading is not None and reading.name == _SLOW and (reading.times or 0) >= _TOO_OFTEN:
        return "the service cannot be read"
    if profile.nothing_found == "404_bare":
        return "an empty listing reads as a wrong address"
    if profile.rows_limit is not None and profile.over_limit == "500":
        return "a page of the usual size fails"
    if profile.offset_ignored:
        return "every page is the first one"
    if profile.late_visibility > plan.settle.total_seconds():
        return "shown later than the settle time"
    if profile.poison != "none":
        return "a record is broken for good"
    return _hidden_by_kind(plan, world, done)


def _hidden_by_kind(plan: Plan, world: World, done: bool) -> str | None:
    profile = plan.profile
    elsewhere = profile.selected_offer_shape == "entry"
    match plan.kind:
        case "submit" if done and _rounded(plan):
            return "the amount is rounded"
        case "submit" if done and plan.baseline and world.meddled and profile.bid_default == "active":
            return "the plain listing leaves it out"
        case "submit" if done and plan.twin and plan.baseline and _hides_twins(plan):
            return "a bid alike is in its place"
        case "submit" if not done and (plan.twin or (plan.earlier and not plan.baseline)):
            return "a bid that stood before may be it"
        case "decline" if done and profile.decline_outcome == "removed":
            return "the offer is gone: declined or withdrawn"
        case "decline" if world.meddled and elsewhere:
            return "another offer is listed alone"
        case "approve" if world.overridden() and elsewhere and not plan.known:
            return "another offer is listed alone"
        case "create_route" | "update_route" if profile.date_form != "plain" or profile.optional_fields != "present":
            return "the route is not shown whole"
        case "update_route" if not plan.known and (not done or world.overridden()):
            return "the route was never read before"
        case _:
            return None


def _rounded(plan: Plan) -> bool:
    step = {"none": None, "cents": Decimal("0.01"), "whole": Decimal(1)}[plan.profile.amount_rounding]
    return step is not None and plan.amount != plan.amount.quantize(step, ROUND_HALF_UP)


def _hides_twins(plan: Plan) -> bool:
    """Return whether a second, equal bid cannot be seen: it replaces the first one, or its page looks the same."""
    return plan.profile.second_offer == "replaced" or plan.profile.rows_clamp == 1
