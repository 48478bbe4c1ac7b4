"""Tests of doubts that begin anew, as requests vanish together once more."""

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
    """Scans of a doubt, one after the other; six known requests are listed by each."""

    doubt: AbsenceDoubt | None = LASTED
    tracker: DoubtTracker = attrs.field(factory=DoubtTracker)
    number: int = 6

    def scan(
        self, at: float, absent: Iterable[TrackedRequest], listed: Iterable[int] = (), window: int = 1800
    ) -> AbsenceDoubt | None:
        self.number += 1
        self.doubt = self.tracker.next_doubt(
            self.doubt,
            scan=self.number,
            window=window,
            at=at,
            listed=frozenset(listed),
            known=6,
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
    vanished = (row(1), row(2), row(3, last_scan=5))
    assert scans.scan(5000.0, vanished) == attrs.evolve(LASTED, last=5000.0)


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


def test_new_doubt_counts_from_the_first_scan_that_lacked_the_requests() -> None:
    scans = Scans(doubt=attrs.evolve(LASTED, last=3000.0))
    scans.scan(3000.0, map(row, (1, 2, 3)))
    assert scans.scan(LASTING, map(row, (1, 2, 3))) == begun(scans, 3000.0, LASTING)


def test_new_doubt_counts_from_the_group_that_vanished_last() -> None:
    scans = Scans(doubt=attrs.evolve(LASTED, last=3000.0))
    most = [row(index) for index in (1, 2, 3, 4)]
    scans.scan(1000.0, most)
    vanished = [*most, *(row(index, last_scan=8) for index in (5, 6, 7))]
    scans.scan(3000.0, vanished)
    assert scans.scan(LASTING, vanished) == begun(scans, 3000.0, LASTING)
    assert scans.scan(4000.0, most, listed=(5, 6, 7)) == begun(scans, 1000.0, 4000.0)


def test_requests_that_were_listed_in_between_vanish_anew() -> None:
    scans = Scans(doubt=attrs.evolve(LASTED, last=3000.0))
    scans.scan(1000.0, map(row, (1, 2, 3)))
    again = [row(index, last_scan=5) for index in (1, 2, 3)]
    assert scans.scan(LASTING, again) == begun(scans, LASTING, LASTING)


def test_requests_that_were_gone_for_an_hour_count_as_missing() -> None:
    scans = Scans()
    scans.scan(5000.0, map(row, (1, 2, 3)))
    doubt = scans.doubt
    assert doubt is not None
    assert scans.scan(5000.0 + LASTING, map(row, (1, 2, 3))) == attrs.evolve(doubt, last=5000.0 + LASTING)


def test_new_doubt_ends_once_most_of_the_requests_are_listed() -> None:
    scans = Scans()
    anew = scans.scan(5000.0, map(row, range(1, 5)))
    assert anew == begun(scans, 5000.0, 5000.0)
    # Half of them are no proof. The other three have been gone since before the doubt.
    others = [row(index, last_scan=2) for index in (5, 6, 7)]
    assert scans.scan(5100.0, others, listed=(1, 2)) == attrs.evolve(anew, last=5100.0)
    assert scans.scan(5200.0, others, listed=(1, 2, 3)) == attrs.evolve(LASTED, last=5200.0)


def test_first_doubt_ends_only_by_a_scan_that_lacks_little() -> None:
    scans = Scans(doubt=None)
    first = scans.scan(100.0, map(row, (1, 2, 3)))
    assert first is not None
    assert scans.scan(200.0, map(row, (4, 5, 6)), listed=(1, 2, 3)) == attrs.evolve(first, last=200.0)
    assert scans.scan(300.0, (), listed=range(1, 7), window=2000) is None


def test_only_requests_that_vanished_long_ago_are_forgotten() -> None:
    scans = Scans(doubt=attrs.evolve(LASTED, last=3000.0))
    scans.scan(1000.0, map(row, (1, 2, 3)))
    scans.tracker.prune(1000.0)
    assert scans.scan(LASTING, map(row, (1, 2, 3))) == begun(scans, 1000.0, LASTING)
    scans = Scans(doubt=attrs.evolve(LASTED, last=3000.0))
    scans.scan(1000.0, map(row, (1, 2, 3)))
    scans.tracker.prune(1001.0)
    assert scans.scan(LASTING, map(row, (1, 2, 3))) == begun(scans, LASTING, LASTING)
