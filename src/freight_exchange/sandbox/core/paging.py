"""Paging of listings: page sizes, their limits, and pages beyond the last one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from freight_exchange.sandbox.core.request_context import RequestContext
from freight_exchange.sandbox.core.validation import Refusal
from freight_exchange.sandbox.model.profile import Profile

__all__ = ["page", "refuse_missing"]

_T = TypeVar("_T")

_NOTHING = "No records found."
_OUT_OF_RANGE = "The offset is out of range."
_CLAMP, _WIDER, _PAGES_BEFORE = 2, 10, 3
"""For a clamp that changes: its default size, the factor of its larger size, and the pages before the change."""


def page(
    context: RequestContext, records: Sequence[_T], default_rows: int | None, visible: Callable[[_T], bool]
) -> Sequence[_T]:
    """Return the requested page. `offset` counts pages, not records (service document, 4).

    The profile decides whether rows that are not `visible` are removed before or after paging.
    """
    if context.profile.rights == "before_paging":
        return _cut(context, [record for record in records if visible(record)], default_rows)
    return [record for record in _cut(context, records, default_rows) if visible(record)]


def _cut(context: RequestContext, records: Sequence[_T], default_rows: int | None) -> Sequence[_T]:
    fields, profile = context.fields, context.profile
    paired = ("offset" in fields) + ("rowsperpage" in fields)
    if paired == 1 and profile.lone_offset == "400":
        raise Refusal(400, "offset and rowsperpage must be sent together.", "offset")
    if paired == 2:
        offset = fields.integer("offset", least=0)
        requested = fields.integer("rowsperpage", least=1)
    else:
        offset, requested = 0, default_rows or max(len(records), 1)
    if paired == 2 and profile.rows_limit is not None and requested > profile.rows_limit:
        raise Refusal(int(profile.over_limit), "The field rowsperpage is too large.", "rowsperpage")
    clamp = _clamp(context)
    rows = min(requested, clamp) if clamp else requested
    if profile.offset_ignored:
        offset = 0
    if not records and offset == 0:
        return _empty_listing(profile)
    start = offset * (rows if profile.clamp_stride == "clamped" else requested)
    if start >= len(records):
        return _past_end(records, rows, profile)
    return records[start : start + rows]


def _clamp(context: RequestContext) -> int | None:
    """Return the largest page size that the server allows now."""
    profile, database = context.profile, context.database
    if profile.clamp_change == "steady":
        return profile.rows_clamp
    served = database.pages_served
    database.pages_served += 1
    narrow = profile.rows_clamp or _CLAMP
    match profile.clamp_change:
        case "lowered":
            widened = served < _PAGES_BEFORE
        case "raised":
            widened = served >= _PAGES_BEFORE
        case "hourly":
            widened = context.now // 3600 % 2 == 0
        case _:
            widened = served % 2 == 0
    return narrow * _WIDER if widened else narrow


def _empty_listing(profile: Profile) -> tuple[()]:
    match profile.nothing_found:
        case "404":
            raise Refusal(404, _NOTHING)
        case "404_bare":
            raise Refusal(404, "Not Found")
        case _:
            return ()


def _past_end(records: Sequence[_T], rows: int, profile: Profile) -> Sequence[_T]:
    match profile.past_end:
        case "404":
            raise Refusal(404, _NOTHING)
        case "400" | "416" | "422" | "500" as status:
            raise Refusal(int(status), _OUT_OF_RANGE, "offset")
        case "last_page" if records:
            return records[(len(records) - 1) // rows * rows :]
        case _:
            return ()


def refuse_missing(profile: Profile) -> None:
    """Refuse a lookup that found nothing, unless the profile answers it with an empty collection."""
    match profile.lookup_missing:
        case "404":
            raise Refusal(404, _NOTHING, "index")
        case "400":
            raise Refusal(400, "There is no such record.", "index")
        case _:
            return
