"""One page out of a listing: the order, the page size, and what lies beyond the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from freight_exchange.sandbox.core.profile import Profile
from freight_exchange.sandbox.core.state import Offer, Request
from freight_exchange.sandbox.core.validation import Refusal

if TYPE_CHECKING:
    from freight_exchange.sandbox.core.request_context import RequestContext

__all__ = ["Sorter", "missing", "page"]

_T = TypeVar("_T")

_WORD = 2**64 - 1
_NOTHING = "No records found."
_OUT_OF_RANGE = "The offset is out of range."
_CLAMP, _WIDER, _PAGES_BEFORE = 2, 10, 3
"""A clamp that changes where none is given, how many times wider it is at times, and pages before it changes."""


class Sorter:
    """The order of the listings. `reorder` replaces it, whatever the profile says, by another random one."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._shuffled = False

    def reorder(self) -> None:
        self._seed += 1
        self._shuffled = True

    def requests(self, order: str, records: list[Request]) -> list[Request]:
        return self._sort(order, records, lambda r: (r.created, r.index), lambda r: (r.updated, r.index))

    def offers(self, order: str, records: list[Offer]) -> list[Offer]:
        return self._sort(order, records, lambda o: (o.created, o.index), lambda o: (o.created, o.index))

    def plain(self, order: str, records: list[_T], index: Callable[[_T], int]) -> list[_T]:
        """For records without times."""
        return self._sort(order, records, lambda r: (0.0, index(r)), lambda r: (0.0, index(r)))

    def _sort(
        self,
        order: str,
        records: list[_T],
        created: Callable[[_T], tuple[float, int]],
        updated: Callable[[_T], tuple[float, int]],
    ) -> list[_T]:
        if self._shuffled or order == "random":
            records.sort(key=lambda record: _mixed(self._seed, created(record)[1]))
        elif order == "updated":
            records.sort(key=updated, reverse=True)
        elif order == "index":
            records.sort(key=lambda record: created(record)[1])
        else:
            records.sort(key=created, reverse=order == "newest")
        return records


def _mixed(seed: int, index: int) -> int:
    """A number that looks random, and is the same for the same seed and index (the finish of splitmix64)."""
    mixed = (index * 0x9E3779B97F4A7C15 + seed * 0xD1B54A32D192ED03) & _WORD
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _WORD
    return mixed ^ (mixed >> 31)


def page(
    context: RequestContext, records: Sequence[_T], default_rows: int | None, visible: Callable[[_T], bool]
) -> Sequence[_T]:
    """Cut the page asked for. `offset` counts pages, not records (service document, 4).

    Rows that are not `visible` are left out before the page is cut or after, by the profile.
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
        asked = fields.integer("rowsperpage", least=1)
    else:
        offset, asked = 0, default_rows or max(len(records), 1)
    if paired == 2 and profile.rows_limit is not None and asked > profile.rows_limit:
        raise Refusal(int(profile.over_limit), "The field rowsperpage is too large.", "rowsperpage")
    clamp = _clamp(context)
    rows = min(asked, clamp) if clamp else asked
    if profile.offset_ignored:
        offset = 0
    if not records and offset == 0:
        return _nothing(profile)
    start = offset * (rows if profile.clamp_stride == "clamped" else asked)
    if start >= len(records):
        return _past_end(records, rows, profile)
    return records[start : start + rows]


def _clamp(context: RequestContext) -> int | None:
    """The most rows of this page."""
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


def _nothing(profile: Profile) -> tuple[()]:
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


def missing(profile: Profile) -> None:
    """A lookup by index found nothing. Returns where the server says so by an empty collection."""
    match profile.lookup_missing:
        case "404":
            raise Refusal(404, _NOTHING, "index")
        case "400":
            raise Refusal(400, "There is no such record.", "index")
        case _:
            return
