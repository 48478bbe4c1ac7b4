"""Single pass through a listing: chooses the next page to request, and detects the end. Pure.

A page with fewer rows than requested does not prove the end: the service may cut pages shorter than before, and it may
hide rows of a page after it has cut it. The end is an empty page, a refused one, or a repetition of the previous page.

The size matters as much as the number. A service that cuts pages counts page numbers either in the cut size or in the
requested size. Both are equal for a size that it does not cut. So after a short first page of r rows, the second page
is requested in size r. If it has rows of the first page, the first page was not cut, but some of its rows are hidden.
Then the pass restarts in size r, or continues in the wanted size if r is much smaller.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import count as count_from
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from freight_exchange.paging.core.collected_rows import CollectedRows
from freight_exchange.paging.core.end_signs import FAILURE, REFUSALS, EndSigns
from freight_exchange.paging.core.offset_probe import OffsetProbe
from freight_exchange.paging.core.page_sizes import MIN_PAGE_SIZE, SIZE_REFUSALS, WantedSize
from freight_exchange.paging.core.seen_rows import Alike, SeenRows
from freight_exchange.paging.page import PageRequest, Step

if TYPE_CHECKING:
    from collections.abc import Hashable

    from freight_exchange.errors import FreightExchangeError
    from freight_exchange.paging.page import RawPage

__all__ = ["SinglePass"]

T = TypeVar("T")

_MAX_RESTARTS: Final = 3


class SinglePass(Generic[T]):
    """Single pass through a listing. Until it has `ended`, `number` and `size` describe the next page.

    Args:
        wanted: Page size to request.
        seen: Rows returned so far.
        start: Number of the first page.
        further: Pages to request past the first sign of the end.
        probes_offset: Whether to spend a request on finding out why the second page equals the first.

    Attributes:
        fitting: Page size with which a later pass can continue after the last page.
        found: Rows found since the last restart.
        first_size: Size in which the first page was requested.
        repeated: The listing ended with a repetition of its first page.
        offset_ignored: The service ignores page numbers.
        full: All pages except for the last were full.
        longest: Largest number of rows on a page: the service does not cut pages of this size.
        uncertain: The pass ended without a proof of the end.
    """

    def __init__(
        self, wanted: WantedSize, seen: SeenRows[T], *, start: int = 0, further: int = 0, probes_offset: bool = False
    ) -> None:
        self._seen = seen
        self._start = start
        self._probes_offset = probes_offset
        self._wanted = wanted
        self._end = EndSigns(further)
        self.fitting = wanted.rows
        self._restarts = 0
        self._suspected = 0
        self.longest = 0
        self._probe: OffsetProbe | None = None
        self._met: set[Hashable] = set()
        self.ended = False
        self.repeated = False
        self.offset_ignored = False
        self.uncertain = False
        self._begin(self._wanted.rows, "first")

    def _begin(self, size: int, step: Step, *, hidden: bool = False) -> None:
        """Start or restart the pass; `hidden` means that short pages were not cut, but have hidden rows."""
        self.first_size = size
        self._at = self._return_to = PageRequest(self._start, size, step)
        self._end.reset()
        self._idle = False
        self._has_probed = False
        self._short_at: int | None = None
        self.full = True
        self._cuts_excluded = hidden
        self._past_short_first = False
        self.found = CollectedRows[T](self._start)
        self._seen.begin_pass()

    @property
    def number(self) -> int:
        return self._at.number

    @property
    def size(self) -> int:
        return self._at.size

    @property
    def consistent(self) -> bool:
        """`True` if the end is proven and each row from before a restart was found again."""
        return not self.uncertain and self._met <= self.found.rows.keys()

    def numbers(self) -> Iterable[int]:
        """Return the numbers of the next pages, as far as they do not depend on the reply to the next one."""
        number, size, step = self._at
        is_known = step == "page" or (step == "second" and size == self._wanted.clamp)
        return count_from(number) if is_known else (number,)

    def take(self, rows: RawPage[T]) -> tuple[T, ...]:
        """Process the requested page; return the records that it adds."""
        keys = self._seen.keys(rows)
        match self._at.step:
            case "probe":
                self._continue_probe(keys)
                return ()
            case "alive":
                self._at = self._return_to
                if not self.found.holds(keys):
                    # The listing has changed, and may reach the failed page now.
                    self._restart()
                return ()
            case "last row":
                self._check_last_row(keys)
                return ()
        self.fitting = self.size
        page = Counter(keys)
        self._met.update(keys)
        self.longest = max(self.longest, min(len(keys), self.size))
        if not keys:
            self._meet_end(empty=True)
        elif page == self.found.before and self._at.step == "second" and self.size < self._wanted.rows:
            # Hidden rows of the first page can make both pages equal: only a second page in the same size is a proof.
            self._at = PageRequest(self.number, self._wanted.rows, "page")
            self._short_at = self._start
        elif page == self.found.before:
            self._see_again(keys)
        elif self._end.count and self.found.holds(keys):
            if not self._restart():
                self._meet_end()
        elif self._is_next(page):
            return self._accept(rows, keys)
        return ()

    def fail(self, error: FreightExchangeError) -> bool:
        """Process an error in place of the page; return `False` if the caller has to raise it."""
        refused = error.status in REFUSALS
        if self._at.step in ("last row", "probe") and (refused or error.status == FAILURE):
            if self._at.step == "probe":
                self._end_probe()
            else:
                self._at = self._return_to
        elif self.number == 0:
            return self._step_down(error)
        elif refused:
            self._meet_end()
        elif error.status == FAILURE and self._at.step != "alive":
            self._end.record_failure(self.number)
            if self._end.fails_beyond_end:
                self._meet_end()
            else:
                self._return_to = self._at
                self._at = PageRequest(0, self.size, "alive")
        else:
            return False
        return True

    def _step_down(self, error: FreightExchangeError) -> bool:
        """Request a smaller first page if the service refuses the size, or may have failed because of it."""
        refused = error.status in SIZE_REFUSALS
        if self._at.step == "page" and refused and self.size < self._wanted.rows:
            # The size is that of a short page, and the service does not accept it.
            self._begin(self._wanted.rows, "page", hidden=True)
            return True
        if self._at.step != "first" or not self._wanted.reduce(error, self.size):
            return False
        self._begin(self._wanted.rows, "first")
        return True

    def _is_next(self, page: Counter[Hashable]) -> bool:
        """Return whether the page directly follows the pages before; if not, choose another one to request."""
        rows = len(self.found.first)
        wanted = self._wanted.rows
        if self._past_short_first and 2 * rows >= wanted:
            # Rows follow a short first page after an empty one. A restart in the size of the first page skips no row.
            self._begin(rows, "page")
            return False
        self._past_short_first = False
        if self._at.step != "second":
            return True
        first = Counter(self.found.first)
        if not page & first:
            if self._end.further and self._suspected != rows:
                # Or the listing was short, and rows were added since: its few rows would be too small a page size.
                self._suspected = rows
                if self._restart():
                    return False
            self._wanted.record_clamp(rows)
        elif page <= first and 2 * rows < wanted:
            # The first page has all these rows, so it was not cut: most of its rows are hidden.
            self._at = PageRequest(self.number, wanted, "page")
            self._cuts_excluded = True
            return False
        else:
            self._begin(rows, "page")
            return False
        self._at = self._at._replace(step="page")
        return True

    def _accept(self, rows: RawPage[T], keys: list[Hashable]) -> tuple[T, ...]:
        self._wanted.record_page(self.size, len(keys), first=self._at.step == "first")
        idle = self.found.add(self.number, keys, rows.records)
        self._end.record_following_rows()
        self.repeated = False
        fresh = self._seen.add(rows, keys)
        self._go_on(len(keys), idle=idle)
        return fresh

    def _go_on(self, rows: int, *, idle: bool) -> None:
        """Choose the page after an accepted one."""
        if idle and self._idle:
            if not self._restart():
                self.uncertain = self.ended = True
            return
        self._idle = idle
        number, size, step = self._at
        is_short, behind_short = rows < size, self._short_at == number - 1
        self.full = self.full and self._short_at is None
        self._short_at = number if is_short else None
        self._at = PageRequest(number + 1, size, "page")
        if step == "first" and is_short and self._start == 0:
            self.fitting = rows
            self._short_at = None
            self._at = PageRequest(number + 1, rows, "second")
        elif behind_short and not self._cuts_excluded:
            # Rows follow a short page. Either it has hidden rows, or it was cut, and the rows after the cut were
            # skipped.
            self._cuts_excluded = True
            self._return_to = self._at
            self._at = PageRequest(number * size - 1, 1, "last row")

    def _check_last_row(self, keys: list[Hashable]) -> None:
        """Restart the pass if the last row of the short page was skipped."""
        self._at = self._return_to
        if len(keys) == 1 and keys[0] not in self.found.rows:
            self._restart()

    def _restart(self) -> bool:
        """Restart because the service now cuts pages differently; return `False` after too many restarts."""
        if self._restarts == _MAX_RESTARTS:
            return False
        self._restarts += 1
        self._begin(self._wanted.rows, "first")
        return True

    def _see_again(self, keys: list[Hashable]) -> None:
        """Process a repetition of the previous page."""
        second = self.number == self._start + 1
        self.repeated = self.repeated or second
        may_probe = second and self._probes_offset and not self._has_probed and self._start == 0
        if may_probe and (probe := OffsetProbe.make(self.found.first)):
            self._has_probed = True
            self._probe = probe
            self._return_to = self._at
            self._at = PageRequest(probe.number, probe.SIZE, "probe")
            return
        # Two different pages of equal rows look like a repetition.
        self.uncertain = self.uncertain or (isinstance(keys[0], Alike) and 1 == len(set(keys)) < len(keys))
        self._meet_end()

    def _continue_probe(self, keys: list[Hashable]) -> None:
        assert self._probe is not None
        self._probe.take(keys)
        self._at = self._at._replace(number=self._probe.number)
        if self._probe.offset_ignored:
            self.offset_ignored = self.uncertain = self.ended = True
        elif self._probe.ended:
            self._end.undecided = self._probe.undecided
            self._end_probe()

    def _end_probe(self) -> None:
        self._at = self._return_to
        self._meet_end()

    def _meet_end(self, *, empty: bool = False) -> None:
        """Count a sign of the end; request a further page while there are too few."""
        # The service may cut all pages shorter than requested: only the longest page shows what it gives.
        most = min(self.size, max(self.longest, MIN_PAGE_SIZE)) if self.longest else self.size
        if self._end.add(most, empty=empty):
            self.uncertain = self.uncertain or self._end.undecided or self._end.hides_runs
            self.ended = True
        elif self._at.step == "second":
            # The page may be empty because all its rows are hidden: continue in the wanted size.
            self._at = PageRequest(self.number, self._wanted.rows, "page")
            self._past_short_first = True
        else:
            self._at = PageRequest(self.number + 1, self.size, "page")
