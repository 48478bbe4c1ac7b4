"""What a feed knows and proves, written down: every page with its events, and the advance of the cover, in one commit.

The arithmetic is in `cover`, `classify` and `ladder`; here it meets the store.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import attrs

from freight_exchange import wire
from freight_exchange.feed.core import lacking, schedule
from freight_exchange.feed.core.classify import classify, gone
from freight_exchange.feed.core.first_scan import BASELINE, UNDECIDED, next_stage
from freight_exchange.feed.core.observation import UNTOLD, Lately, Observation
from freight_exchange.feed.core.planner import is_young
from freight_exchange.feed.core.scanner import OPERATION, Scanner
from freight_exchange.feed.core.state import Behind, State
from freight_exchange.feed.core.unsteady_fields import UnsteadyFields
from freight_exchange.feed.core.watermark import LONGEST_ALLOWANCE, WIDEST, Watermark, is_covered
from freight_exchange.feed.events import Gap
from freight_exchange.feed.serialization import pack
from freight_exchange.options import Start
from freight_exchange.paging import PageSizes
from freight_exchange.platform.clock import Reading
from freight_exchange.store.protocol import AbsenceQuery, Commit, FeedStore, NewEvent, ReadSet, TrackedRequest

if TYPE_CHECKING:
    from freight_exchange.errors import FreightExchangeError
    from freight_exchange.models import RateRequest
    from freight_exchange.wire import Rows

__all__ = ["Journal", "Look", "Run", "UnclearError", "wall"]

Run = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Runs a call of the store: in a worker thread, or in the loop itself."""

_MARGIN_OF_A_GAP: Final = 600.0
_A_STEP: Final = 1.0
"""Seconds up to which clocks are taken to agree."""
_LEARNED_FOR: Final = 600.0
"""Seconds for which look-ups that find something do not have page sizes learned anew once more."""
_REMEMBERED: Final = WIDEST + 86_400.0
_NEVER: Final = -1e18
_DISTRUSTED: Final = 3600.0
"""Seconds: a scan that looks back less proves nothing by lacking a request that a look-up has found unlisted."""


@attrs.define(eq=False)
class Look:
    """One scan under way, and what it has brought so far.

    Attributes:
        number: One more than the last one's.
        rung: How deep it looks.
        window: Seconds that it looks back.
        own: Seconds that it would look back if no scan before it had lacked anything.
        silent: Whether what it sees for the first time is no event.
        first: Whether it belongs to the first scan.
        before: The cover when it began.
        began: When its first page was sent.
        started: The same by the loop's clock, of its first try.
        scanner: Where in the listing it is.
        events: How many events it made.
        news: The requests that were new or changed.
        indexes: The requests that it saw.
        missing: What it should have seen and did not.
        doubt: Why its end proves nothing, if most is missing.
        unwritten: The last page, when it was sent and when it was there, until it is written down.
        spent: Seconds that were spent on it, as far as it has come.
        covered: Whether it covered all, once its last page is written down.
        lately: What a narrow look at the time of the last page listed, if one was made.
        due: When to go on, by the loop's clock, after a page that failed.
        left: How many readers in a row have left before a page of it came.
        recent: What was updated since it began, as far as that was read, and the number of the page to read next.
    """

    number: int
    rung: schedule.Tier
    window: int
    own: int
    silent: bool
    first: bool
    before: Watermark
    began: Reading
    started: float
    scanner: Scanner
    events: int = 0
    news: set[int] = attrs.field(factory=set)
    indexes: set[int] = attrs.field(factory=set)
    missing: Sequence[TrackedRequest] = ()
    doubt: FreightExchangeError | None = None
    unwritten: tuple[Rows[RateRequest] | None, Reading, Reading] | None = None
    spent: float = 0.0
    covered: bool = False
    lately: Lately | None = None
    due: float = -math.inf
    left: int = 0
    recent: tuple[frozenset[int], int] = (frozenset(), 0)


class UnclearError(Exception):
    """What a deep look brought may be updates or the service's own change of shape: a narrow one can tell."""


class Journal:
    """Writes down what scans bring.

    Args:
        store: Where.
        run: How its calls are run.
        start: What the first scan hands out.
        allowance: Seconds that the service may take to show an update, as the user knows it.
        now: What the clocks say.

    Attributes:
        state: What was last committed.
        sizes: What is known of the service's page sizes; scanners learn from it and add to it.
        suspects: What the last deep scan found, and the cover before it, until a narrow scan has judged it.
    """

    def __init__(self, store: FeedStore, run: Run, *, start: Start, allowance: float, now: Reading) -> None:
        self._store = store
        self._run = run
        self._start: Start = start
        self._allowance = allowance
        kept = State(cover=Watermark(0.0, now), allowance=allowance) if store.state is None else State.load(store.state)
        self.state = attrs.evolve(kept, allowance=max(kept.allowance, allowance))
        self.sizes = PageSizes()
        if kept.longest:
            self.sizes.saw(OPERATION, kept.longest)
        if kept.clamp is not None:
            self.sizes.clamped(OPERATION, kept.clamp)
        self.suspects: tuple[frozenset[int], Watermark] | None = None
        self._unsteady = UnsteadyFields()
        self._learn_again = -math.inf

    async def page(self, look: Look, page: Rows[RateRequest] | None, sent: Reading, received: Reading) -> None:
        """Write down what a page brought and, after the last one, what the scan proves.

        Args:
            look: The scan.
            page: The page, or `None` where an error ended the listing.
            sent, received: When it was asked for, and when it was there.

        Raises:
            UnclearError: `look.lately` is to be found out first. Nothing was written.
        """
        state, complete = self.state, look.scanner.ended
        came = state.cover.time_at(received)
        covered = complete and self._covers(look, received)
        lately = UNTOLD if look.rung is schedule.NARROW else look.lately
        sight = self._scan_sight(look, sent, received, lately)
        records = () if page is None else page.records
        broken = () if page is None else page.broken
        about = {record.index for record in records}
        about.update(index for error in broken if (index := wire.index_of_raw(error.raw)) is not None)
        sizes = look.scanner.sizes if complete else self.sizes
        scan = max(state.scan, look.number)
        after = attrs.evolve(state, scan=scan, longest=sizes.longest(OPERATION), clamp=sizes.clamp(OPERATION))
        gap, after = self._gap(after, received)
        look.indexes |= about
        turned = frozenset[tuple[int | None, str]]()

        def decide(found: ReadSet) -> Commit:
            nonlocal after, turned
            meaning = classify(records, broken, found.requests, sight)
            if sight.lately is None and (meaning.excused or meaning.schema.at != sight.schema.at):
                raise UnclearError
            look.news |= meaning.news
            turned = meaning.turned
            absent = [row for row in found.absent if row.index not in about]
            doubt = state.lacking
            if absence is not None:
                doubt = lacking.after(doubt, window=look.window, at=came, listed=len(look.indexes), absent=len(absent))
            look.doubt = None
            if complete and doubt is not None and lacking.stands(doubt, came):
                look.doubt = lacking.error(doubt, at=came, absent=len(absent))
            # A listing of nothing at all may be a failure: it proves nothing until one that looks further back does.
            most = 1 if look.window < WIDEST and not look.indexes else math.inf
            look.missing = [] if look.doubt else [lacking.missed(row, most) for row in absent]
            after = attrs.evolve(after, schema=meaning.schema, lacking=doubt)
            if covered and look.doubt is None:
                after = self._advanced(after, look) if state.primed else self._first_advanced(after, look, came)
            elif look.first and not look.silent and not state.entered:
                # All that is seen for the first time is handed out, by whichever scan sees it: nothing is undecided.
                after = self._covered_up_to(attrs.evolve(after, stage="listing"), look)
            return Commit(
                requests=(*meaning.seen, *look.missing),
                events=(*gap, *meaning.events),
                state=after.dump(),
                at=came,
            )

        absence = None
        if complete and state.primed and not look.scanner.offset_ignored:
            # A second more than the window: the service may count in whole ones.
            listed = came - look.window + 1.0
            behind = self._behind(state, received)
            absence = AbsenceQuery(scan=look.number, updated_after=max(listed, min(listed + behind.by, behind.until)))

        def write() -> None:
            if self.state is not state:
                # An earlier caller left in the middle of his, which went on without him: this one is out of date.
                return
            look.events += self._store.commit(decide, indexes=tuple(about), absence=absence)
            # In one breath with the commit: whoever is cancelled while he waits for it finds both done.
            self.state = after
            # What is lacking may be beyond a page that passed for the last one: the next scan makes sure.
            lacks_more = any(row.missed_scans == 1 for row in look.missing) or (look.doubt and state.lacking is None)
            self.sizes = sizes.afresh() if complete and lacks_more else sizes
            self._unsteady.saw(turned, came)
            look.unwritten, look.lately, look.covered = None, None, covered and look.doubt is None

        await self._run(write)

    async def withdrawn(self, row: TrackedRequest, received: Reading) -> None:
        """Write down that a request is gone."""
        time = self.state.cover.time_at(received)
        between = (self._at_the_earliest(row.last_seen, received), wall(received))

        def decide(found: ReadSet) -> Commit:
            after, event = gone(found.requests.get(row.index, row), between, time)
            return Commit(requests=(after,), events=() if event is None else (event,), at=time)

        await self._run(lambda: self._store.commit(decide, indexes=(row.index,)))

    async def found(self, record: RateRequest, received: Reading) -> None:
        """Write down a request that scans lack and a look-up has found."""
        sight = self._sight(self.state.scan, received, received, WIDEST)

        turned = frozenset[tuple[int | None, str]]()

        def decide(found: ReadSet) -> Commit:
            nonlocal turned
            meaning = classify((record,), (), found.requests, sight)
            turned = meaning.turned
            # It is there and yet not listed. Deeper scans may list it, and should they lack it as well, it is looked up
            # again: it may have been withdrawn before it is ever listed again.
            oldest = sight.sent - _DISTRUSTED
            seen = [attrs.evolve(seen, updated_after=min(seen.updated_after, oldest)) for seen in meaning.seen]
            return Commit(requests=seen, events=meaning.events, at=sight.sent)

        await self._run(lambda: self._store.commit(decide, indexes=(record.index,)))
        self._unsteady.saw(turned, sight.sent)
        # Perhaps its page was cut, by a server that gives less than it did: its page sizes are learned anew. Perhaps it
        # is one of many that are listed no longer, and learning has its price.
        if received.loop >= self._learn_again:
            self._learn_again = received.loop + _LEARNED_FOR
            self.sizes = self.sizes.afresh()

    async def untold(self, row: TrackedRequest) -> None:
        """Write down that the service does not say what became of a request: its absence proves nothing."""

        def decide(found: ReadSet) -> Commit:
            return Commit(
                requests=(attrs.evolve(found.requests.get(row.index, row), updated_after=_NEVER, missed_scans=0),)
            )

        await self._run(lambda: self._store.commit(decide, indexes=(row.index,)))

    async def prune(self, time: float) -> bool:
        """Let go of what the service lists no longer: a tombstone of it stays. Whether there is more of it."""
        return bool(await self._run(lambda: self._store.prune(before=time - _REMEMBERED)))

    def judged(self, look: Look, now: Reading) -> None:
        """Take note, after a complete scan, of what the next narrow one can tell of this one's finds."""
        tells = look.rung is not schedule.NARROW and bool(look.news) and is_young(look.before, now)
        self.suspects = (frozenset(look.news), look.before) if tells else None

    def _scan_sight(self, look: Look, sent: Reading, received: Reading, lately: Lately | None) -> Observation:
        sight = self._sight(look.number, sent, received, look.window)
        state, between = self.state, sight.between
        if state.primed:
            return attrs.evolve(sight, lately=lately)
        if not state.entered or (look.first and not look.silent):
            # What is seen for the first time may be older than the feed.
            between = (None, between[1])
        return attrs.evolve(
            sight,
            silent=look.silent,
            version=UNDECIDED if state.entered else BASELINE,
            baseline_is_new=not state.entered or (look.first and not look.silent),
            undecided_since=state.cover.time - state.allowance,
            covered=None,
            between=between,
            lately=lately,
        )

    def _sight(self, scan: int, sent: Reading, received: Reading, window: int) -> Observation:
        state = self.state
        covered = state.cover.time - state.allowance
        return Observation(
            scan=scan,
            sent=state.cover.time_at(sent),
            window=window,
            silent=False,
            covered=covered,
            between=(self._at_the_earliest(covered, received), wall(received)),
            schema=state.schema,
            unsteady=self._unsteady.of,
            unsteady_extras=self._unsteady.common,
        )

    def _at_the_earliest(self, time: float, received: Reading) -> datetime:
        """The time of day at an earlier time on the feed's clock, by the clock that went furthest since the cover."""
        cover = self.state.cover
        furthest = cover.most(received) - cover.least(received)
        return _at(time - (furthest if math.isfinite(furthest) else 0.0), cover.time_at(received), received)

    def _covers(self, look: Look, received: Reading) -> bool:
        state = self.state
        if look.window >= WIDEST:
            # There is no more to ask for: what lies before it is a gap, and is told.
            return True
        if look.first and not look.silent and isinstance(self._start, timedelta):
            return is_covered(look.window, state.since_entered(received) + self._start.total_seconds(), 0.0)
        return is_covered(look.window, state.cover.most(received), state.allowance)

    def _advanced(self, state: State, look: Look) -> State:
        """The state after a scan that leaves nothing open."""
        late, allowance = self._lateness(state, look)
        tiers = dict.fromkeys(schedule.reached(look.window), state.cover.time_at(look.began))
        return attrs.evolve(
            self._covered_up_to(state, look), rungs={**state.rungs, **tiers}, late=late, allowance=allowance
        )

    def _first_advanced(self, state: State, look: Look, came: float) -> State:
        """Return the state after a complete scan of a feed that is not primed."""
        if not look.first:
            began, listed = state.cover.time_at(look.began), state.rungs.get(schedule.DEEPEST.name, math.inf)
            settled = state.stage == "settling" and began - state.allowance >= listed
            return self._covered_up_to(attrs.evolve(state, stage="primed" if settled else state.stage), look)
        after = attrs.evolve(state, rungs={**state.rungs, **dict.fromkeys(schedule.reached(look.window), came)})
        listed = schedule.DEEPEST.name in after.rungs
        if not state.entered:
            after = self._covered_up_to(after, look)
        return attrs.evolve(after, stage=next_stage(state.stage, self._start, listed=listed))

    def _covered_up_to(self, state: State, look: Look) -> State:
        """Return the state with the cover at the beginning of a scan, unless another scan has overtaken it."""
        if look.began.run == state.cover.reading.run and look.began.loop < state.cover.reading.loop:
            return state
        return attrs.evolve(
            state,
            cover=Watermark(state.cover.time_at(look.began), look.began),
            behind=self._behind(state, look.began),
            gap_until=None,
        )

    def _behind(self, state: State, reading: Reading) -> Behind:
        """How far the feed's clock may be behind by then, which goes by the clocks that nobody can set: they stand
        still in a machine that is saved and brought back."""
        cover, behind = state.cover, state.behind
        step = cover.most(reading) - cover.least(reading)
        if not step <= _A_STEP:
            return Behind(by=behind.by + (step if math.isfinite(step) else WIDEST), until=cover.time_at(reading))
        return behind if behind.until > cover.time - WIDEST else Behind()

    def _lateness(self, state: State, look: Look) -> tuple[int, float]:
        """What deep scans found late in all, and how long the service is given from now on.

        What a deep scan found showed up later than allowed for, if the next narrow scan, in a window that reaches back
        to the cover before both, does not list it.
        """
        if look.rung is schedule.DEEPEST:
            return state.late, max(self._allowance, state.allowance / 2)
        if look.rung is not schedule.NARROW or self.suspects is None:
            return state.late, state.allowance
        late = len(self.suspects[0] - look.indexes)
        longer = max(state.allowance, min(LONGEST_ALLOWANCE, 2 * state.allowance))
        return state.late + late, longer if late else state.allowance

    def _gap(self, state: State, reading: Reading) -> tuple[tuple[NewEvent, ...], State]:
        """What nobody watched and the service lists no longer.

        By the clock that went furthest: the steady ones stand still in a machine that is saved and brought back. A gap
        that was none costs an acknowledgement, one that is not told costs what was in it.
        """
        since = state.cover.time - state.allowance if state.gap_until is None else state.gap_until
        now, furthest = state.cover.time_at(reading), state.cover.time + state.cover.most(reading)
        now = max(now, furthest) if math.isfinite(furthest) else now
        lost = now - WIDEST
        if not state.entered or lost <= since:
            return (), state
        # A little more than is lost now: the window slides on while the scan lasts.
        until = lost + _MARGIN_OF_A_GAP
        gap = Gap(since=_at(since, now, reading), until=_at(until, now, reading))
        event = NewEvent(key=f"gap:{since}", index=None, kind=gap.kind, payload=pack(gap))
        return (event,), attrs.evolve(state, gap_until=until)


def wall(reading: Reading) -> datetime:
    """The time of day at that reading, UTC."""
    return datetime.fromtimestamp(reading.wall, UTC)


def _at(time: float, now: float, reading: Reading) -> datetime:
    """The time of day at an earlier time on the feed's clock, which says `now` at the reading."""
    return datetime.fromtimestamp(reading.wall - (now - time), UTC)
