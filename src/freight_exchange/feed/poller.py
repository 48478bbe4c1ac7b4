"""Poller of a feed: scans its source page by page, and commits each page with its events and the watermark.

1. `step` waits until a narrow scan, or a page of a deep one, is due. A narrow scan looks back to the watermark, and
   moves it. Deep scans look further back now and then, in one pass, and are overtaken by narrow ones.
2. Each page is one transaction. An item is compared with its last state only: a change that is undone later makes two
   events.
3. The end of a scan shows which items are missing. Those that a look-up denies are gone.
"""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from random import Random, getrandbits
from typing import TYPE_CHECKING, Any, Final

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
from freight_exchange.feed.events import StoredEvent, Unreadable, dump_event
from freight_exchange.feed.pace import Pace, Reports
from freight_exchange.feed.sources import hash_of
from freight_exchange.feed.state import (
    LARGEST,
    MOST_PASSES,
    NARROW,
    SCAN_TIME,
    WIDEST,
    Passes,
    Snapshot,
    State,
    Tier,
    Walk,
)
from freight_exchange.hooks import Scan as ScanRecord
from freight_exchange.hooks import ScanInfo, ScanProgress
from freight_exchange.paging import keys_of
from freight_exchange.store import feeds, fleet
from freight_exchange.store.feeds import Item, NewEvent

if TYPE_CHECKING:
    from freight_exchange.errors import DecodeError
    from freight_exchange.feed.feed import Phase, WatchOptions
    from freight_exchange.feed.sources import Between, Kind, Sighting, Source
    from freight_exchange.instruments import Hooks
    from freight_exchange.platform.clock import Clock, Reading
    from freight_exchange.store import Store
    from freight_exchange.store.database import Database

_logger = logging.getLogger("freight_exchange.feed")

_HOUR: Final = 3600.0
_RECENT: Final = 1800.0
"""Seconds up to which a narrow scan reaches back. After a longer silence, a single scan covers all of it."""
_LOOK_UPS: Final = 10
_DISTRUST: Final = 600.0
"""Seconds without a look-up that failed; without any, after one that does not find what is listed."""
_FEW: Final = 2
_MOST_ATTEMPTS: Final = 12
_TAKE_OVER: Final = 1.0
_BETWEEN_LINES: Final = 15.0
_NEVER: Final = -1e18
"""`updated_after` of an item whose absence proves nothing until it is listed again."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ClientParts:
    """Parts of a client that its feeds use. `account` returns the account's email, within `account_timeout` seconds."""

    base_url: str
    account: Callable[[], Awaitable[str]]
    account_timeout: float
    clock: Clock
    hooks: Hooks


@attrs.define(kw_only=True, eq=False)
class Scan:
    """Running scan.

    Attributes:
        is_deep: Whether it looks further back than to the watermark, and does not move it.
        began: When it requested its first page.
        seen: The items that it has listed, each with its request.
        uncertain: Requests with a part that cannot be read.
        missing: Items that it should have listed, at its end.
        moved: Whether it has moved the watermark, at its end.
        attempts: Failures since its last page.
    """

    tier: Tier
    window: int
    walk: Walk
    is_deep: bool
    started: float
    began: Reading
    seen: dict[str, int] = attrs.field(factory=dict)
    uncertain: set[int | None] = attrs.field(factory=set)
    missing: Sequence[Item] = ()
    moved: bool = False
    pages: int = 0
    rows: int = 0
    events: int = 0
    attempts: int = 0

    @property
    def is_complete(self) -> bool:
        return self.walk.ended and not self.walk.up.ignores_offset


class Poller:
    """Poller of one feed, for the process that holds its lease. The store is open and joined.

    Attributes:
        state: The durable state, loaded by `enter`.
        window, pages: Window and pages of the running or last scan.
        open_events: Number of unacknowledged events, as far as this process knows.
        subjects, items: Numbers of the requests and of the items that the last complete scan has listed.
    """

    def __init__(self, source: Source, store: Store, feed: int, options: WatchOptions, client: ClientParts) -> None:
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
        self.state = State.load(None, self._clock.read())
        self._phase: Phase = "priming"
        self.window = self.pages = self.open_events = self.subjects = self.items = 0
        self._last_success: datetime | None = None
        self._epoch, self._stored = 0, ""
        self._running: dict[bool, Scan] = {}
        self._duration = SCAN_TIME
        self._largest = LARGEST
        self._is_long = self._is_cut = False
        self._done: dict[str, float] = {}
        self._missing_since: dict[str, float] = {}
        self._look_up_after: dict[int | None, float] = {}
        self._logged = self._prune_at = -math.inf

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
                while True:
                    await self.step()
            except FencedError:
                _logger.info("the feed %r is read by another process from now on", self._options.name)
            finally:
                with anyio.CancelScope(shield=True):
                    await self.leave()

    async def enter(self, epoch: int) -> None:
        """Load the state, under the lease with this epoch. Unless an earlier run has, read and tell what is listed."""
        self._epoch = epoch
        self._running.clear()
        text, self.open_events = await self._store.run(
            lambda db: (feeds.load_state(db, self._feed), feeds.count_open(db, self._feed))
        )
        self.state, self._stored = State.load(text, self._clock.read()), text or ""
        if self.state.is_primed:
            self._phase = "catching-up"
            self._last_success = datetime.fromtimestamp(self.state.reading.wall, UTC)
        while not self.state.is_primed:
            await self.step()
        self.pace.begin(anyio.current_time())

    async def leave(self) -> None:
        """Give the lease back. If the store fails, it ends by itself."""
        if self._epoch:
            epoch, self._epoch = self._epoch, 0
            self._phase = "stopped"
            with contextlib.suppress(StoreError):
                await self._store.run(fleet.drop_feed, self._store.me, self._feed, epoch)

    async def hold(self, function: Callable[[Database], Any]) -> Any:
        """Run a statement function under the lease; raise `FencedError` if another process has taken the feed over."""

        def held(db: Database) -> Any:
            feeds.hold(db, self._store.me, self._feed, self._epoch, self._options.lease, self._stored)
            return function(db)

        return await self._store.run(held)

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

    def status(self, unacknowledged: int) -> dict[str, Any]:
        """Return what the statuses of all feeds have."""
        return {
            "state": self._phase,
            "cover_age": self.cover_age,
            "last_success": self._last_success,
            "pages": self.pages,
            "unacknowledged": unacknowledged,
            "retry_in": timedelta(seconds=self.pace.quiet_for),
        }

    # Scans

    async def step(self) -> None:
        """Wait until a scan, or a page of a deep scan, is due, and run it."""
        scan = await self._next()
        try:
            with self._client.hooks.span(ScanInfo(**self._facts(scan))):
                await self._run(scan)
        except READ_ERRORS:
            self._phase = "stopped"
            raise

    async def _next(self) -> Scan:
        while True:
            now = anyio.current_time()
            scan, deep = self._running.get(False), self._running.get(True)
            if deep is None or not deep.pages:
                deep = self._plan_deep(now)
            if scan is not None and not scan.pages:
                scan = None
            # What `start` asks for is read at once after the first scan.
            is_urgent = scan is not None or self.state.stage == "listed"
            narrow_due = max(now if is_urgent else self.pace.due, self.pace.quiet_until)
            deep_due = math.inf if deep is None else max(self.pace.deep_due, self.pace.quiet_until)
            if narrow_due <= now:
                if scan is None or not self._reaches(scan, self._clock.read()):
                    self.pace.take_turn(now)
                    scan = self._running[False] = self._plan(now)
                return scan
            if deep is not None and deep_due <= now:
                self._running[True] = deep
                return deep
            # Some timers fire a little early.
            wait = max(min(narrow_due, deep_due) - now, 0.001)
            if self._store.is_shared:
                # A process that waits for the feed takes it once its lease ends.
                await self.hold(lambda db: None)
                wait = min(wait, self._options.lease / 3)
            await anyio.sleep(wait)

    def _reaches(self, scan: Scan, now: Reading) -> bool:
        """Return whether a scan that ends now covers the watermark."""
        return not self._source.windowed or self.state.reaches(scan.window, now, self._allowance)

    def _plan(self, now: float) -> Scan:
        """Plan the scan that covers all updates since the watermark."""
        state, read, start = self.state, self._clock.read(), self._options.start
        tier, window = NARROW, state.window(read, self._allowance, self._duration)
        if state.stage == "new":
            tier, window = self._source.ladder[0], WIDEST
        elif state.stage == "listed" and isinstance(start, timedelta):
            window = math.ceil(min(WIDEST, max(1.0, start.total_seconds() + state.age(read) + self._duration)))
        elif self._source.windowed and window > _RECENT:
            tier = next((one for one in reversed(self._source.ladder) if one.window >= window), self._source.ladder[0])
            window = max(window, tier.window)
        if tier is NARROW and not self._is_cut:
            walk: Walk = Snapshot(self._source.safe, self._largest, is_long=self._is_long)
        else:
            walk = self._passes(tier, is_deep=False)
        return Scan(tier=tier, window=window, walk=walk, is_deep=False, started=now, began=read)

    def _plan_deep(self, now: float) -> Scan | None:
        """Plan the deepest scan that is due, if any: one pass, since what it skips the next one finds."""
        read = self._clock.read()
        if not self.state.is_primed or self.state.window(read, self._allowance, self._duration) > _RECENT:
            return None
        time = self.state.at(read)
        due = (one for one in self._source.ladder if time - self._done.get(one.name, -math.inf) >= one.every)
        if (tier := next(due, None)) is None:
            return None
        if tier is not self._source.ladder[-1]:
            self._largest = LARGEST
        walk = self._passes(tier, is_deep=True)
        # A scan that was held up, by a slow reader or an outage, looks back as much further.
        overdue = time - self._done.get(tier.name, time) - tier.every
        window = math.ceil(min(WIDEST, max(1.0, tier.window, tier.window + overdue)))
        return Scan(tier=tier, window=window, walk=walk, is_deep=True, started=now, began=read)

    def _passes(self, tier: Tier, *, is_deep: bool) -> Passes:
        past_end = max(tier.past_end, self._source.safe + 1)
        most = 1 if is_deep or not self._source.windowed else MOST_PASSES
        return Passes(self._source.safe, self._largest, past_end=past_end, most=most)

    async def _run(self, scan: Scan) -> None:
        """Read pages until the scan ends; a deep one pauses for events, and for narrow scans."""
        events, pages = scan.events, scan.pages
        try:
            while not scan.walk.ended:
                await self._read_page(scan)
                if scan.tier is not NARROW and not scan.walk.ended:
                    await self._report_progress(scan)
                    is_overtaken = scan.is_deep and anyio.current_time() >= self.pace.due
                    if scan.events > events or is_overtaken:
                        return
            if scan.walk.up.ignores_offset:
                raise FeedProtocolError(
                    "every page of the listing is its first one: the service ignores `offset`, or a proxy drops the"
                    ' bodies of GETs, which get_parameters="query" avoids'
                )
        except READ_ERRORS as error:
            await self._fail(scan, error)
            return
        except anyio.get_cancelled_exc_class():
            if scan.pages == pages:
                # Readers who leave before a page comes would cost a request each.
                self.pace.quiet_until = max(self.pace.quiet_until, self.pace.due)
            raise
        await self._end(scan)

    async def _fetch(self, scan: Scan) -> wire.Rows[Any]:
        """Fetch the next page, and let the walk process it, or the refusal in its place."""
        walk = scan.walk
        try:
            page = await self._source.page(walk.now.number, walk.now.size, scan.window)
        except READ_ERRORS as error:
            # The page may have needed a login, whose error is not about the listing.
            if is_from_login(error) or not walk.refuse(error.status):
                raise
            page = wire.Rows[Any](())
        else:
            walk.take(keys_of(page, self._source.row_key))
        if walk.up.broken:
            raise FeedProtocolError("rows follow a page that was refused like one behind the last row: an outage")
        if walk.is_cut:
            self._is_cut = True
            scan.walk = self._passes(scan.tier, is_deep=scan.is_deep)
        scan.pages += 1
        scan.rows += len(page.records) + len(page.broken)
        scan.attempts = 0
        self.pace.record_reply(is_deep=scan.is_deep)
        if not scan.is_deep:
            self.window, self.pages = scan.window, scan.pages
        return page

    async def _read_page(self, scan: Scan) -> None:
        """Read a page, and write its items, its events and, with the last page, the watermark."""
        source, before, sent = self._source, self.state, self._clock.read()
        if not scan.pages:
            scan.began = sent
        page = await self._fetch(scan)
        received = self._clock.read()
        sightings = {one.key: one for record in source.merged(page.records) for one in source.sightings(record)}
        unreadable = {f"unreadable:{hash_of(error.raw)}": error for error in source.unreadable(page)}
        scan.seen |= {key: one.subject for key, one in sightings.items()}
        scan.uncertain |= {wire.index_of_raw(error.raw) for error in unreadable.values()}
        for key in sightings:
            self._missing_since.pop(key, None)
        # One pass may skip a row that moves, which the next one finds.
        between = before.between(received, self._allowance or self.pace.interval)

        def write(db: Database) -> tuple[State, int, Sequence[Item], bool]:
            state, moved = before, False
            missing: Sequence[Item] = ()
            events = self._compare(db, scan, sightings, unreadable, before.at(sent), between)
            if scan.is_complete:
                if before.is_primed and source.tells_absence:
                    missing = self._missing(db, scan, before.at(received))
                is_whole = self._reaches(scan, received) if before.is_primed else not source.is_partial
                moved = not scan.is_deep and is_whole
            if moved:
                gap = before.gap(received, self._allowance) if source.windowed else None
                if gap is not None:
                    events.append(_new_event(f"gap:{before.time}", None, gap))
                state = self._moved(scan)
                feeds.put_state(db, self._feed, state.dump())
            return state, feeds.add_events(db, self._feed, events), missing, moved

        with anyio.CancelScope(shield=True):
            try:
                self.state, added, scan.missing, scan.moved = await self.hold(write)
            except BaseException:
                # It may be committed or not. The next scan reads it again.
                self._running.clear()
                self._stored = ""
                raise
            if scan.moved:
                self._stored = self.state.dump()
            scan.events += added
            self.open_events += added

    def _compare(
        self,
        db: Database,
        scan: Scan,
        sightings: Mapping[str, Sighting],
        unreadable: Mapping[str, DecodeError],
        at: float,
        between: Between,
    ) -> list[NewEvent]:
        """Write the items of a page that was requested at a time on the feed's clock, and return its events."""
        state, source = self.state, self._source
        tells_baseline = state.stage == "listed"
        tells_first = tells_baseline or self._options.start == "backfill"
        unseen: Kind | None = "new" if state.is_primed else "first" if tells_first else None
        known = feeds.items(db, self._feed, [*sightings, *unreadable])
        changed: list[Item] = []
        seen: list[Item] = []
        events: list[NewEvent] = []
        for key, one in sightings.items():
            before = known.get(key, Item(key, one.subject, b"?", None, 0, at, at, _NEVER))
            is_changed = before.digest != one.digest
            kind: Kind | None = "changed" if is_changed else None
            if key not in known or (before.version == 0 and tells_baseline):
                kind = unseen
            # What earlier scans lacked is younger than the watermark. A look-up confirms what follows from this.
            recent = state.time - self._allowance if state.is_primed and is_changed else _NEVER
            updated = max(at - scan.window if source.windowed else at, recent, before.updated_after)
            if kind is None and not is_changed and before.record is not None:
                if source.windowed or before.last_seen < at - _HOUR or before.updated_after == _NEVER:
                    seen.append(before._replace(last_seen=at, updated_after=updated))
                continue
            record, version = one.dump(), before.version
            previous = before.record if kind == "changed" else None
            event = kind and source.event(db, kind, record, previous, between, returned=not before.digest)
            if event is not None:
                version += 1
                events.append(_new_event(f"{key}:{version}", one.subject, event))
            changed.append(Item(key, one.subject, one.digest, record, version, before.first_seen, at, updated))
        for key, error in unreadable.items():
            if key not in known:
                index = wire.index_of_raw(error.raw)
                told = Unreadable(index=index, raw=error.raw, error=str(error), observed=between[1])
                events.append(_new_event(key, index, told))
                changed.append(Item(key, index, b"?", None, 1, at, at, _NEVER))
        feeds.put_items(db, self._feed, changed)
        feeds.touch_items(db, self._feed, seen)
        return events

    def _moved(self, scan: Scan) -> State:
        """Return the state after a scan that moves the watermark to its start."""
        tells_later = self._source.windowed and isinstance(self._options.start, timedelta)
        is_listed = self.state.stage == "new" and tells_later
        return State(time=self.state.at(scan.began), reading=scan.began, stage="listed" if is_listed else "primed")

    # Outcomes

    async def _end(self, scan: Scan) -> None:
        ladder = self._source.ladder
        if scan.tier in ladder:
            time = self.state.at(scan.began)
            self._done |= {one.name: time for one in ladder[ladder.index(scan.tier) :]}
        del self._running[scan.is_deep]
        if not scan.is_deep:
            now = anyio.current_time()
            self._is_long = scan.walk.is_long
            self._is_cut = self._is_cut and scan.walk.is_long
            self._duration = max(SCAN_TIME, now - scan.started)
            self._phase = "priming" if not self.state.is_primed else "live" if scan.moved else "catching-up"
            if scan.moved:
                self._last_success = datetime.fromtimestamp(scan.began.wall, UTC)
                self.subjects, self.items = len({*scan.seen.values()}), len(scan.seen)
            else:
                # The window slid past the watermark during the scan: repeat it with a wider window.
                self.pace.due = now + min(1.0, self.pace.interval)
        await self._reports.send_recovery()
        await self._report_end(scan)
        if scan.missing:
            await self._look_up(scan)
        now, retention = self.state.at(self._clock.read()), self._options.retention.total_seconds()
        if now >= self._prune_at:
            # In parts, one after each scan, so that no reader waits long.
            is_more_due = await self.hold(
                lambda db: feeds.prune(db, self._feed, items_before=now - retention, retention=retention)
            )
            self._prune_at = now if is_more_due else now + _HOUR

    async def _fail(self, scan: Scan, error: FreightExchangeError) -> None:
        if isinstance(error, LoginRejectedError) or not (self.state.is_primed or is_transient(error)):
            # A wrong address is raised, so that it does not look like an outage.
            raise error
        scan.attempts += 1
        pause = self.pace.record_failure(anyio.current_time(), error, is_deep=scan.is_deep)
        if scan.walk.now.size > self._source.safe and scan.walk.now.number == 0:
            # Large pages may be too slow for the service or the network, until the next hourly scan.
            self._largest = max(self._source.safe, self._largest // 10)
            scan.walk = self._passes(scan.tier, is_deep=scan.is_deep)
        is_lasting = not is_transient(error) or isinstance(error, FeedProtocolError)
        if is_lasting or not scan.pages or scan.attempts >= _MOST_ATTEMPTS:
            del self._running[scan.is_deep]
            await self._report_end(scan, error)
        if self.state.stage != "new" and not scan.is_deep:
            self._phase = "backing-off"
        await self._reports.send_error(error, pause)

    def _facts(self, scan: Scan) -> dict[str, Any]:
        """Return what all reports of a scan have. A listing without a window is always read completely."""
        tier, window = (scan.tier.name, scan.window) if self._source.windowed else ("complete", 0)
        return {"feed": self._options.name, "tier": tier, "window": window}

    async def _report_end(self, scan: Scan, error: FreightExchangeError | None = None) -> None:
        is_complete = error is None and (scan.is_deep or scan.moved)
        await self._report(ScanRecord, scan, rows=scan.rows, events=scan.events, error=error, complete=is_complete)

    async def _report_progress(self, scan: Scan) -> None:
        now, count = anyio.current_time(), len(scan.seen)
        if now - max(self._logged, scan.started) >= _BETWEEN_LINES:
            self._logged = now
            _logger.info(
                "the feed %r is reading what was updated in the last %d s: %d pages, %d records so far",
                self._options.name, scan.window, scan.pages, count,
            )  # fmt: skip
        await self._report(ScanProgress, scan, requests=count, first=not self.state.is_primed)

    async def _report(self, record: type[ScanRecord | ScanProgress], scan: Scan, **facts: Any) -> None:
        elapsed = anyio.current_time() - scan.started
        await self._client.hooks.emit(record(**self._facts(scan), pages=scan.pages, elapsed=elapsed, **facts))

    # Absence

    def _missing(self, db: Database, scan: Scan, now: float) -> list[Item]:
        """Return the items that a scan should have listed.

        A listing that lacks much, or is empty, proves nothing for an hour: it may be a failed query, a cache or a stale
        replica.
        """
        since = now - scan.window + 1 if self._source.windowed else _NEVER
        live = feeds.live_items(db, self._feed, since)
        rows = [row for row in live if row.key not in scan.seen and row.subject not in scan.uncertain]
        is_much = len(rows) > _FEW and 2 * len(rows) > len(scan.seen)
        if is_much or not scan.seen:
            return [row for row in rows if now - self._missing_since.setdefault(row.key, now) >= _HOUR]
        return rows

    async def _look_up(self, scan: Scan) -> None:
        """Look up the requests of missing items. A denial counts after a look-up has found something just listed."""
        now = anyio.current_time()
        settled, after = self.state.at(self._clock.read()) - self._allowance, self._look_up_after
        suspects: dict[int, list[Item]] = {}
        for row in scan.missing:
            if row.last_seen <= settled and after.get(row.subject, now) <= now:
                suspects.setdefault(row.subject or 0, []).append(row)
        if not suspects or now < max(after.get(None, now), self.pace.quiet_until):
            return
        subject = None
        try:
            if scan.seen and not await self._is_trusted(scan):
                after[None] = now + _DISTRUST
                return
            for subject, rows in [*suspects.items()][:_LOOK_UPS]:
                await self._confirm(subject, rows, await self._find(subject))
        except LoginRejectedError:
            raise
        except READ_ERRORS as error:
            # A failed look-up is no failure of the scan. The next scan looks up the others.
            after[subject] = now + _DISTRUST
            if retry_delay(error) is not None:
                self.pace.record_failure(anyio.current_time(), error)
            _logger.debug("a look-up of the feed %r failed: %s", self._options.name, error)

    async def _find(self, subject: int) -> set[str] | None:
        """Return the keys of the items that a look-up shows; `None` if it cannot say."""
        found = await self._source.find(subject)
        return None if found is None else {one.key for record in found for one in self._source.sightings(record)}

    async def _is_trusted(self, scan: Scan) -> bool:
        listed = max(scan.seen.values())
        if not scan.seen.keys().isdisjoint(await self._find(listed) or ()):
            return True
        _logger.warning(
            "the look-up of request %d found nothing although it is listed; nothing counts as gone until one works",
            listed,
        )
        return False

    async def _confirm(self, subject: int, rows: Sequence[Item], present: set[str] | None) -> None:
        """Write the result of a look-up: what it denies is gone; what it shows is not missed until it is listed again.

        A scan that lacked what a look-up shows has dated its update wrongly, by an earlier scan that missed it.
        """
        read, source = self._clock.read(), self._source
        at, latest = self.state.at(read), datetime.fromtimestamp(read.wall, UTC)
        last_seen = {row.key: row.last_seen for row in rows}

        def write(db: Database) -> int:
            known = feeds.items_of(db, self._feed, subject)
            expected = source.expected(known)
            found: list[Item] = []
            gone: list[Item] = []
            events: list[NewEvent] = []
            for item in known:
                if not item.digest or item.last_seen != last_seen.get(item.key):
                    continue
                exists = present is None or item.key in present
                if exists or item.record is None or item.key not in expected:
                    found.append(item._replace(updated_after=_NEVER))
                    continue
                between = latest - timedelta(seconds=at - item.last_seen + self._allowance), latest
                event = source.event(db, "gone", item.record, item.record, between, returned=False)
                assert event is not None
                gone.append(item._replace(digest=b"", version=item.version + 1, last_seen=at))
                events.append(_new_event(f"{item.key}:{item.version + 1}", subject, event))
            feeds.touch_items(db, self._feed, found)
            feeds.put_items(db, self._feed, gone)
            return feeds.add_events(db, self._feed, events)

        with anyio.CancelScope(shield=True):
            self.open_events += await self.hold(write)


def _new_event(key: str, subject: int | None, event: StoredEvent) -> NewEvent:
    return NewEvent(key, subject, event.kind, dump_event(event))
