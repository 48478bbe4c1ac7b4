"""Tests of doubts that begin anew when requests vanish together again."""

from __future__ import annotations

from collections.abc import Iterable

import attrs
import pytest

from freight_exchange.feed.core.absence.doubt_tracker import DoubtTracker
from freight_exchange.feed.core.absence.doubts import LASTING
from freight_exchange.feed.core.state import AbsenceDoubt
from freight_exchange.store.protocol import TrackedRequest

LASTED = AbsenceDoubt(since=0.0, last=LASTING, window=21_600, scan=3)


def row(index: int, *, last_scan: int = 4, missed_scans: int = 0, updated_after: float = 0.0) -> TrackedRequest:
    return TrackedRequest(
        index=index,
        digest=b"12345678",
        record=b"{}",
        version=1,
        first_seen=0.0,
        last_seen=0.0,
        last_scan=last_scan,
        updated_after=updated_after,
        missed_scans=missed_scans,
    )


@attrs.define
class Scans:
    """Successive scans of a doubt; each lists six known requests unless a test specifies others."""

    doubt: AbsenceDoubt | None = LASTED
    tracker: DoubtTracker = attrs.field(factory=DoubtTracker)
    number: int = 6

    def scan(
        self,
        at: float,
        absent: Iterable[TrackedRequest],
        listed: Iterable[int] = (),
        *,
        known: int = 6,
        window: int = 1800,
    ) -> AbsenceDoubt | None:
        self.number += 1
        self.doubt = self.tracker.next_doubt(
            self.doubt,
            scan=self.number,
            window=window,
            at=at,
            listed=frozenset(listed),
            known=known,
            absent=tuple(absent),
        )
        return self.doubt


def begun(scans: Scans, since: float, last: float) -> AbsenceDoubt:
    return AbsenceDoubt(since=since, last=last, window=1800, scan=scans.number)


@pytest.mark.parametrize("last_scan", [3, 4])
def test_doubt_that_has_lasted_begins_anew_when_requests_vanish_together(last_scan: int) -> None:
    scans = Scans()
    vanished = [row(index, last_scan=last_scan) for index in (1, 2, 3)]
    assert scans.scan(5000.0, vanished) == begun(scans, 5000.0, 5000.0)


def test_requests_that_vanished_one_after_the_other_begin_no_doubt() -> None:
    scans = Scans()
    first, second = row(1), row(2)
    scans.scan(5000.0, (first, second))
    assert scans.scan(5100.0, (first, second, row(3, last_scan=7))) == attrs.evolve(LASTED, last=5100.0)
    others = (row(3, last_scan=8), row(4, last_scan=7))
    assert scans.scan(5200.0, (first, second, *others)) == attrs.evolve(LASTED, last=5200.0)


@pytest.mark.parametrize(("known", "is_anew"), [(1, False), (0, True)])
def test_requests_that_different_scans_listed_last_begin_a_doubt_if_nothing_known_is_listed(
    known: int, is_anew: bool
) -> None:
    scans = Scans()
    vanished = [row(index, last_scan=index + 2) for index in (1, 2, 3)]
    anew = AbsenceDoubt(since=5000.0, last=5000.0, window=1800, scan=7)
    assert scans.scan(5000.0, vanished, known=known) == (anew if is_anew else attrs.evolve(LASTED, last=5000.0))


@pytest.mark.parametrize(
    ("returned", "later", "is_anew"),
    [((7, 8, 9), LASTING - 1, True), ((7, 8, 9), LASTING, False), ((8, 9), LASTING - 1, False)],
)
def test_requests_that_different_scans_listed_last_begin_a_doubt_if_many_have_just_returned(
    returned: tuple[int, ...], later: float, is_anew: bool
) -> None:
    scans = Scans()
    gone = [row(index, last_scan=2) for index in (11, 12, 13)]
    scans.scan(4800.0, (*gone, *map(row, returned)), known=9)
    scans.scan(4900.0, gone, listed=returned[:1])
    scans.scan(at := 4900.0 + later - 1, gone, listed=returned)
    assert at < 4900.0 + LASTING
    vanished = [row(index, last_scan=index + 6) for index in (1, 2, 3)]
    scans.scan(4900.0 + later, (*gone, *vanished))
    now = 4900.0 + later
    assert scans.doubt == (begun(scans, now, now) if is_anew else attrs.evolve(LASTED, last=now))


def test_requests_that_no_scan_has_listed_since_the_doubt_begin_no_doubt() -> None:
    scans = Scans()
    vanished = (row(1), row(2), row(3, last_scan=2))
    assert scans.scan(5000.0, vanished) == attrs.evolve(LASTED, last=5000.0)


def test_requests_that_the_doubt_did_not_reach_vanish_together() -> None:
    reached = LASTED.last - LASTED.window
    for updated, is_anew in ((reached, False), (reached - 1.0, True)):
        scans = Scans()
        vanished = [row(index, last_scan=index - 1, updated_after=updated) for index in (1, 2, 3)]
        anew = begun(scans, 5000.0, 5000.0)
        scans.scan(5000.0, vanished)
        assert scans.doubt == (attrs.evolve(anew, scan=7) if is_anew else attrs.evolve(LASTED, last=5000.0))


def test_requests_that_count_as_missing_already_begin_no_doubt() -> None:
    scans = Scans()
    vanished = (row(1), row(2), row(3, missed_scans=1))
    assert scans.scan(5000.0, vanished) == attrs.evolve(LASTED, last=5000.0)


def test_new_doubt_counts_from_the_first_scan_that_lacked_all_of_the_requests() -> None:
    scans = Scans()
    vanished = (row(1), row(2), row(3))
    scans.scan(5000.0, vanished[:2], known=9)
    scans.scan(5100.0, vanished, known=9)
    assert scans.scan(5200.0, vanished) == AbsenceDoubt(since=5100.0, last=5200.0, window=1800, scan=9)


def test_doubt_that_has_not_lasted_begins_anew_as_well() -> None:
    scans = Scans(doubt=None)
    most = [row(index) for index in (1, 2, 3, 4)]
    first = scans.scan(1000.0, most)
    assert first is not None
    assert scans.scan(2000.0, most) == attrs.evolve(first, last=2000.0)
    others = [row(index, last_scan=8) for index in (5, 6, 7)]
    second = scans.scan(3000.0, (*most, *others))
    assert second is not None
    assert second == begun(scans, 3000.0, 3000.0)
    scans.scan(4000.0, (*most, *others, *(row(index, last_scan=9) for index in (8, 9, 10))))
    assert scans.doubt == begun(scans, 4000.0, 4000.0)
    # Each new doubt ends on its own; the first one does not.
    assert scans.scan(4100.0, (*most, *others), listed=(8, 9, 10)) == attrs.evolve(second, last=4100.0)
    assert scans.scan(4200.0, most, listed=range(5, 11)) == attrs.evolve(first, last=4200.0)


def test_doubts_that_began_anew_end_together() -> None:
    scans = Scans(doubt=None)
    most = [row(index) for index in (1, 2, 3, 4)]
    first = scans.scan(1000.0, most)
    assert first is not None
    scans.scan(2000.0, (*most, *(row(index, last_scan=7) for index in (5, 6, 7))))
    scans.scan(3000.0, (*most, *(row(index, last_scan=8) for index in (8, 9, 10))))
    assert scans.scan(4000.0, most, listed=range(5, 11)) == attrs.evolve(first, last=4000.0)


def test_requests_that_were_listed_in_between_vanish_anew() -> None:
    scans = Scans()
    scans.scan(5000.0, map(row, (1, 2, 3)))
    again = [row(index, last_scan=7) for index in (1, 2, 3)]
    assert scans.scan(5100.0, again) == begun(scans, 5100.0, 5100.0)


def test_requests_that_were_gone_for_an_hour_count_as_missing() -> None:
    scans = Scans()
    scans.scan(5000.0, map(row, (1, 2, 3)))
    doubt = scans.doubt
    assert doubt is not None
    assert scans.scan(5000.0 + LASTING, map(row, (1, 2, 3))) == attrs.evolve(doubt, last=5000.0 + LASTING)


def test_new_doubt_ends_once_most_of_the_requests_are_listed() -> None:
    scans = Scans()
    # Three have been gone since before the doubt.
    others = [row(index, last_scan=2) for index in (5, 6, 7)]
    anew = scans.scan(5000.0, (*map(row, range(1, 5)), *others))
    assert anew == begun(scans, 5000.0, 5000.0)
    # Half of the others prove nothing.
    assert scans.scan(5100.0, others, listed=(1, 2)) == attrs.evolve(anew, last=5100.0)
    assert scans.scan(5200.0, others, listed=(1, 2, 3)) == attrs.evolve(LASTED, last=5200.0)


def test_first_doubt_ends_only_by_a_scan_that_lacks_little() -> None:
    scans = Scans(doubt=None)
    first = scans.scan(100.0, map(row, (1, 2, 3)))
    assert first is not None
    assert scans.scan(200.0, map(row, (4, 5, 6)), listed=(1, 2, 3)) == attrs.evolve(first, last=200.0)
    assert scans.scan(300.0, (), listed=range(1, 7), window=2000) is None


@pytest.mark.parametrize(("pruned", "is_anew"), [(5000.0, True), (5001.0, False)])
def test_only_requests_that_vanished_long_ago_are_forgotten(pruned: float, is_anew: bool) -> None:
    scans = Scans()
    gone = [row(index, last_scan=2) for index in (11, 12, 13)]
    scans.scan(5000.0, (*gone, *map(row, (7, 8, 9))), known=9)
    scans.tracker.prune(pruned)
    # A forgotten request does not return.
    scans.scan(5100.0, gone, listed=(7, 8, 9))
    vanished = [row(index, last_scan=index + 5) for index in (1, 2, 3)]
    scans.scan(5200.0, (*gone, *vanished))
    assert scans.doubt == (begun(scans, 5200.0, 5200.0) if is_anew else attrs.evolve(LASTED, last=5200.0))
