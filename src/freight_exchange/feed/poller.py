"""The watcher: one scan after another, at a steady pace, through whatever trouble passes.

Which page to ask for, how far back and when is worked out by the pure parts beside it, and what the pages mean is
written down by the journal; this asks, waits and tells.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from datetime import datetime
from typing import TYPE_CHECKING, Final, Literal

import anyio

from freight_exchange.errors import DeadlineExceededError, FreightExchangeError, LoginRejectedError
from freight_exchange.errors.transient import READ_ERRORS, is_transient, retry_delay
from freight_exchange.feed.confirm_withdrawn import WithdrawalCheck
from freight_exchange.feed.core import schedule
from freight_exchange.feed.core.planner import Depth, Planner, is_young
from freight_exchange.feed.core.scanner import PAGE_SIZE, Scanner
from freight_exchange.feed.core.watermark import WIDEST, is_covered
from freight_exchange.feed.fetch import PageFetcher
from freight_exchange.feed.journal import Journal, Look, wall
from freight_exchange.hooks import Degraded, Recovered, Scan, ScanProgress
from freight_exchange.instrumentation import NO_INSTRUMENTS, Instruments, ScanInfo
from freight_exchange.options import Start
from freight_exchange.paging import PageSizes
from freight_exchange.paging.page_sizes import size_after

if TYPE_CHECKING:
    from freight_exchange.feed.core.pacer import Pacer
    from freight_exchange.feed.source import Source
    from freight_exchange.hooks import Hooks
    from freight_exchange.options import Start
    from freight_exchange.platform.clock import Clock

__all__ = ["Phase", "Poller"]

Phase = Literal["priming", "live", "catching-up", "backing-off", "draining", "stopped"]

_logger = logging.getLogger("freight_exchange.feed")

_BETWEEN_PRUNINGS: Final = 3600.0
_NARROW_DEADLINE: Final = 600.0
_PAGES_AT_A_TIME: Final = 3
_PAGES_BEFORE_ENTRY: Final = 2
"""Pages of the first scan that are read before a feed is entered: the second tells whether the first one was all."""
_TRIES_OF_A_PAGE: Final = 12
_MOST_LEFT: Final = 3
"""The readers who may leave one after another before a page comes, until it counts as trouble."""
_BETWEEN_REPORTS: Final = 15.0
"""Seconds from one log line about a long scan to the next."""
_A_MOMENT: Final = 0.001
_LONGEST_ABSENCE: Final = 120.0
"""The seconds that a reader who left in the middle of a scan makes the next ones expect, at most."""


class Poller:
    """Makes one scan whenever it is told to and one is due.

    Attributes:
        phase: What it is doing, in a word.
        window, pages: Of the last scan, or of the one under way.
        last_success: When the last complete scan began.
        offset_ignored: Whether the last complete scan of more than a page saw the first page only.
    """

    def __init__(
        self,
        source: Source,
        journal: Journal,
        hooks: Hooks,
        clock: Clock,
        pacer: Pacer,
        *,
        name: str,
        start: Start,
        url: str = "the service",
        instruments: Instruments = NO_INSTRUMENTS,
    ) -> None:
        self._journal = journal
        self._hooks = hooks
        self._instruments = instruments
        self._clock = clock
        self._pacer = pacer
        self._name = name
        self._url = url
        self._planner = Planner(start)
        self._pages = PageFetcher(source, journal, clock, pacer, self._planner.expected)
        self._finder = WithdrawalCheck(source, journal, clock, pacer)
        self._narrow: Look | None = None
        self._deep: Look | None = None
        self._deep_failed = False
        self._turn_of_deep = False
        self._is_entering = False
        self._failing_since: float | None = None
        self._untold: deque[Degraded | Recovered] = deque()
        self._page_sizes = dict[str, int]()
        self._pruned = self._reported = -math.inf
        self.phase: Phase = "priming"
        self.window = 0
        self.pages = 0
        self.offset_ignored = False
        self.last_success: datetime | None = None
        if journal.state.primed:
            self.phase = "catching-up"
            self.last_success = wall(journal.state.cover.reading)

    async def prime(self) -> None:
        """Begin the first scan, if no run before this one has, until updates from now on are reported.

        A listing of one page is read whole. Of a longer one the first page is read, and what was updated lately: it
        is the baseline of the narrow scans that come while `look` reads the rest.

        Raises:
            FreightExchangeError: The service is not there, or refuses: waiting does not help.
        """
        self._is_entering = True
        while not self._journal.state.entered:
            await self._proceed(await self._entry_scan())
        self._is_entering = False
        if self._journal.state.stage == "window":
            # What is to be handed out is read before the rest.
            self._deep = None
        self._pacer.begin(anyio.current_time())

    async def _entry_scan(self) -> Look:
        if self._deep is None:
            await self._until_due()
            self._deep = self._plan()
        if self._deep.scanner.pages < _PAGES_BEFORE_ENTRY:
            return self._deep
        if self._narrow is None:
            await self._until_due()
            self._narrow = self._look(self._planner.recent(self._journal.state, self._clock.read()))
        return self._narrow

    async def look(self) -> None:
        """Wait until a scan is due, and make it.

        A deep scan of many pages is made in parts: it pauses after each page that brought something, which is to be
        handed out first, and whenever a narrow scan is due, which finds what is new sooner. They take turns.

        Raises:
            LoginRejectedError: The service rejected the email or password. Any other trouble is lived through.
            StoreError: What was found cannot be written down; it is looked for again by the next scan.
        """
        # Whoever left before it could be told of comes back here.
        await self._tell_changes()
        if self._finder.has_time and self._under_way() is None:
            # Somebody left before all was looked up: there is time for it now.
            await self._look_up()
            return
        look = self._under_way()
        if look is None:
            at_once = self._first_scan_waits()
            if not at_once:
                await self._until_due()
            look = self._plan()
            if look.rung is schedule.NARROW and not look.first:
                self._narrow, self._turn_of_deep = look, True
            else:
                self._deep = look
                if not at_once:
                    self._pacer.took_turn(look.started)
        elif look.scanner.attempts and self._keeps_up():
            # A page that failed is asked for in the place of a narrow scan: in trouble there are no more requests.
            await self._until_due()
            self._pacer.took_turn(anyio.current_time())
        await self._proceed(look)

    def _under_way(self) -> Look | None:
        """The scan to go on with: one whose reader left, or a deep one that paused and whose turn it is."""
        if self._narrow is not None:
            state = self._journal.state
            if is_covered(self._narrow.window, state.cover.most(self._clock.read()), state.allowance):
                return self._narrow
            # Its window has slid past what it was to cover: once more, and wider.
            since, spent = anyio.current_time() - self._narrow.started, self._narrow.spent
            self._planner.took(schedule.NARROW, 2 * min(since, spent + _LONGEST_ABSENCE))
            self._narrow = None
        if self._deep is None or not self._narrow_is_first(self._deep):
            return self._deep
        if self._deep.unwritten is not None:
            # Written after the scan that comes first now, it would turn back what that finds.
            self._deep = None
        return None

    def _narrow_is_first(self, deep: Look) -> bool:
        now = anyio.current_time()
        if not self._keeps_up() or (self._turn_of_deep and deep.due <= now):
            return False
        return self._pacer.due <= max(now, deep.due)

    def _narrow_is_due(self) -> bool:
        """Whether it is time for a scan that looks back little, and there is such a scan."""
        return anyio.current_time() >= self._pacer.due and self._keeps_up()

    def _keeps_up(self) -> bool:
        """Whether there are narrow scans, which are not to be held up."""
        state = self._journal.state
        return state.entered and is_young(state.cover, self._clock.read())

    def _first_scan_waits(self) -> bool:
        """Tell whether a part of the first scan may begin at once, between two turns."""
        if self._journal.state.stage not in ("window", "listing") or self._deep is not None or self._deep_failed:
            return False
        return self._pacer.quiet_until <= anyio.current_time() < self._pacer.due and self._keeps_up()

    async def _until_due(self) -> None:
        # Some timers fire a little early, and a scan that began before it is due would be followed by another.
        while (left := max(self._pacer.due, self._pacer.quiet_until) - anyio.current_time()) > 0:  # noqa: ASYNC110 - time passes without an event
            await anyio.sleep(max(left, _A_MOMENT))

    async def _proceed(self, look: Look) -> None:
        """Make the scan, or go on with it, until it has ended or pauses."""
        with self._instruments.scan(ScanInfo(feed=self._name, tier=look.rung.name, window=look.window)):
            await self._make(look)

    async def _make(self, look: Look) -> None:
        self._turn_of_deep = self._turn_of_deep and look is not self._deep
        covered, error = False, None
        try:
            ended = await self._in_time(look)
            if ended is None:
                if self.phase == "backing-off":
                    self.phase = self._phase_without_trouble("catching-up")
                return
            covered, error = ended, look.doubt
        except LoginRejectedError:
            self.phase = "stopped"
            raise
        except READ_ERRORS as trouble:
            if self._is_kept(look, trouble):
                look.due = self._pacer.failed(anyio.current_time(), retry_delay(trouble))
                if self._journal.state.entered and not self._keeps_up():
                    self.phase = "backing-off"
                self._planner.stalled(look.rung)
                self._note_trouble(trouble)
                await self._tell_changes()
                return
            error = trouble
        self._end(look)
        self._show(look)
        now = anyio.current_time()
        # What happened is noted first: neither a hook that raises nor whoever leaves now must undo the pace.
        if error is None:
            self._note_success(look, now, covered=covered)
        else:
            self._note_failure(look, now, error)
        await self._tell(look, now - look.started, error, complete=covered)
        await self._tell_changes()
        if error is None:
            await self._look_up()
            await self._prune()

    def _is_kept(self, look: Look, error: FreightExchangeError) -> bool:
        """Whether a scan goes on with the page that failed: what a deep one has read is not thrown away lightly."""
        scanner = look.scanner
        stuck = 0 < scanner.attempts < _TRIES_OF_A_PAGE
        return (look is self._deep or look.first) and scanner.pages > 0 and stuck and is_transient(error)

    def _end(self, look: Look) -> None:
        self._narrow = None if look is self._narrow else self._narrow
        self._deep = None if look is self._deep else self._deep

    # The scan

    async def _in_time(self, look: Look) -> bool | None:
        # A deep one may take as long as its pages do: each has a deadline, and the rounds through them are counted.
        deadline = _NARROW_DEADLINE if look is self._narrow and not look.first else math.inf
        began, so_far = anyio.current_time(), (look.scanner.pages, look.recent)
        try:
            with anyio.move_on_after(deadline):
                return await self._scan(look)
        except anyio.get_cancelled_exc_class():
            came = look.unwritten is not None or (look.scanner.pages, look.recent) != so_far
            self._note_left(look, began, came=came)
            raise
        finally:
            look.spent += anyio.current_time() - began
        raise DeadlineExceededError(f"a scan of {look.window} s was not done within {deadline:g} s")

    def _note_left(self, look: Look, began: float, *, came: bool) -> None:
        """A reader who always leaves sooner than a page comes hears of nothing, and asks each time he comes back."""
        now = anyio.current_time()
        if came or now <= look.due:
            look.left = 0 if came else look.left
            return
        look.left += 1
        if look.left < _MOST_LEFT:
            return
        waited = now - max(began, look.due)
        look.due = self._pacer.failed(now)
        self.phase = "backing-off" if self._journal.state.entered else self.phase
        self._note_trouble(
            DeadlineExceededError(
                f"{look.left} times in a row whoever awaited an event left before a page of the scan had come, after "
                f"{waited:.1f} s the last time: give it longer"
            )
        )

    def _plan(self) -> Look:
        suspects = None if self._journal.suspects is None else self._journal.suspects[1]
        deep = self._deep is None and not self._deep_failed
        return self._look(self._planner.next(self._journal.state, self._clock.read(), suspects=suspects, deep=deep))

    def _look(self, depth: Depth) -> Look:
        state = self._journal.state
        return Look(
            number=state.scan + 1,
            rung=depth.rung,
            window=depth.window,
            own=depth.own,
            silent=depth.silent,
            first=depth.first,
            before=state.cover,
            began=self._clock.read(),
            started=anyio.current_time(),
            # The deepest scans trust nothing: a service that lowers the size of its pages would hide what is beyond.
            scanner=Scanner(
                PageSizes() if depth.rung in schedule.DISTRUSTFUL else self._journal.sizes,
                self._page_sizes.get(depth.rung.name, PAGE_SIZE),
            ),
        )

    async def _scan(self, look: Look) -> bool | None:
        """Make the scan; whether it covers everything up to its beginning, or `None` if it pauses.

        What its pages bring counts all the same. Whoever is cancelled here can go on with it.
        """
        handed_over = look.events
        await anyio.sleep(max(0.0, max(look.due, self._pacer.quiet_until) - anyio.current_time()))
        while True:
            await self._pages.take(look)
            self._note_progress(look)
            if look.scanner.ended:
                return look.covered
            if look is self._deep:
                await self._tell_progress(look)
                if self._pauses(look, handed_over):
                    return None

    def _pauses(self, look: Look, handed_over: int) -> bool:
        """Tell whether a deep scan lets others go first."""
        if self._is_entering:
            return self._journal.state.entered or look.scanner.pages >= _PAGES_BEFORE_ENTRY
        if look.scanner.pages <= _PAGES_AT_A_TIME:
            return False
        # After a long silence there is no pause: its window is as wide as it must be, and slides on meanwhile.
        return self._narrow_is_due() or (self._keeps_up() and look.events > handed_over)

    async def _look_up(self) -> None:
        try:
            await self._finder.look_up()
        except LoginRejectedError:
            self.phase = "stopped"
            raise

    def _note_progress(self, look: Look) -> None:
        """Show how far a scan is; one that takes long is logged now and then."""
        self._show(look)
        now = anyio.current_time()
        if now - max(self._reported, look.started) < _BETWEEN_REPORTS:
            return
        self._reported = now
        _logger.info(
            "the feed %r is reading what was updated in the last %d s: %d pages, %d requests so far",
            self._name,
            look.window,
            look.scanner.pages,
            len(look.indexes),
        )

    def _show(self, look: Look) -> None:
        # Until the first scan is done, the status shows how far it is.
        if look.first or self.phase != "priming":
            self.window, self.pages = look.window, look.scanner.pages

    async def _tell_progress(self, look: Look) -> None:
        if self._hooks:
            await self._emit(
                ScanProgress(
                    feed=self._name,
                    rung=look.rung.name,
                    first=look.first,
                    window=look.window,
                    pages=look.scanner.pages,
                    requests=len(look.indexes),
                    elapsed=anyio.current_time() - look.started,
                )
            )

    # Afterwards

    def _note_success(self, look: Look, ended: float, *, covered: bool) -> None:
        self._deep_failed = False
        self._page_sizes.pop(look.rung.name, None)
        doubtful = self._finder.saw(look)
        # A listing of nothing at all is no proof that one of few is gone: a wider one has to lack it as well.
        own = look.own if look.indexes else max(look.own, schedule.above(look.window).window)
        self._planner.succeeded(look.rung, look.window, own, look.began, doubtful=doubtful)
        if look.scanner.offset_ignored and not self.offset_ignored:
            _logger.warning("the service ignores `offset`: what its first page does not hold is not seen")
        if look.scanner.pages > 1:
            self.offset_ignored = look.scanner.offset_ignored
        if covered:
            self._succeeded(look, ended)
        else:
            # The window had slid past what it was to cover: once more, and wider.
            self._planner.took(look.rung, 2 * (ended - look.started))
            self.phase = "catching-up"
            self._pacer.fell_short(ended)
        if self._failing_since is not None and not self._planner.failing:
            after, self._failing_since = ended - self._failing_since, None
            _logger.info("the feed %r reads %s again after %.0f s", self._name, self._url, after)
            self._untold.append(Recovered(feed=self._name, after=after))

    def _succeeded(self, look: Look, ended: float) -> None:
        state, began = self._journal.state, wall(look.began)
        if look.rung is schedule.NARROW:
            self._planner.took(look.rung, ended - look.started)
        # Narrow scans may have overtaken a deep one.
        self.last_success = began if self.last_success is None else max(began, self.last_success)
        if state.primed and not self._planner.fresh:
            self._journal.judged(look, self._clock.read())
        elif look.window >= WIDEST:
            self._planner.fresh = False
        self.phase = self._phase_without_trouble("live")
        self._pacer.succeeded(look.started)

    def _note_failure(self, look: Look, ended: float, error: FreightExchangeError) -> None:
        state = self._journal.state
        if not state.entered and not is_transient(error):
            # A wrong address must not look like patience.
            self.phase = "stopped"
            raise error
        self._deep_failed = look.first or look.rung is not schedule.NARROW
        if not look.scanner.pages and (smaller := size_after(error, look.scanner.size)) is not None:
            # Perhaps it cannot give that many rows: the next scan of this depth asks for fewer, a later one for all.
            self._page_sizes[look.rung.name] = smaller
        else:
            self._page_sizes.pop(look.rung.name, None)
        self._planner.failed(look.rung, state.cover.time_at(self._clock.read()))
        self._pacer.failed(ended, retry_delay(error))
        self.phase = "backing-off" if state.entered else self.phase
        self._note_trouble(error)

    def _phase_without_trouble(self, phase: Phase) -> Phase:
        return phase if self._journal.state.stage in ("settling", "primed") else "priming"

    def _note_trouble(self, error: FreightExchangeError) -> None:
        if self._failing_since is None:
            self._failing_since = anyio.current_time()
            wait = self.quiet_for
            _logger.warning(
                "the feed %r cannot read %s: %s; trying again in %.0f s", self._name, self._url, error, wait
            )
            self._untold.append(Degraded(feed=self._name, error=error, retry_in=wait))

    @property
    def quiet_for(self) -> float:
        """Seconds until the next request may be sent, while there is trouble; else 0."""
        return max(0.0, self._pacer.quiet_until - anyio.current_time())

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

    async def _tell_changes(self) -> None:
        """Tell what began or ended, and, should somebody leave in the middle, once more the next time."""
        while self._untold:
            await self._emit(self._untold[0])
            self._untold.popleft()

    async def _emit(self, event: Scan | ScanProgress | Degraded | Recovered) -> None:
        if self._hooks:
            await self._hooks.emit(event)

    async def _prune(self) -> None:
        time = self._journal.state.cover.time
        if time - self._pruned >= _BETWEEN_PRUNINGS:
            # Where much is due it is done in parts, so that nobody waits long: another with the next scan.
            more_is_due = await self._journal.prune(time)
            self._pruned = -math.inf if more_is_due else time
