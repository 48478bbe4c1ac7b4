"""The watcher: one scan after another, at a steady pace, through whatever trouble passes.

Which page to ask for, how far back and when is worked out by the pure parts beside it, and what the pages mean is
written down by the journal; this asks, waits and tells.
"""

from __future__ import annotations

import logging
import math
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, Literal, Protocol

import anyio

from freight_exchange.errors import (
    APIStatusError,
    DeadlineExceededError,
    DecodeError,
    FeedProtocolError,
    FreightExchangeError,
    LoginRejectedError,
    NotFoundError,
    RateLimitedError,
    ServerError,
    TransportError,
)
from freight_exchange.feed import ladder
from freight_exchange.feed.clock import most
from freight_exchange.feed.cover import WIDEST, ScanTimes, is_covered, window_for
from freight_exchange.feed.journal import Journal, Look, Start, wall
from freight_exchange.feed.scanner import Scanner, may_pass
from freight_exchange.hooks import Degraded, Recovered, Scan
from freight_exchange.paging import PageSizes

if TYPE_CHECKING:
    from freight_exchange.feed.clock import Clock, Reading
    from freight_exchange.feed.pacer import Pacer
    from freight_exchange.hooks import Hooks
    from freight_exchange.models import RateRequest
    from freight_exchange.store.protocol import Seen
    from freight_exchange.wire import Rows

__all__ = ["Phase", "Source", "Watcher"]

Phase = Literal["priming", "live", "catching-up", "backing-off", "draining", "stopped"]

_logger = logging.getLogger("freight_exchange.feed")

_PASSING: Final = (TransportError, DeadlineExceededError, DecodeError, APIStatusError, FeedProtocolError)
_BETWEEN_PRUNINGS: Final = 3600.0
_NARROW_DEADLINE: Final = 600.0
_PAGES_OF_RECENT: Final = 20
_PAGES_AT_A_TIME: Final = 3
_LOOKUPS_A_SCAN: Final = 10
_SCANS_THAT_MISS: Final = 2


class Source(Protocol):
    """What a watcher asks of the service."""

    async def page(self, number: int, rows: int, window: int) -> Rows[RateRequest]:
        """One page of the requests that were updated in the last `window` seconds."""
        ...

    async def get(self, index: int) -> RateRequest:
        """The request with this index; `NotFoundError` if there is none."""
        ...


class Watcher:
    """Makes one scan whenever it is told to and one is due.

    Attributes:
        phase: What it is doing, in a word.
        window, pages: Of the last scan.
        last_success: When the last complete scan began.
    """

    def __init__(
        self, source: Source, journal: Journal, hooks: Hooks, clock: Clock, pacer: Pacer, *, name: str, start: Start
    ) -> None:
        self._source = source
        self._journal = journal
        self._hooks = hooks
        self._clock = clock
        self._pacer = pacer
        self._name = name
        self._start: Start = start
        self._times = ScanTimes()
        self._fresh = True
        self._narrow: Look | None = None
        self._deep: Look | None = None
        self._deep_failed = False
        self._again: tuple[int, Reading] | None = None
        self._failing_since: float | None = None
        self._offset_told = False
        self._pruned = -math.inf
        self.phase: Phase = "priming"
        self.window = 0
        self.pages = 0
        self.last_success: datetime | None = None
        if journal.state.primed:
            self.phase = "catching-up"
            self.last_success = wall(journal.state.cover.reading)

    async def prime(self) -> None:
        """Make the first complete scan, if no run before this one has. What waiting cannot mend is raised."""
        while not self._journal.state.primed:
            await self._until_due()
            await self._proceed(self._plan())
            self._fresh = False
        self._pacer.begin(anyio.current_time())

    async def look(self) -> None:
        """Wait until a scan is due, and make it.

        A deep scan of many pages is made in parts: it pauses after each page that brought something, which is to be
        handed out first, and whenever a narrow scan is due, which finds what is new sooner.

        Raises:
            LoginRejectedError: The service rejected the email or password. Any other trouble is lived through.
            StoreError: What was found cannot be written down; it is looked for again by the next scan.
        """
        look = self._under_way()
        if look is None:
            await self._until_due()
            look = self._plan()
            if look.rung is ladder.NARROW:
                self._narrow = look
            else:
                self._deep = look
                self._pacer.took_turn(look.started)
        await self._proceed(look)

    def _under_way(self) -> Look | None:
        """The scan to go on with: one whose reader left, or a deep one that paused."""
        if self._narrow is not None:
            state = self._journal.state
            if is_covered(self._narrow.window, state.cover.most(self._clock.read()), state.allowance):
                return self._narrow
            # Its window has slid past what it was to cover: once more, and wider.
            self._times.took(2 * (anyio.current_time() - self._narrow.started))
            self._narrow = None
        if self._deep is None or not self._narrow_is_due():
            return self._deep
        if self._deep.unwritten is not None:
            # Written after the scan that comes first now, it would turn back what that finds.
            self._deep = None
        return None

    def _narrow_is_due(self) -> bool:
        """Whether it is time for a scan that looks back little, and there is such a scan."""
        return anyio.current_time() >= self._pacer.due and self._keeps_up()

    def _keeps_up(self) -> bool:
        """Whether the cover is young. After a long silence every scan is a deep one, and is not to be held up."""
        state = self._journal.state
        window = window_for(state.cover.most(self._clock.read()), state.allowance, self._times.expected())
        return window < ladder.DEEP[-1].window

    async def _until_due(self) -> None:
        await anyio.sleep(max(0.0, self._pacer.due - anyio.current_time()))

    async def _proceed(self, look: Look) -> None:
        """Make the scan, or go on with it, until it has ended or pauses."""
        covered, error = False, None
        try:
            ended = await self._in_time(look)
            if ended is None:
                self.phase = "catching-up" if self.phase == "backing-off" else self.phase
                return
            covered = ended
            self._end(look)
            await self._confirm(look)
        except LoginRejectedError:
            self.phase = "stopped"
            raise
        except _PASSING as trouble:
            error = trouble
            self._end(look)
        self.window, self.pages = look.window, look.scanner.pages
        now = anyio.current_time()
        # What happened is noted first: a hook that raises must not undo the pace.
        told = self._note_success(look, now, covered=covered) if error is None else self._note_failure(look, now, error)
        await self._tell(look, now - look.started, error, complete=covered)
        if told is not None:
            await self._emit(told)
        if error is None:
            await self._prune()

    def _end(self, look: Look) -> None:
        self._narrow = None if look is self._narrow else self._narrow
        self._deep = None if look is self._deep else self._deep

    # The scan

    async def _in_time(self, look: Look) -> bool | None:
        # A deep one may take as long as its pages do: each has a deadline, and the rounds through them are counted.
        deadline = _NARROW_DEADLINE if look.rung is ladder.NARROW else math.inf
        with anyio.move_on_after(deadline):
            return await self._scan(look)
        raise DeadlineExceededError(f"a scan of {look.window} s was not done within {deadline:g} s")

    def _plan(self) -> Look:
        now = self._clock.read()
        rung, window, silent = self._depth(now) if self._journal.state.primed else self._first_depth(now)
        state = self._journal.state
        return Look(
            number=state.scan + 1,
            rung=rung,
            window=min(window, WIDEST),
            silent=silent,
            before=state.cover,
            began=now,
            started=anyio.current_time(),
            # The deepest scans trust nothing: a service that lowers the size of its pages would hide what is beyond.
            scanner=Scanner(PageSizes() if rung in ladder.DISTRUSTFUL else self._journal.sizes),
        )

    def _first_depth(self, now: Reading) -> tuple[ladder.Rung, int, bool]:
        """All that is listed. What of it is handed out, if only a part is, a second scan with that window tells."""
        state = self._journal.state
        if isinstance(self._start, timedelta) and ladder.DEEPEST.name in state.rungs:
            # Counted from when the feed was first entered, however long it took until this succeeds.
            age = max(state.cover.most(now), state.cover.time_at(now)) + self._start.total_seconds()
            return ladder.NARROW, window_for(age, 0.0, self._times.expected()), False
        return ladder.DEEPEST, WIDEST, self._start != "backfill"

    def _depth(self, now: Reading) -> tuple[ladder.Rung, int, bool]:
        state, expected = self._journal.state, self._times.expected()
        rung = ladder.DEEPEST if self._fresh else ladder.due(state.rungs, state.cover.time_at(now))
        if self._deep_failed or self._deep is not None:
            # A scan of many pages has failed, or is under way: one of few is worth more now.
            rung = ladder.NARROW
        ages = [state.cover.most(now)]
        if self._journal.suspects is not None:
            ages.append(self._journal.suspects[1].most(now))
        windows = [rung.window, *(window_for(age, state.allowance, expected) for age in ages)]
        if self._again is not None:
            # As far back as the scan that missed something, which was a while ago.
            windows.append(window_for(self._again[0] + most(self._again[1], now), 0.0, expected))
        return rung, max(windows), False

    async def _scan(self, look: Look) -> bool | None:
        """Make the scan; whether it covers everything up to its beginning, or `None` if it pauses.

        What its pages bring counts all the same. Whoever is cancelled here can go on with it.
        """
        handed_over = look.events
        while True:
            restless = None if look.unwritten is not None else await self._next_page(look)
            covered = False
            if look.unwritten is not None:
                if look.scanner.unexplained:
                    await self._excuse(look)
                page, sent, received = look.unwritten
                covered = await self._journal.page(look, page, sent, received)
                look.unwritten = None
            if restless is not None:
                raise restless
            if look.scanner.ended:
                return covered
            many = look is self._deep and look.scanner.pages > _PAGES_AT_A_TIME
            if many and self._keeps_up() and (look.events > handed_over or self._narrow_is_due()):
                return None

    async def _next_page(self, look: Look) -> FeedProtocolError | None:
        """Ask for the next page, which is then unwritten; an error that ends the scan once it is written."""
        scanner, sent = look.scanner, self._clock.read()
        if not scanner.pages:
            look.began = sent
        try:
            page = await self._source.page(scanner.number, scanner.size, look.window)
        except LoginRejectedError:
            raise
        except _PASSING as error:
            if not await self._goes_on(scanner, error):
                raise
            if scanner.ended:
                look.unwritten = (None, sent, self._clock.read())
            return None
        look.unwritten = (page, sent, self._clock.read())
        try:
            scanner.take(page)
        except FeedProtocolError as error:
            return error
        return None

    async def _excuse(self, look: Look) -> None:
        """Find out what was updated since the scan began: only what was there before must not slip past it."""
        state = self._journal.state
        window = window_for(most(look.began, self._clock.read()), state.allowance, self._times.expected())
        recent: set[int] = set()
        try:
            for number in range(_PAGES_OF_RECENT if window < look.window else 0):
                page = await self._source.page(number, look.scanner.size, window)
                known = len(recent)
                recent.update(record.index for record in page.records)
                if len(recent) == known:
                    break
        except LoginRejectedError:
            raise
        except _PASSING as error:
            _logger.debug("what is recent cannot be told: %s", error)
        look.scanner.excuse(frozenset(recent))

    async def _goes_on(self, scanner: Scanner, error: FreightExchangeError) -> bool:
        match scanner.fail(error):
            case "on":
                return True
            case "again":
                await anyio.sleep(self._pacer.pause(scanner.attempts - 1, _asked_for(error)))
                return True
            case "lost":
                return False

    async def _confirm(self, look: Look) -> None:
        """Look up what two complete scans lacked: withdrawn is what the service knows no longer."""
        # Until all of it is known, the scans to come look as far back: a narrow one would not miss it again.
        self._again = (look.window, look.began) if look.missing else None
        due = [row for row in look.missing if row.missing >= _SCANS_THAT_MISS][:_LOOKUPS_A_SCAN]
        for row in due:
            await self._look_up(row)
        if len(due) == len(look.missing):
            self._again = None

    async def _look_up(self, row: Seen) -> None:
        if row.index < 1:
            # Such an index can be listed, and cannot be asked for.
            await self._journal.untold(row)
            return
        try:
            record = await self._source.get(row.index)
        except NotFoundError:
            await self._journal.withdrawn(row, self._clock.read())
        except LoginRejectedError:
            raise
        except _PASSING as error:
            if may_pass(error):
                raise
            await self._journal.untold(row)
        else:
            await self._journal.found(record, self._clock.read())

    # Afterwards

    def _note_success(self, look: Look, ended: float, *, covered: bool) -> Recovered | None:
        self._deep_failed = False
        if look.scanner.offset_ignored and not self._offset_told:
            self._offset_told = True
            _logger.warning("the service ignores `offset`: what its first page does not hold is not seen")
        if covered:
            self._succeeded(look, ended)
        else:
            # The window had slid past what it was to cover: once more, and wider.
            self._times.took(2 * (ended - look.started))
            self.phase = "catching-up"
            self._pacer.fell_short(ended)
        if self._failing_since is None:
            return None
        after, self._failing_since = ended - self._failing_since, None
        _logger.info("the feed %r has recovered after %.0f s", self._name, after)
        return Recovered(feed=self._name, after=after)

    def _succeeded(self, look: Look, ended: float) -> None:
        state = self._journal.state
        if look.rung is ladder.NARROW and look.window < ladder.DEEP[-1].window:
            self._times.took(ended - look.started)
        self.last_success = wall(look.began)
        if not state.primed:
            self._pacer.due = ended
            return
        if not self._fresh:
            self._journal.judged(look)
        elif look.window >= WIDEST:
            self._fresh = False
        self.phase = "live"
        self._pacer.succeeded(look.started)

    def _note_failure(self, look: Look, ended: float, error: FreightExchangeError) -> Degraded | None:
        self._deep_failed = look.rung is not ladder.NARROW
        if self._journal.state.primed:
            self.phase = "backing-off"
        elif not may_pass(error):
            # A wrong address must not look like patience.
            self.phase = "stopped"
            raise error
        self._pacer.failed(ended, _asked_for(error))
        if self._failing_since is not None:
            return None
        self._failing_since = ended
        _logger.warning("the feed %r fails, and goes on trying: %s", self._name, error)
        return Degraded(feed=self._name, error=error)

    async def _tell(self, look: Look, elapsed: float, error: FreightExchangeError | None, *, complete: bool) -> None:
        if self._hooks:
            await self._emit(
                Scan(
                    feed=self._name,
                    rung=look.rung.name,
                    window=look.window,
                    pages=look.scanner.pages,
                    rows=look.scanner.rows,
                    events=look.events,
                    complete=complete,
                    elapsed=elapsed,
                    error=error,
                )
            )

    async def _emit(self, event: Scan | Degraded | Recovered) -> None:
        if self._hooks:
            await self._hooks.emit(event)

    async def _prune(self) -> None:
        time = self._journal.state.cover.time
        if time - self._pruned >= _BETWEEN_PRUNINGS:
            await self._journal.prune(time)
            self._pruned = time


def _asked_for(error: FreightExchangeError) -> float | None:
    """The seconds that the service asked to be left alone for."""
    return error.retry_after if isinstance(error, RateLimitedError | ServerError) else None
