"""Checker of a client's calls: compares their results with the service's ledger."""

from __future__ import annotations

import enum

import attrs
from tests.model.socket_runs.plan import WRITES, Step
from tests.model.socket_runs.service import Service

__all__ = ["Ended", "Flaw", "Wrong", "check"]


class Wrong(enum.StrEnum):
    """Results that must never happen."""

    DUPLICATE = "carried out twice"
    FALSE_SUCCESS = "a result, though it was not carried out"
    FALSE_ERROR = "an error that claims that nothing happened, though it did"
    FALSE_APPLIED = "Applied, though it was not"
    FALSE_NOT_APPLIED = "NotApplied, though it was"
    FALSE_CONFLICT = "Conflict, though nothing stands in its place"
    FALSE_READING = "a listing that is not what the service has"
    FOREIGN = "an exception that is not the SDK's"
    HANG = "a call that outlived its deadline"
    SECRET = "a secret is shown"


WRONG_RESULTS = frozenset(
    {Wrong.DUPLICATE, Wrong.FALSE_SUCCESS, Wrong.FALSE_ERROR, Wrong.FALSE_READING}
    | {Wrong.FALSE_APPLIED, Wrong.FALSE_NOT_APPLIED, Wrong.FALSE_CONFLICT}
)


@attrs.define(kw_only=True)
class Ended:
    """Completed call.

    Attributes:
        step: Step of the plan.
        key: The write's name in the service's ledger; empty for a read.
        outcome: `success`, `doubt`, `error`, `cancelled`, `foreign` or `hang`.
        error: The error's class.
        verdict: The class of what `reconcile()` found, or of its error.
        faithful: Whether the reading agrees with what the service had then.
        shows: Place in which a secret was found.
        late: Seconds by which it outlived its deadline.
    """

    step: Step
    key: str
    outcome: str = "hang"
    error: str = ""
    verdict: str = ""
    faithful: bool = True
    shows: str = ""
    late: float = 0.0


@attrs.frozen
class Flaw:
    """Wrong result of a call."""

    wrong: Wrong
    ended: Ended


def check(service: Service, endings: list[Ended]) -> list[Flaw]:
    """Check all calls of a run, after the last one has ended."""
    return [Flaw(wrong, ended) for ended in endings for wrong in _check_call(service, ended)]


def _check_call(service: Service, ended: Ended) -> list[Wrong]:
    done = service.commits[ended.key]
    found: list[Wrong] = []
    if ended.step.kind in WRITES:
        if done > 1:
            found.append(Wrong.DUPLICATE)
        if ended.outcome == "success" and not done:
            found.append(Wrong.FALSE_SUCCESS)
        if ended.outcome == "error" and done:
            found.append(Wrong.FALSE_ERROR)
        if ended.verdict == "Applied" and not done:
            found.append(Wrong.FALSE_APPLIED)
        if ended.verdict == "NotApplied" and done:
            found.append(Wrong.FALSE_NOT_APPLIED)
        if ended.verdict == "Conflict":
            found.append(Wrong.FALSE_CONFLICT)
    elif not ended.faithful:
        found.append(Wrong.FALSE_READING)
    if ended.outcome == "foreign":
        found.append(Wrong.FOREIGN)
    if ended.outcome == "hang":
        found.append(Wrong.HANG)
    if ended.shows:
        found.append(Wrong.SECRET)
    return found
