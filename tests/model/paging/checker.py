"""Checker of the paging model: compares the listing that the client returned with the one on the server."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Sequence
from typing import Any

import attrs
from tests.model.paging.plan import Plan
from tests.model.paging.server import Row, Served, Server

__all__ = ["LOOKED_PAST", "CheckResult", "Wrong", "check"]

LOOKED_PAST = {"plain": 1, "sweep": 3, "write": 3}
"""Consecutive pages without a visible row after which a reading may end, even if rows follow."""

_SMALL_PAGES, _ROWS_LOOKED_PAST = range(10, 34), 100
"""Sizes of small pages, and consecutive hidden rows on such pages after which a sweep may end."""


class Wrong(enum.StrEnum):
    """Results that must never happen."""

    LOST = "a row that stood is missing from a listing that claims to be complete"
    REPEATED = "a row comes twice from a listing that stood"
    FALSE_APPLIED = "Applied, though it was not"
    FALSE_NOT_APPLIED = "NotApplied, though it was"
    SENT_TWICE = "the write was sent twice"
    ENDLESS = "pages are asked for without an end"
    FALSE_SUCCESS = "a result, though the answer was lost"


@attrs.frozen(kw_only=True)
class CheckResult:
    """Result of a check.

    Attributes:
        wrong: The flaw, if there is one.
        excused: Reason for which rows may be missing or the write may stay in doubt; `None` without an excuse.
        lost: Rows that were on the server and are missing, excused or not.
    """

    wrong: Wrong | None
    excused: str | None
    lost: int = 0


def check(plan: Plan, server: Server, outcome: str, found: Sequence[Any]) -> CheckResult:
    if outcome == "endless":
        return CheckResult(wrong=Wrong.ENDLESS, excused=None)
    if plan.reading == "write":
        return _check_write(plan, server, outcome)
    return _check_reading(plan, server, outcome, found)


def _check_reading(plan: Plan, server: Server, outcome: str, found: Sequence[Any]) -> CheckResult:
    begun = server.reading_from
    held = [*server.rows, *server.gone]
    stood = Counter(
        _key(plan, row) for row in held if row.visible and row.since <= begun and row.until >= len(server.served)
    )
    yielded = Counter(_key_of(plan, record) for record in found)
    excused = _excuse(plan, server, begun)
    if excused is None and plan.reading == "plain" and _moved(server, begun):
        excused = "the listing moved"
    lost = (stood - yielded).total() if outcome == "complete" else 0
    wrong = Wrong.LOST if lost and excused is None else None
    ever = Counter(_key(plan, row) for row in held if row.visible and row.until > begun)
    still = not _moved(server, begun) or plan.noun != "bids"
    if wrong is None and still and yielded - ever:
        wrong = Wrong.REPEATED
    return CheckResult(wrong=wrong, excused=excused, lost=lost)


def _check_write(plan: Plan, server: Server, outcome: str) -> CheckResult:
    begun = server.reading_from
    done = len(server.submitted)
    excused = _excuse(plan, server, begun)
    wrong: Wrong | None = None
    if server.sent > 1:
        wrong = Wrong.SENT_TWICE
    elif outcome == "success":
        wrong = Wrong.FALSE_SUCCESS
    elif outcome == "Applied" and not done and not (plan.twin and (not plan.baseline or _excuse(plan, server, 0))):
        # An equal bid that stood before, and that the baseline could not show, passes for the one in doubt.
        wrong = Wrong.FALSE_APPLIED
    elif outcome == "NotApplied" and done and excused is None:
        wrong = Wrong.FALSE_NOT_APPLIED
    if excused is None and not done and plan.twin:
        # A bid alike that stood before may be the one in doubt, put in its place.
        excused = "a bid alike stands in its place"
    if excused is None and wrong is None and (plan.failures or plan.end == "500"):
        # In the little time that the verdict has, failures use up the retries.
        excused = "pages fail"
    return CheckResult(wrong=wrong, excused=excused)


def _excuse(plan: Plan, server: Server, begun: int) -> str | None:
    """Return the reason why no client could have seen the whole listing, or `None`."""
    replies = server.served[begun:]
    dropped = plan.dropped and plan.noun != "requests"
    if (plan.offset_ignored or dropped) and any(reply.cut and len(set(reply.visible)) <= 1 for reply in replies):
        return "a page of equal rows, always the same"
    if plan.offset_ignored and not plan.strict and plan.reading != "write":
        return "the offset is ignored"
    if dropped and plan.reading == "plain":
        return "the page number is not sent, and the service may repeat its only one"
    if plan.noun == "bids" and (_alike(replies) or _repeated_twins(replies)):
        return "two pages of equal bids, like one page repeated"
    if plan.reading == "plain" and plan.stride == "asked" and plan.hiding != "none":
        return "rows behind a clamp are out of reach, and hidden rows make the clamp unknowable"
    if not any(reply.visible for reply in replies) and (plan.stride == "asked" or _resized(replies)):
        return "rows are out of reach behind a clamp, and no page shows a row"
    if not any(reply.visible for reply in replies) and server.moves:
        return "no page shows a row, and the listing moved"
    runs = [run for run in _hollow_runs(replies) if len(run) >= LOOKED_PAST[plan.reading]]
    if runs and (plan.reading == "plain" or _resized(replies)):
        return "wholly hidden pages"
    if any(sum(run) >= _ROWS_LOOKED_PAST or not all(rows in _SMALL_PAGES for rows in run) for run in runs):
        return "wholly hidden pages"
    return None


def _alike(replies: Sequence[Served]) -> bool:
    """Return whether a page looks like another one without a row in common, or like a part of the first."""
    nonempty = (reply for reply in replies if reply.visible and not reply.past)
    pages = {(reply.start, reply.cut or 0, tuple(sorted(reply.visible))) for reply in nonempty}
    return any(
        first[2] == second[2] or (first[0] == 0 and Counter(second[2]) <= Counter(first[2]))
        for first in pages
        for second in pages
        if first[0] + first[1] <= second[0]
    )


def _repeated_twins(replies: Sequence[Served]) -> bool:
    """Return whether a page of equal bids came again past the end, as more bids of that kind would."""
    return any(reply.past and 1 == len(set(reply.visible)) < len(reply.visible) for reply in replies)


def _hollow_runs(replies: Sequence[Served]) -> list[list[int]]:
    """Return the rows of the pages in each run of pages of one size in which every row was hidden.

    Pages in flight together arrive in any order, so those of one size count in the order of the listing.
    """
    runs: list[list[int]] = []
    for size_wanted in {reply.size_wanted for reply in replies}:
        pages = {reply.start: reply for reply in replies if reply.size_wanted == size_wanted}
        run: list[int] = []
        for _, reply in sorted(pages.items()):
            run = [*run, reply.cut or 0] if reply.hollow else []
            runs.append(run)
    return runs


def _moved(server: Server, begun: int) -> bool:
    """Return whether rows moved between the pages of the reading, by themselves or because the page size changed."""
    return bool(server.moves) or _resized(server.served[begun:])


def _resized(replies: Sequence[Served]) -> bool:
    """Return whether the clamp changed between two replies."""
    pages = [reply for reply in replies if reply.cut is not None]
    return any(
        min(reply.size_wanted, reply.clamp or reply.size_wanted)
        != min(reply.size_wanted, pages[0].clamp or reply.size_wanted)
        for reply in pages
    )


def _key(plan: Plan, row: Row) -> object:
    return row.terms if plan.noun == "bids" else row.index


def _key_of(plan: Plan, record: Any) -> object:
    return (record.index, int(record.amount)) if plan.noun == "bids" else record.index
