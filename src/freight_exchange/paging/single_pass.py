"""One pass through a listing: which page to ask for next, what each page adds, and where the listing ends. Pure.

A page with fewer rows than asked for proves nothing: the service may cut pages shorter than it did before, and it
hides rows from a page after cutting it. The end is an empty page, a refused one, or the previous page over again.

The size matters as much as the number. A service that cuts pages counts page numbers either in the size that it gives
or in the size that it is asked for. Both agree on sizes that it gives in full. So after a short first page of r rows
the second is asked for in size r. If it holds rows of the first page, the first one was not cut, and some of its rows
are hidden. Then the pass starts again in size r, or goes on in the size it wanted where r is a small part of that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import count as count_from
from typing import TYPE_CHECKING, Final, Generic, Literal, TypeVar

from freight_exchange.paging.collected_rows import CollectedRows
from freight_exchange.paging.offset_probe import OffsetProbe
from freight_exchange.paging.page_sizes import SIZE_REFUSALS, PageSizes, size_after
from freight_exchange.paging.seen_rows import Alike, SeenRows

if TYPE_CHECKING:
    from collections.abc import Hashable

    from freight_exchange.errors import FreightExchangeError
    from freight_exchange.paging.page import RawPage

__all__ = ["REFUSALS", "SinglePass"]

T = TypeVar("T")

REFUSALS: Final = frozenset({400, 404, 416, 422})
"""Statuses with which a service refuses a page beyond the end."""

_FAILURE: Final = 500
_MOST_RESTARTS: Final = 3

Step = Literal["first", "second", "page", "last row", "alive", "trial"]
"""What the page asked for is: the first one, the second in the size of a short first one, any other, the last row of a
short page that rows follow, the first one again, to show that the service answers, or a page of a trial."""


class SinglePass(Generic[T]):
    """One pass through a listing: `number` and `size` name the page it waits for, until it has `ended`.

    Args:
        operation: The name under which page sizes are known.
        sizes: What is known of them; the pass adds to it.
        page_size: The rows wanted in a page.
        seen: The rows that were handed out.
        start: The first page's number.
        further: How many pages to look further past the first sign of the end.
        curious: Whether to find out, at the price of a request, why the second page equals the first.

    Attributes:
        fitting: The page size with which a later reading goes on behind the page just taken.
        found: What the pass has found since it last started.
        asked: The size in which the first page was asked for.
        repeated: The listing ended with its first page over again.
        offset_ignored: The service ignores page numbers.
        full: All pages but the last were full.
        longest: The most rows of a page, which is a size that the service gives in full.
        uncertain: The pass ended without a proper end.
    """

    def __init__(
        self,
        operation: str,
        sizes: PageSizes,
        page_size: int,
        seen: SeenRows[T],
        *,
        start: int = 0,
        further: int = 0,
        curious: bool = False,
    ) -> None:
        self._operation = operation
        self._sizes = sizes
        self._seen = seen
        self._start = start
        self._further = further
        self._curious = curious
        self._wanted = self.fitting = sizes.to_ask(operation, page_size, start=start)
        self._size_refused = False
        self._fails_beyond_end = False
        self._restarts = 0
        self._suspected = 0
        self.longest = 0
        self._trial: OffsetProbe | None = None
        self._met: set[Hashable] = set()
        self.ended = False
        self.repeated = False
        self.offset_ignored = False
        self.uncertain = False
        self._begin(self._wanted, "first")

    def _begin(self, size: int, step: Step, *, hidden: bool = False) -> None:
        """Start the pass, or start it again; `hidden` says that short pages are known to be no cut ones."""
        self.number, self.size = self._start, size
        self.asked = size
        self._step: Step = step
        self._return_to: tuple[int, int, Step] = (self.number, size, step)
        self._failed_at = -1
        self._misses = 0
        self._undecided = self._idle = False
        self._has_tried = False
        self._short_at: int | None = None
        self.full = True
        self._cuts_excluded = hidden
        self._past_short_first = False
        self.found = CollectedRows[T](self._start)
        self._seen.begin_pass()

    @property
    def consistent(self) -> bool:
        """The pass found every row that it met, also before it started again."""
        return not self.uncertain and self._met <= self.found.rows.keys()

    def numbers(self) -> Iterable[int]:
        """The numbers of the next pages, as far as they are certain before the next one is there."""
        known = self._step == "second" and self.size == self._sizes.clamp(self._operation)
        return count_from(self.number) if self._step == "page" or known else (self.number,)

    def take(self, rows: RawPage[T]) -> tuple[T, ...]:
        """Take in the page that was asked for; the records that it adds."""
        keys = self._seen.keys(rows)
        match self._step:
            case "trial":
                self._go_on_trying(keys)
                return ()
            case "alive":
                self.number, self.size, self._step = self._return_to
                if not self.found.holds(keys):
                    # The listing changed: the page that failed may be one of its pages by now.
                    self._restart()
                return ()
            case "last row":
                self._judge_last_row(keys)
                return ()
        self.fitting = self.size
        page = Counter(keys)
        self._met.update(keys)
        self.longest = max(self.longest, min(len(keys), self.size))
        if not keys:
            self._meet_end()
        elif page == self.found.before and self._step == "second" and self.size < self._wanted:
            # Hidden rows in the first page can make this one equal. Only a page of the same size tells.
            self.size, self._step, self._short_at = self._wanted, "page", self._start
        elif page == self.found.before:
            self._see_again(keys)
        elif self._misses and self.found.holds(keys):
            if not self._restart():
                self._meet_end()
        elif self._is_next(page):
            return self._accept(rows, keys)
        return ()

    def fail(self, error: FreightExchangeError) -> bool:
        """Go on after an error in place of the page; `False` if the error is the caller's."""
        refused = error.status in REFUSALS
        if self._step in ("last row", "trial") and (refused or error.status == _FAILURE):
            if self._step == "trial":
                self._end_trial()
            else:
                self.number, self.size, self._step = self._return_to
        elif self.number == 0:
            return self._step_down(error)
        elif refused:
            self._meet_end()
        elif error.status == _FAILURE and self._step != "alive":
            self._fail_beyond()
        else:
            return False
        return True

    def _step_down(self, error: FreightExchangeError) -> bool:
        """Ask for a smaller first page where the service refuses the size, or may have failed over it."""
        refused = error.status in SIZE_REFUSALS
        if self._step == "page" and refused and self.size < self._wanted:
            # The size of a page that came short, which is none that this service takes.
            self._begin(self._wanted, "page", hidden=True)
            return True
        size = size_after(error, self.size)
        if self._step != "first" or size is None:
            return False
        # A size that failed may have met an outage: only a refusal is remembered.
        self._size_refused = refused
        self._wanted = size
        self._begin(size, "first")
        return True

    def _fail_beyond(self) -> None:
        """Count a page that fails as the end if it fails again after the first page came."""
        if self._fails_beyond_end or self._failed_at == self.number:
            self._fails_beyond_end = True
            self._meet_end()
            return
        self._failed_at = self.number
        self._return_to = (self.number, self.size, self._step)
        self.number, self._step = 0, "alive"

    def _is_next(self, page: Counter[Hashable]) -> bool:
        """Whether the page lies behind those before it; if not, another one is asked for."""
        rows = len(self.found.first)
        if self._past_short_first and 2 * rows >= self._wanted:
            # Rows far behind a short first page, and none right behind it. In its size no row is skipped.
            self._begin(rows, "page")
            return False
        self._past_short_first = False
        if self._step != "second":
            return True
        first = Counter(self.found.first)
        if not page & first:
            if self._further and self._suspected != rows:
                # Or the listing was short, and rows were added since. Its few rows would make many pages.
                self._suspected = rows
                if self._restart():
                    return False
            self._sizes.clamped(self._operation, rows)
        elif page <= first and 2 * rows < self._wanted:
            # It lies within the first page, so that one was not cut: most of its rows are hidden.
            self.size, self._step, self._cuts_excluded = self._wanted, "page", True
            return False
        else:
            self._begin(rows, "page")
            return False
        self._step = "page"
        return True

    def _accept(self, rows: RawPage[T], keys: list[Hashable]) -> tuple[T, ...]:
        self._sizes.saw(self._operation, len(keys))
        if self._size_refused and self._step == "first":
            self._size_refused = False
            self._sizes.refused(self._operation, self.size)
        idle = self.found.add(self.number, keys, rows.records)
        self._misses, self.repeated, self._undecided = 0, False, False
        fresh = self._seen.add(rows, keys)
        self._go_on(len(keys), idle=idle)
        return fresh

    def _go_on(self, rows: int, *, idle: bool) -> None:
        """Choose the page after one that was accepted."""
        if idle and self._idle:
            if not self._restart():
                self.uncertain = self.ended = True
            return
        self._idle = idle
        is_short, behind_short = rows < self.size, self._short_at == self.number - 1
        self.full = self.full and self._short_at is None
        self._short_at = self.number if is_short else None
        first, self._step = self._step == "first", "page"
        self.number += 1
        if first and rows > self.size:
            # The service has a page size of its own.
            self.size = rows
        elif first and is_short and self._start == 0:
            self.size = self.fitting = rows
            self._short_at = None
            self._step = "second"
        elif behind_short and not self._cuts_excluded:
            # Rows follow a short page: hidden rows made it short, or it was cut, and rows were skipped.
            self._cuts_excluded = True
            self._return_to = (self.number, self.size, "page")
            self.number, self.size, self._step = (self.number - 1) * self.size - 1, 1, "last row"

    def _judge_last_row(self, keys: list[Hashable]) -> None:
        self.number, self.size, self._step = self._return_to
        if len(keys) == 1 and keys[0] not in self.found.rows:
            self._restart()

    def _restart(self) -> bool:
        """Start again, as the service cuts pages otherwise than it did when the pass began; at most a few times."""
        if self._restarts == _MOST_RESTARTS:
            return False
        self._restarts += 1
        self._begin(self._wanted, "first")
        return True

    def _see_again(self, keys: list[Hashable]) -> None:
        second = self.number == self._start + 1
        self.repeated = self.repeated or second
        if (
            second
            and self._curious
            and not self._has_tried
            and self._start == 0
            and (trial := OffsetProbe.of(self.found.first))
        ):
            self._has_tried = True
            self._trial = trial
            self._return_to = (self.number, self.size, self._step)
            self.number, self.size, self._step = trial.number, trial.SIZE, "trial"
            return
        # Pages of rows that are all alike cannot be told from one that is repeated.
        self.uncertain = self.uncertain or (isinstance(keys[0], Alike) and 1 == len(set(keys)) < len(keys))
        self._meet_end()

    def _go_on_trying(self, keys: list[Hashable]) -> None:
        assert self._trial is not None
        self._trial.take(keys)
        self.number = self._trial.number
        if self._trial.offset_ignored:
            self.offset_ignored = self.uncertain = self.ended = True
        elif self._trial.ended:
            self._undecided = self._trial.undecided
            self._end_trial()

    def _end_trial(self) -> None:
        self._trial = None
        self.number, self.size, self._step = self._return_to
        self._meet_end()

    def _meet_end(self) -> None:
        """Count a sign of the end; ask for a page further on while fewer than enough of them were met."""
        self._misses += 1
        if self._misses > self._further:
            self.uncertain = self.uncertain or self._undecided
            self.ended = True
        elif self._step == "second":
            # A wholly hidden page would have been cut in the size that was wanted.
            self.size, self._step, self._past_short_first = self._wanted, "page", True
        else:
            self.number += 1
            self._step = "page"
