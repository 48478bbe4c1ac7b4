"""Poller of a feed: scans its source page by page, and commits each page with its events and the watermark.

1. `step` waits until a narrow scan, or a page of a deep one, is due. A narrow scan looks back to the watermark, and
   moves it. Deep scans look further back now and then, in one pass, and are overtaken by narrow ones.
2. Each page is one transaction: `decide` compares it with the known items, and makes events.
3. The end of a scan shows which items are missing. Those that a look-up denies are gone.
"""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from random import Random, getrandbits
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import anyio
import attrs

from freight_exchange import wire
from freight_exchange.errors import (
    READ_ERRORS,
    FeedProtocolError,
    FencedError,
    FreightExchangeError,
    LoginRejectedError,
    StoreError,
    is_from_login,
    is_transient,
    retry_delay,
)
from freight_exchange.feed.decide import View, decide, decide_gone, key_of_unreadable
from freight_exchange.feed.events import dump_event
from freight_exchange.feed.pace import Pace, Reports
from freight_exchange.feed.state import LARGEST, NARROW, SCAN_TIME, WIDEST, Passes, Snapshot, State, Tier, Walk
from freight_exchange.hooks import Scan as ScanRecord
from freight_exchange.hooks import ScanInfo, ScanProgress
from freight_exchange.instruments import NO_INSTRUMENTS, Instruments
from freight_exchange.paging import keys_of
from freight_exchange.store import feeds, fleet
from freight_exchange.store.feeds import Item, NewEvent

if TYPE_CHECKING:
    from freight_exchange.errors import DecodeError
    from freight_exchange.feed.options import PollOptions
    from freight_exchange.feed.sources import Sighting, Source
    from freight_exchange.feed.status import Phase
    from freight_exchange.instruments import Hooks
    from freight_exchange.platform.clock import Clock, Reading
    from freight_exchange.store import Store
    from freight_exchange.store.database import Database

__all__ = ["ClientParts", "Poller"]

_logger = logging.getLogger("freight_exchange.feed")

_HOUR: Final = 3600.0
_LONG_AGO: Final = -1e17
_RECENT: Final = 1800.0
"""Seconds up to which a narrow scan reaches back. After a longer silence, a single scan covers all of it."""
_LOOK_UPS: Final = 10
_DISTRUST: Final = 600.0
"""Seconds without look-ups after one that did not find what is listed."""
_FEW: Final = 2
_MOST_ATTEMPTS: Final = 12
_TAKE_OVER: Final = 1.0
_BETWEEN_LINES: Final = 15.0


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ClientParts:
    """Parts of a client that its feeds use.

    Attributes:
        base_url: Address of the service.
        account: Returns the account's email.
        account_timeout: Time limit of one call of `account`, in seconds.
        clock: Clock of the machine.
        hooks: Receive scans and failures.
        instruments: Run around each scan, and receive the numbers of delivered events.
    """

    base_url: str
    account: Callable[[], Awaitable[str]]
    account_timeout: float
    clock: Clock
    hooks: Hooks
    instruments: Instruments = NO_INSTRUMENTS


@attrs.define(eq=False)
class Scan:
    """Running scan.

    Attributes:
        covers: Whether its end may move the watermark.
        began: When it requested its first page; set with that page.
        seen: Keys of the items that it has listed.
        only: Keys of selected items by their request, which alone are listed from then on.
        uncertain: Requests with a part that cannot be read.
        subjects: Requests that it has listed.
        listed: One of them with an item, for a control.
        missing: Items that it should have listed, at its end.
    """

    tier: Tier
    window: int
    walk: Walk
    covers: bool
    started: float
    is_silent: bool = False
    tells_baseline: bool = False
    began: Reading | None = None
    seen: set[str] = attrs.field(factory=set)
    only: dict[int, str] = attrs.field(factory=dict)
    uncertain: set[int] = attrs.field(factory=set)
    subjects: set[int] = attrs.field(factory=set)
    listed: int | None = None
    missing: Sequence[Item] = ()
    refusal: FreightExchangeError | None = None
    seconds: float = 0.0
    pages: int = 0
    rows: int = 0
    events: int = 0
    attempts: int = 0

    @property
    def ended(self) -> bool:
        return self.walk.ended and not self.walk.is_cut


class _Written(NamedTuple):
    """Result of a commit."""

    state: State
    events: int
    missing: Sequence[Item]
    moved: bool


class Poller:
    """Poller of one feed, for the process that holds its lease.

    Args:
        source: The listing.
        store: The store, open and joined.
        feed: The feed's row.
        options: Options of the feed.
        client: Parts of the client.

    Attributes:
        state: The durable state, from `enter` on.
        phase: State of the feed, as in its status.
        window, pages: Window and pages of the running or last scan.
        last_success: When the last complete scan of this feed began.
        open_events: Number of unacknowledged events, as far as this process knows.
        subjects, items: Numbers of the requests and of the items that the last complete scan has listed.
    """

    def __init__(self, source: Source, store: Store, feed: int, options: PollOptions, client: ClientParts) -> None:
        self._source = source
        self._store = store
        self._feed = feed
        self._options = options
        self._client = client
        self._clock = client.clock
        self._allowance = options.allowance.total_seconds() if source.windowed else 0.0
        # `random.seed()` makes the pauses of a program repeatable.
        self.pace = Pace(options.interval.total_seconds(), Random(getrandbits(64)))
        self._reports = Reports(client.hooks, name=options.name, url=client.base_url)
        self.state: State
        self.phase: Phase = "priming"
        self.window = self.pages = self.open_events = self.subjects = self.items = 0
        self.last_success: datetime | None = None
        self._epoch = 0
        self._narrow: Scan | None = None
        self._deep: Scan | None = None
        self._duration = SCAN_TIME
        self._largest = LARGEST
        self._is_swept = self._is_long = self._is_cut = False
        self._missing_since: dict[str, float] = {}
        self._excused: dict[str, float] = {}
        self._look_ups_due = -math.inf
        self._look_up_failures = 0
        self._pruned = self._logged = -math.inf

    # Life

    async def run(self) -> None:
        """Scan while this replica holds the feed's lease; wait for the lease while another one does.

        Raises:
            LoginRejectedError: The service rejected the email or password.
            FreightExchangeError: The first scan met an error that waiting does not mend, such as a wrong URL.
            StoreError: A page cannot be committed. A new call reads it again.
        """
        while True:
            epoch = await self._store.run(fleet.take_feed, self._store.me, self._feed, lease=self._options.lease)
            if epoch is None:
                await anyio.sleep(_TAKE_OVER)
                continue
            try:
                await self.enter(epoch)
                await self.prime()
                while True:
                    await self.step()
            except FencedError:
                _logger.info("the feed %r is read by another process from now on", self._options.name)
            finally:
                with anyio.CancelScope(shield=True):
                    await self.leave()

    async def enter(self, epoch: int) -> None:
        """Load the state, under the lease with this epoch."""
        self._narrow = self._deep = None
        text, self.open_events = await self._store.run(
            lambda db: (feeds.load_state(db, self._feed), feeds.count_open(db, self._feed))
        )
        self.state = State.load(text, self._clock.read())
        self._epoch = epoch
        if self.state.is_primed:
            self.phase = "catching-up"
            self.last_success = datetime.fromtimestamp(self.state.reading.wall, UTC)

    async def leave(self) -> None:
        """Give the lease back. If the store fails, it ends by itself."""
        if self._epoch:
            epoch, self._epoch = self._epoch, 0
            self.phase = "stopped"
            with contextlib.suppress(StoreError):
                await self._store.run(fleet.drop_feed, self._store.me, self._feed, epoch)

    async def prime(self) -> None:
        """Read all that is listed, and tell what `start` asks for, unless an earlier run has.

        Raises:
            FreightExchangeError: The service does not exist or refuses, so waiting does not help.
        """
        while not self.state.is_primed:
            await self.step()
        self.pace.begin(anyio.current_time())

    async def hold(self, function: Callable[[Database], Any]) -> Any:
        """Run a statement function under the lease.

        Raises:
            FencedError: Another process has taken the feed over.
        """

        def held(db: Database) -> Any:
            feeds.hold(db, self._store.me, self._feed, self._epoch, self._options.lease)
            return function(db)

        return await self._store.run(held)

    def time(self) -> float:
        """Return the time on the feed's own clock, in seconds since the epoch."""
        return self.state.at(self._clock.read())

    def to_utc(self, time: float) -> datetime:
        """Convert a time on the feed's own clock to UTC, by this machine's clock."""
        now = self._clock.read()
        return datetime.fromtimestamp(now.wall - (self.state.at(now) - time), UTC)

    @property
    def cover_age(self) -> timedelta | None:
        """Age of the watermark; `None` before the first complete scan."""
        if self.state.stage == "new":
            return None
        return timedelta(seconds=min(self.state.age(self._clock.read()), 1e9))

    @property
    def is_scanning(self) -> bool:
        """`True` while this replica has the feed's lease."""
        return self._epoch != 0

    # Scans

    async def step(self) -> None:
        """Wait until a scan, or a page of a deep scan, is due, and run it.

        Raises:
            LoginRejectedError: The service rejected the email or password. Other errors are retried.
            StoreError: A page cannot be committed. The next scan finds it again.
        """
        await self._reports.send()
        scan = await self._next()
        with self._client.instruments.span(ScanInfo(**self._facts(scan))):
            await self._run(scan)

    async def _next(self) -> Scan:
        while True:
            now = anyio.current_time()
            is_open = self._narrow is not None and self._narrow.pages > 0
            # What `start` asks for is read at once after the first scan.
            is_urgent = is_open or self.state.stage == "listed"
            narrow_due = max(now if is_urgent else self.pace.due, self.pace.quiet_until)
            if self._deep is None:
                self._deep = self._plan_deep(now)
            deep_due = math.inf if self._deep is None else max(self.pace.deep_due, self.pace.quiet_until)
            if narrow_due <= now:
                open_scan = self._narrow if is_open else None
                if open_scan is None or not self._reaches(open_scan, self._clock.read()):
                    self.pace.take_turn(now)
                    open_scan = self._narrow = self._plan(now)
                return open_scan
            if self._deep is not None and deep_due <= now:
                return self._deep
            # Some timers fire a little early.
            await anyio.sleep(max(min(narrow_due, deep_due) - now, 0.001))

    def _reaches(self, scan: Scan, now: Reading) -> bool:
        """Return whether a scan that ends now covers the watermark."""
        return not self._source.windowed or self.state.reaches(scan.window, now, self._allowance)

    def _plan(self, now: float) -> Scan:
        """Plan the scan that covers all updates since the watermark."""
        state, read, start = self.state, self._clock.read(), self._options.start
        is_silent = tells_baseline = False
        tier, window = NARROW, state.window(read, self._allowance, self._duration)
        if state.stage == "new":
            tier, window, is_silent = self._source.ladder[0], WIDEST, start != "backfill"
        elif state.stage == "listed" and isinstance(start, timedelta):
            since = start.total_seconds() + state.age(read) + self._duration
            window, tells_baseline = math.ceil(min(WIDEST, max(1.0, since))), True
        if self._source.windowed and window > _RECENT and tier is NARROW and not tells_baseline:
            tier = next((one for one in reversed(self._source.ladder) if one.window >= window), self._source.ladder[0])
            window = max(window, tier.window)
        if tier is NARROW and not self._is_cut:
            walk: Walk = Snapshot(self._source.safe, self._largest, is_long=self._is_long)
        else:
            walk = self._passes(tier, covers=True)
        return Scan(
            tier, window, walk, covers=True, started=now,
            is_silent=is_silent, tells_baseline=tells_baseline,
        )  # fmt: skip

    def _plan_deep(self, now: float) -> Scan | None:
        """Plan a deep scan if one is due: one pass, since what it skips the next one finds."""
        read = self._clock.read()
        if not self.state.is_primed or self.state.window(read, self._allowance, self._duration) > _RECENT:
            return None
        tier = self.state.due(self._source.ladder, read, is_swept=self._is_swept)
        if tier is None:
            return None
        if tier is not self._source.ladder[-1]:
            self._largest = LARGEST
        window = max(tier.window, 1)
        walk = self._passes(tier, covers=False)
        return Scan(tier, window, walk, covers=False, started=now)

    def _passes(self, tier: Tier, *, covers: bool) -> Passes:
        is_single = not covers or not self._source.windowed
        return Passes(self._source.safe, self._largest, past_end=tier.past_end, **({"most": 1} if is_single else {}))

    async def _run(self, scan: Scan) -> None:
        """Read pages until the scan ends; a deep one pauses for events, and for narrow scans."""
        before, pages, began = scan.events, scan.pages, anyio.current_time()
        try:
            while not scan.ended:
                await self._read_page(scan)
                if scan.tier is not NARROW and not scan.ended:
                    await self._report_progress(scan)
                    is_overtaken = scan is self._deep and anyio.current_time() >= self.pace.due
                    if scan.events > before or is_overtaken:
                        return
            if scan.walk.ignores_offset:
                raise FeedProtocolError(
                    "every page of the listing is its first one: the service ignores `offset`, or a proxy drops the"
                    ' bodies of GETs, which get_parameters="query" avoids'
                )
        except LoginRejectedError:
            self.phase = "stopped"
            raise
        except READ_ERRORS as error:
            await self._fail(scan, error)
            return
        except anyio.get_cancelled_exc_class():
            if scan.pages == pages:
                # Readers who leave before a page comes would cost a request each.
                self.pace.quiet_until = max(self.pace.quiet_until, self.pace.due)
            raise
        finally:
            scan.seconds += anyio.current_time() - began
        await self._end(scan)

    async def _read_page(self, scan: Scan) -> None:
        walk, sent = scan.walk, self._clock.read()
        if not scan.pages:
            scan.began = sent
        try:
            page = await self._source.page(walk.number, walk.size, scan.window)
        except READ_ERRORS as error:
            # The page may have needed a login, whose error is not about the listing.
            if is_from_login(error) or not walk.refuse(error.status):
                raise
            scan.refusal, page = error, wire.Rows[Any](())
        else:
            walk.take(keys_of(page, self._source.row_key))
        if walk.broken and scan.refusal is not None:
            raise scan.refusal
        received = self._clock.read()
        records = self._source.merged(page.records)
        unreadable = self._source.unreadable(page)
        sightings = {one.key: one for record in records for one in self._source.sightings(record)}
        self._note(scan, records, sightings, unreadable)
        scan.pages += 1
        scan.rows += len(page.records) + len(page.broken)
        scan.attempts = 0
        self.pace.record_reply(is_deep=scan is self._deep)
        if scan.covers:
            self.window, self.pages = scan.window, scan.pages
        is_end = scan.ended and not walk.ignores_offset
        found = [*sightings.values()]
        with anyio.CancelScope(shield=True):
            try:
                written: _Written = await self.hold(
                    lambda db: self._commit(db, scan, found, unreadable, sent, received, is_end=is_end)
                )
            except BaseException:
                # It may be committed or not. The next scan reads it again.
                self._narrow = self._deep = None
                raise
            self.state, scan.missing = written.state, written.missing
            scan.events += written.events
            self.open_events += written.events
            scan.covers = written.moved if is_end else scan.covers
        if walk.is_cut:
            self._is_cut = True
            scan.walk = self._passes(scan.tier, covers=scan.covers)

    def _note(
        self, scan: Scan, records: Sequence[Any], sightings: dict[str, Sighting], unreadable: Sequence[DecodeError]
    ) -> None:
        scan.seen.update(sightings)
        for record in records:
            scan.subjects.add(record.index)
            if (selected := self._source.selected(record)) is not None:
                scan.only[record.index] = selected
        for error in unreadable:
            index = wire.index_of_raw(error.raw)
            if index is not None:
                scan.uncertain.add(index)
        subjects = [one.subject for one in sightings.values()]
        scan.listed = max([*subjects, *(() if scan.listed is None else (scan.listed,))], default=None)
        for key in sightings:
            self._missing_since.pop(key, None)
            self._excused.pop(key, None)

    def _commit(
        self,
        db: Database,
        scan: Scan,
        sightings: Sequence[Sighting],
        unreadable: Sequence[DecodeError],
        sent: Reading,
        received: Reading,
        *,
        is_end: bool,
    ) -> _Written:
        """Write a page: its items, its events and, with the last page, the watermark. It may run twice."""
        state, allowance = self.state, self._allowance
        assert scan.began is not None
        at, ended = state.at(sent), state.at(received)
        view = View(
            at=at,
            since=at - scan.window if self._source.windowed else at,
            recent=state.time - allowance,
            between=state.between(received, allowance),
            is_primed=state.is_primed,
            is_silent=scan.is_silent,
            tells_baseline=scan.tells_baseline,
        )
        keys = [one.key for one in sightings] + [key_of_unreadable(error) for error in unreadable]
        known = feeds.items(db, self._feed, keys) if keys else {}
        decision = decide(db, self._source, sightings, unreadable, known, view)
        feeds.put_items(db, self._feed, decision.changed)
        stale = [one for one in decision.seen if self._source.windowed or known[one.key].last_seen < at - _HOUR]
        feeds.touch_items(db, self._feed, stale)
        events = [*decision.events]
        missing: Sequence[Item] = ()
        moved = False
        if is_end:
            if state.is_primed and self._source.tells_absence:
                since = ended - scan.window + 1 if self._source.windowed else _LONG_AGO
                missing = self._missing(db, scan, since, ended)
            moved = scan.covers and (not state.is_primed or self._reaches(scan, received))
            gap = state.gap(received, allowance) if moved and self._source.windowed else None
            if gap is not None:
                events.append(NewEvent(f"gap:{state.time}", None, gap.kind, dump_event(gap)))
            state = self._after(scan, moved=moved)
            feeds.put_state(db, self._feed, state.dump())
        return _Written(state, feeds.add_events(db, self._feed, events), missing, moved)

    def _after(self, scan: Scan, *, moved: bool) -> State:
        state, began = self.state, scan.began
        assert began is not None
        time = state.at(began)
        done = {
            one.name: time
            for one in self._source.ladder
            if one.name == scan.tier.name
            or (self._source.windowed and one.window <= scan.window and scan.tier is not NARROW)
        }
        state = attrs.evolve(state, done={**state.done, **done})
        if not moved:
            return state
        stage = state.stage
        if stage == "new":
            stage = "listed" if isinstance(self._options.start, timedelta) else "primed"
        elif stage == "listed":
            stage = "primed"
        return attrs.evolve(state, time=time, reading=began, stage=stage)

    # Outcomes

    async def _end(self, scan: Scan) -> None:
        is_deep = scan is self._deep
        self._is_swept = self._is_swept or scan.tier is self._source.ladder[0]
        if is_deep:
            self._deep = None
        else:
            self._narrow = None
            self._is_long = scan.walk.is_long
            self._is_cut = self._is_cut and scan.walk.is_long
            self._duration = max(SCAN_TIME, scan.seconds)
            phase: Phase = "live" if scan.covers else "catching-up"
            self.phase = phase if self.state.is_primed else "priming"
            if scan.covers and scan.began is not None:
                self.last_success = datetime.fromtimestamp(scan.began.wall, UTC)
                self.subjects, self.items = len(scan.subjects), len(scan.seen)
            else:
                # The window slid past the watermark during the scan: repeat it with a wider window.
                self.pace.repeat_soon(anyio.current_time())
        self._reports.record_recovery()
        await self._report_end(scan, is_complete=is_deep or scan.covers)
        if scan.missing:
            await self._look_up(scan)
        await self._prune()

    async def _fail(self, scan: Scan, error: FreightExchangeError) -> None:
        now = anyio.current_time()
        if not self.state.is_primed and not is_transient(error):
            # A wrong address is raised, so that it does not look like an outage.
            self.phase = "stopped"
            raise error
        scan.attempts += 1
        is_deep = scan is self._deep
        pause = self.pace.record_failure(now, error, is_deep=is_deep)
        if scan.walk.size > self._source.safe and scan.walk.number == 0:
            # Large pages may be too slow for the service or the network, until the next hourly scan.
            self._largest = max(self._source.safe, self._largest // 10)
            scan.walk = self._passes(scan.tier, covers=scan.covers)
        is_over = not scan.pages or scan.attempts >= _MOST_ATTEMPTS or scan.walk.broken or not is_transient(error)
        if is_over or isinstance(error, FeedProtocolError):
            self._narrow = None if scan is self._narrow else self._narrow
            self._deep = None if scan is self._deep else self._deep
            await self._report_end(scan, is_complete=False, error=error)
        if self.state.stage != "new":
            self.phase = self.phase if is_deep else "backing-off"
        self._reports.record_error(error, pause)
        await self._reports.send()

    def _facts(self, scan: Scan) -> dict[str, Any]:
        """Return what all reports of a scan have. A listing without a window is always read completely."""
        tier, window = (scan.tier.name, scan.window) if self._source.windowed else ("complete", 0)
        return {"feed": self._options.name, "tier": tier, "window": window}

    async def _report_end(self, scan: Scan, *, is_complete: bool, error: FreightExchangeError | None = None) -> None:
        elapsed = anyio.current_time() - scan.started
        ends: dict[str, Any] = {
            "pages": scan.pages,
            "rows": scan.rows,
            "events": scan.events,
            "elapsed": elapsed,
            "error": error,
        }
        self._reports.add(ScanRecord(**self._facts(scan), **ends, complete=is_complete))
        await self._reports.send()

    async def _report_progress(self, scan: Scan) -> None:
        now, facts = anyio.current_time(), self._facts(scan)
        elapsed, count = now - scan.started, len(scan.seen)
        if now - max(self._logged, scan.started) >= _BETWEEN_LINES:
            self._logged = now
            _logger.info(
                "the feed %r is reading what was updated in the last %d s: %d pages, %d records so far",
                self._options.name,
                scan.window,
                scan.pages,
                count,
            )
        is_first = not self.state.is_primed
        self._reports.add(ScanProgress(**facts, first=is_first, pages=scan.pages, requests=count, elapsed=elapsed))
        await self._reports.send()

    async def _prune(self) -> None:
        now, retention = self.time(), self._options.retention.total_seconds()
        if now - self._pruned < _HOUR:
            return
        is_more_due = await self.hold(
            lambda db: feeds.prune(
                db, self._feed, items_before=now - retention, retention=retention, acked_only=self._options.acked_only
            )
        )
        # Pruning runs in parts, one after each scan, so that no reader waits long.
        self._pruned = -math.inf if is_more_due else now

    # Absence

    def _missing(self, db: Database, scan: Scan, since: float, now: float) -> list[Item]:
        """Return the items updated after a time that a scan should have listed.

        A listing that lacks much proves nothing for an hour: it may be a failed query, a cache or a stale replica. So
        does an empty narrow scan.
        """
        rows = [
            row
            for row in feeds.live_items(db, self._feed, since)
            if row.key not in scan.seen
            and row.subject not in scan.uncertain
            and (row.subject is None or scan.only.get(row.subject, row.key) == row.key)
        ]
        is_much = len(rows) > _FEW and 2 * len(rows) > len(scan.seen)
        if is_much or (not scan.seen and scan.tier is NARROW):
            return [row for row in rows if now - self._missing_since.setdefault(row.key, now) >= _HOUR]
        return rows

    async def _look_up(self, scan: Scan) -> None:
        """Look up the requests of missing items. A denial counts after a look-up has found something just listed."""
        now, time = anyio.current_time(), self.time()
        suspects: dict[int, list[Item]] = {}
        for row in scan.missing:
            if row.last_seen <= time - self._allowance and self._excused.get(row.key, 0.0) <= time:
                suspects.setdefault(row.subject or 0, []).append(row)
        if not suspects or now < max(self._look_ups_due, self.pace.quiet_until):
            return
        try:
            if scan.listed is not None and not await self._is_trusted(scan):
                return
            for subject, rows in [*suspects.items()][:_LOOK_UPS]:
                found = await self._source.find(subject)
                present = None if found is None else {
                    one.key for record in found for one in self._source.sightings(record)
                }  # fmt: skip
                await self._confirm(subject, rows, present, is_listed=subject in scan.subjects)
                self._look_up_failures = 0
        except LoginRejectedError:
            self.phase = "stopped"
            raise
        except READ_ERRORS as error:
            # A failed look-up is no failure of the scan.
            self._look_up_failures += 1
            pause = min(_HOUR, self.pace.interval * 2.0 ** min(self._look_up_failures, _MOST_ATTEMPTS))
            self._look_ups_due = anyio.current_time() + pause
            if retry_delay(error) is not None:
                self.pace.record_failure(anyio.current_time(), error)
            _logger.debug(
                "a look-up of the feed %r failed: %s; the next one in %.0f s", self._options.name, error, pause
            )

    async def _is_trusted(self, scan: Scan) -> bool:
        assert scan.listed is not None
        found = await self._source.find(scan.listed)
        if found and any(one.key in scan.seen for record in found for one in self._source.sightings(record)):
            return True
        self._look_ups_due = anyio.current_time() + _DISTRUST
        _logger.warning(
            "the look-up of request %d found nothing although it is listed; nothing counts as gone until one works",
            scan.listed,
        )
        return False

    async def _confirm(self, subject: int, rows: Sequence[Item], present: set[str] | None, *, is_listed: bool) -> None:
        """Write the result of a look-up: what it denies is gone, and what it shows is not looked up for an hour."""
        excused = [row for row in rows if present is None or row.key in present]
        self._excused |= {row.key: self.time() + _HOUR for row in excused}
        denied = {row.key: row for row in rows if present is not None and row.key not in present}
        if not denied:
            return
        read = self._clock.read()
        at = self.state.at(read)
        latest = datetime.fromtimestamp(read.wall, UTC)

        def write(db: Database) -> int:
            items = [
                item
                for item in feeds.items(db, self._feed, [*denied]).values()
                if item.digest and item.last_seen == denied[item.key].last_seen
            ]
            expected = {item.key for item in items} if is_listed else self._source.leaves_only(items)
            last = max((item.last_seen for item in items), default=at)
            between = latest - timedelta(seconds=at - last + self._allowance), latest
            decision = decide_gone(db, self._source, items, expected, at, between)
            feeds.put_items(db, self._feed, decision.changed)
            return feeds.add_events(db, self._feed, decision.events)

        with anyio.CancelScope(shield=True):
            self.open_events += await self.hold(write)
