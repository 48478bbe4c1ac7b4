"""Model of listings that move during a read: a list, with changes between any two pages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import count

import attrs
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from tests.unit.paging.listing_server import ENDS, End, IncompleteError, ListingServer, read

from freight_exchange.paging import PageSizes
from freight_exchange.paging.core.end_signs import pages_past_end
from freight_exchange.paging.core.page_sizes import MIN_PAGE_SIZE
from freight_exchange.paging.core.reread import PAGES_PAST_END
from freight_exchange.paging.core.sweep import MAX_ROUNDS

Change = Callable[[list[int]], None]


@attrs.frozen
class Insert:
    """Insertion of new rows. They fill less than a page, since otherwise one page could come again and again."""

    places: tuple[float, ...]

    def on(self, rows: list[int], fresh: count[int], page_size: int) -> None:
        for place in self.places[: page_size - 1]:
            rows.insert(round(place * len(rows)), next(fresh))


@attrs.frozen
class Remove:
    """Permanent removal of rows."""

    places: tuple[float, ...]

    def on(self, rows: list[int], fresh: count[int], page_size: int) -> None:
        for place in self.places:
            if rows:
                del rows[round(place * (len(rows) - 1))]


@attrs.frozen
class Reorder:
    """Change to any other order."""

    weights: tuple[int, ...]

    def on(self, rows: list[int], fresh: count[int], page_size: int) -> None:
        rows.sort(key=lambda row: (self.weights[row % len(self.weights)], row))


@attrs.frozen
class Raise:
    """Move of a row to the front, as after an update."""

    place: float

    def on(self, rows: list[int], fresh: count[int], page_size: int) -> None:
        if rows:
            rows.insert(0, rows.pop(round(self.place * (len(rows) - 1))))


Happening = Insert | Remove | Reorder | Raise

places = st.lists(st.floats(0, 1), min_size=1, max_size=3).map(tuple)
happenings = st.lists(
    st.one_of(
        st.none(),
        st.builds(Insert, places),
        st.builds(Insert, st.just((0.0,))),
        st.builds(Remove, places),
        st.builds(Remove, st.just((0.0,))),
        st.builds(Reorder, st.lists(st.integers(0, 3), min_size=1, max_size=5).map(tuple)),
        st.builds(Raise, st.floats(0, 1)),
    ),
    max_size=24,
)


@given(
    length=st.integers(0, 40),
    page_size=st.integers(1, 12),
    clamp=st.none() | st.integers(1, 12),
    end=st.sampled_from(ENDS),
    honoured=st.integers(0, 12),
    sweep=st.booleans(),
    broken=st.sets(st.integers(0, 40)),
)
@example(length=0, page_size=11, clamp=None, end="empty", honoured=0, sweep=True, broken=set())
def test_unchanging_listing_is_read_completely_and_once(
    length: int, page_size: int, clamp: int | None, end: End, honoured: int, sweep: bool, broken: set[int]
) -> None:
    sizes = PageSizes()
    sizes.record_rows("operation", min(honoured, clamp or honoured))
    server = ListingServer([*range(length)], clamp=clamp, end=end, broken=broken.__contains__)
    found = read(server, page_size=page_size, sizes=sizes, sweep=sweep)
    assert found == [row for row in range(length) if row not in broken]
    pages = length // min(page_size, clamp or page_size) + 3 + 2 * (end == "500")
    further = pages_past_end(PAGES_PAST_END, min(page_size, MIN_PAGE_SIZE))
    assert len(server.requests) <= (3 * pages + 2 * further if sweep else pages)


@given(length=st.integers(0, 30), page_size=st.integers(2, 9), end=st.sampled_from(ENDS), changes=happenings)
def test_one_pass_yields_no_row_twice(length: int, page_size: int, end: End, changes: list[Happening | None]) -> None:
    server, meanwhile = _moving(length, page_size, end, changes)
    found = read(server, page_size=page_size, meanwhile=meanwhile)
    assert max(Counter(found).values(), default=1) == 1


@settings(max_examples=250)
@given(
    length=st.integers(0, 16),
    page_size=st.integers(2, 5),
    end=st.sampled_from(ENDS),
    clamp=st.none() | st.integers(2, 4),
    changes=happenings,
)
@example(3, 2, "empty", None, [Remove((0.0,))])
@example(
    11, 3, "empty", 2, [Raise(0.6), Raise(0.7), Reorder((0,)), None, Insert((0.0,)), Insert((0.0,)), Reorder((0,))]
)
@example(9, 2, "empty", None, [Remove((0.0,)), None, None, None, None, Insert((0.0,)), None, Remove((0.0,))])
def test_sweep_misses_no_row_that_was_listed_all_the_time(
    length: int,
    page_size: int,
    end: End,
    clamp: int | None,
    changes: list[Happening | None],
) -> None:
    server, meanwhile = _moving(length, min(page_size, clamp or page_size), end, changes, clamp)
    there = set(server.rows)

    def watched(change: Change) -> Change:
        def then(rows: list[int]) -> None:
            change(rows)
            there.intersection_update(rows)

        return then

    complete = True
    try:
        found = read(server, page_size=page_size, sweep=True, meanwhile=[*map(watched, meanwhile)])
    except IncompleteError as error:
        found, complete = error.args[0], False
    # On a server that repeats its last page, a page that comes again and again looks like the end.
    assume(server.most_again < (1 if end == "last page" else 2))
    assert there <= set(found) or not complete
    assert max(Counter(found).values(), default=1) == 1
    most_rows = length + sum(len(change.places) for change in changes if isinstance(change, Insert))
    most_pages = most_rows // min(page_size, clamp or page_size) + 4
    assert len(server.requests) <= min(MAX_ROUNDS, len(changes) + 4) * (3 * most_pages + PAGES_PAST_END + 3)


def _moving(
    length: int,
    page_size: int,
    end: End,
    changes: list[Happening | None],
    clamp: int | None = None,
) -> tuple[ListingServer[int], list[Change]]:
    fresh = count(1000)

    def happening(change: Happening | None) -> Change:
        return lambda rows: change.on(rows, fresh, page_size) if change else None

    return ListingServer([*range(length)], end=end, clamp=clamp), [*map(happening, changes)]
