"""Journal of a feed: one transaction for each page, with its requests, its events and the watermark."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Final

import attrs

from freight_exchange import wire
from freight_exchange.feed.core.changes.classify import classify, withdrawal
from freight_exchange.feed.core.changes.unsteady_fields import UnsteadyFields
from freight_exchange.feed.core.missing_requests import MissingRequests
from freight_exchange.feed.core.observation_factory import observe_lookup, observe_recent, observe_scan
from freight_exchange.feed.core.planning import schedule
from freight_exchange.feed.core.planning.active_scan import ActiveScan
from freight_exchange.feed.core.planning.planner import is_recent
from freight_exchange.feed.core.planning.scanner import OPERATION
from freight_exchange.feed.core.state import State
from freight_exchange.feed.core.state_rules import (
    StateRules,
    absence_query,
    earliest_moment,
    find_gap,
    to_utc,
)
from freight_exchange.feed.core.watermark import MIN_RETENTION, WIDEST, Watermark
from freight_exchange.feed.paging_legacy.page_sizes import PageSizes
from freight_exchange.models import RateRequest
from freight_exchange.platform.clock import Reading
from freight_exchange.store.protocol import Commit, FeedStore, ReadSet, TrackedRequest

if TYPE_CHECKING:
    from freight_exchange.feed.core.changes.observation import Observation
    from freight_exchange.feed.lease import Run
    from freight_exchange.options import Start
    from freight_exchange.wire import Rows

__all__ = ["ScanJournal", "UnclearError"]

_RELEARN_AFTER: Final = 600.0
"""Seconds after a find in which further finds do not make the feed learn page sizes anew."""
_NEVER: Final = -1e18
_MIN_PROOF_WINDOW: Final = 3600.0
"""Narrowest window, in seconds, whose scan can prove that a request is gone after a look-up found it unlisted."""


class UnclearError(Exception):
    """A page of a deep scan has differences; only a narrow scan can tell updates from a change of the schema."""


@attrs.define
class _Decided:
    """Decision about a page, to apply once it is committed.

    Attributes:
        state: New state of the feed.
        tracked: New state of the requests on the page.
        known: Their earlier state, by index.
        flips: Fields that appeared or disappeared: `Classification.flips`.
    """

    state: State
    tracked: Sequence[TrackedRequest] = ()
    known: Mapping[int, TrackedRequest] = attrs.field(factory=dict)
    flips: AbstractSet[tuple[int | None, str]] = frozenset()


class ScanJournal:
    """Journal of the results of scans and look-ups.

    Args:
        store: The store.
        run: Runs the store's calls.
        start: Content of the first scan that is reported.
        allowance: Seconds that the service may take to show an update, as the user set it.
        now: Reading of the clocks.
        retention: Seconds for which unlisted requests and finished events are kept.

    Attributes:
        state: The last committed state.
        sizes: Known page sizes of the service; scanners read it and add to it.
    """

    def __init__(
        self, store: FeedStore, run: Run, *, start: Start, allowance: float, now: Reading, retention: float
    ) -> None:
        self._retention = retention
        self._store = store
        self._run = run
        self._rules = StateRules(start, allowance)
        fresh = State(watermark=Watermark(0.0, now), allowance=allowance)
        kept = fresh if store.state is None else State.load(store.state)
        self.state = kept.continued(now, allowance)
        self.sizes = PageSizes.restored(OPERATION, longest=kept.longest, clamp=kept.clamp)
        self._unsteady = UnsteadyFields()
        self._missing = MissingRequests(self.state.scan)
        self._relearn_at = -math.inf

    @property
    def unconfirmed_since(self) -> Watermark | None:
        """Watermark before the last deep scan, until a narrow scan has checked whether its finds were late."""
        return None if self._rules.unconfirmed_late is None else self._rules.unconfirmed_late[1]

    async def record_page(
        self, scan: ActiveScan, page: Rows[RateRequest] | None, sent: Reading, received: Reading
    ) -> None:
        """Commit the content of a page; with the last one, also the missing requests and the watermark.

        Args:
            scan: The scan.
            page: The page, or `None` if an error ended the listing.
            sent, received: Times of its request and its reply.

        Raises:
            UnclearError: `scan.recent_updates` is missing. Nothing was written.
        """
        state, is_complete = self.state, scan.scanner.ended
        ended = state.watermark.time_at(received)
        is_covering = is_complete and self._rules.is_covering(state, scan, received)
        observation = observe_scan(state, self._unsteady, scan, sent, received)
        records = () if page is None else page.records
        broken = () if page is None else page.broken
        about = {record.index for record in records}
        about.update(index for error in broken if (index := wire.index_of_raw(error.raw)) is not None)
        scan.indexes |= about
        # During the first scan, a narrow one starts without page sizes, and learns less about them than the first scan.
        learns_less = not state.is_primed and scan.tier is schedule.NARROW and self.sizes.longest(OPERATION)
        sizes = scan.scanner.sizes if is_complete and not learns_less else self.sizes
        gap, after = find_gap(scan.recorded_in(state, sizes), received)
        decided = _Decided(after)
        # Before everything is listed, only the complete first scan proves absences: other scans have listed requests
        # that it may lack.
        is_whole = is_complete and (state.is_listed or (scan.is_first and scan.window >= WIDEST))
        query = absence_query(state, scan, received) if is_whole and not scan.scanner.offset_ignored else None

        def decide(found: ReadSet) -> Commit:
            result = classify(records, broken, found.requests, observation)
            if observation.recent_updates is None and (result.excused or result.schema.at != observation.schema.at):
                raise UnclearError
            scan.changed |= result.changed
            tracked = self._missing.inferred.corrected(
                result.tracked, found.requests, max(observation.start, observation.updated_within(_MIN_PROOF_WINDOW))
            )
            began = state.watermark.time_at(scan.began)
            scan.known |= {index for index, before in found.requests.items() if before.first_seen < began}
            absent = [row for row in found.absent if row.index not in about] if query is not None else []
            doubt = self._missing.next_doubt(state, scan, absent, received, query)
            decided.state = self._rules.advance(
                attrs.evolve(after, schema=result.schema, absence_doubt=doubt),
                scan,
                ended,
                is_covering=is_covering and scan.doubt is None,
            )
            decided.tracked, decided.known, decided.flips = tracked, found.requests, result.flips
            return Commit(
                requests=(*tracked, *scan.missing),
                events=(*gap, *result.events),
                state=decided.state.dump(),
                at=ended,
            )

        def write() -> None:
            if self.state is not state:
                # The call of an earlier caller, who was cancelled, has gone on and committed the page.
                return
            scan.event_count += self._store.commit(decide, indexes=tuple(about), absence=query)
            # In the same thread as the commit: a caller cancelled during it finds both done, or neither.
            self._apply(decided, observation, ended)
            self.sizes = (
                sizes.without_learned_sizes() if is_complete and scan.lacks_more(state.absence_doubt) else sizes
            )
            scan.unwritten, scan.recent_updates = None, None
            scan.is_covering = is_covering and scan.doubt is None

        await self._run(write)

    async def record_sighting(self, scan: ActiveScan, page: Rows[RateRequest]) -> None:
        """Commit only that a page lists its requests, if it is unclear which of them were updated."""

        def decide(found: ReadSet) -> Commit:
            listed = (row for row in found.requests.values() if row.digest)
            return Commit(requests=[attrs.evolve(row, last_scan=scan.number, missed_scans=0) for row in listed])

        await self._run(lambda: self._store.commit(decide, indexes=tuple({record.index for record in page.records})))

    async def record_recent(
        self, scan: ActiveScan, page: Rows[RateRequest], window: int, sent: Reading, received: Reading
    ) -> None:
        """Commit the requests on a page of recent updates that was read during a scan.

        Requests on the scan's own last page are left out, as that page is older and not committed yet.
        """
        state = self.state
        if not state.is_entered:
            return
        observation = observe_recent(state, self._unsteady, scan, window, sent, received)
        own = None if scan.unwritten is None else scan.unwritten[0]
        older = set[int]() if own is None else {record.index for record in own.records}
        records = {record.index: record for record in page.records if record.index not in older}

        decided = _Decided(state)

        def decide(found: ReadSet) -> Commit:
            result = classify(tuple(records.values()), (), found.requests, observation)
            decided.state = attrs.evolve(state, schema=result.schema)
            decided.tracked = self._missing.inferred.corrected(result.tracked, found.requests, observation.start)
            decided.known, decided.flips = found.requests, result.flips
            return Commit(
                requests=decided.tracked, events=result.events, state=decided.state.dump(), at=observation.sent
            )

        def write() -> None:
            if self.state is state:
                scan.event_count += self._store.commit(decide, indexes=tuple(records))
                self._apply(decided, observation, observation.sent)

        if records:
            await self._run(write)

    async def record_withdrawal(self, row: TrackedRequest, received: Reading) -> None:
        """Commit the withdrawal of a request."""
        time = self.state.watermark.time_at(received)

        def decide(found: ReadSet) -> Commit:
            between = (earliest_moment(self.state, row.last_seen, received), to_utc(received))
            after, event = withdrawal(found.requests.get(row.index, row), between, time)
            return Commit(requests=(after,), events=() if event is None else (event,), at=time)

        await self._run(lambda: self._store.commit(decide, indexes=(row.index,)))
        self._missing.inferred.forget(row.index)

    async def record_find(self, record: RateRequest, received: Reading) -> None:
        """Commit a request that scans lack, and that a look-up has found."""
        observation = observe_lookup(self.state, self._unsteady, received)
        flips = set[tuple[int | None, str]]()

        def decide(found: ReadSet) -> Commit:
            result = classify((record,), (), found.requests, observation)
            flips.update(result.flips)
            # The request exists and is not listed. It may be withdrawn before it is listed again, so it is looked up
            # again if deeper scans lack it too.
            oldest = observation.updated_within(_MIN_PROOF_WINDOW)
            before = found.requests.get(record.index)
            rows = [
                attrs.evolve(
                    row,
                    updated_after=min(row.updated_after, oldest),
                    last_scan=row.last_scan if before is None else before.last_scan,
                )
                for row in result.tracked
            ]
            return Commit(requests=rows, events=result.events, at=observation.sent)

        await self._run(lambda: self._store.commit(decide, indexes=(record.index,)))
        self._unsteady.record(flips, observation.sent)
        # The server may have begun to return fewer rows in a page, so page sizes are learned anew. That costs requests,
        # and there may be many such finds.
        if received.loop >= self._relearn_at:
            self._relearn_at = received.loop + _RELEARN_AFTER
            self.sizes = self.sizes.without_learned_sizes()

    async def record_unprovable(self, row: TrackedRequest) -> None:
        """Commit that a request cannot be looked up, so that its absence proves nothing."""

        def decide(found: ReadSet) -> Commit:
            now = found.requests.get(row.index, row)
            return Commit(requests=(attrs.evolve(now, updated_after=_NEVER, missed_scans=0),))

        await self._run(lambda: self._store.commit(decide, indexes=(row.index,)))

    async def record_clock(self) -> None:
        """Commit the state of an idle feed, from which the next run continues its clock."""
        if self._store.state is None:
            await self._run(lambda: self._store.commit(lambda _: Commit(state=self.state.dump())))

    async def prune(self, time: float) -> bool:
        """Reduce requests that the service no longer lists to tombstones; return whether more are due."""
        self._missing.prune(time - MIN_RETENTION)
        return bool(await self._run(lambda: self._store.prune(before=time - self._retention)))

    def record_unconfirmed_late(self, scan: ActiveScan, now: Reading) -> None:
        """Record, after a complete scan, the finds that the next narrow scan checks for lateness."""
        is_deep = scan.tier is not schedule.NARROW and bool(scan.changed) and is_recent(scan.watermark, now)
        self._rules.unconfirmed_late = (frozenset(scan.changed), scan.watermark) if is_deep else None

    def _apply(self, decided: _Decided, observation: Observation, time: float) -> None:
        """Apply what was decided about a page, once it is committed."""
        self.state = decided.state
        self._unsteady.record(decided.flips, time)
        for row in decided.tracked:
            self._missing.inferred.record(row, decided.known.get(row.index), observation.proof_for(row.index))
