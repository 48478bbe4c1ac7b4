"""Term of a replica: the right to scan, and the work that comes with it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import anyio

from freight_exchange.bot.delivery.routing import Routing
from freight_exchange.bot.events.offer_events import OfferEvents
from freight_exchange.bot.events.selected_bids import SelectedBids
from freight_exchange.bot.runtime.fleet.follower_login import log_in
from freight_exchange.bot.runtime.fleet.membership import TermHeldError
from freight_exchange.bot.tasks import flatten, unwrap_errors
from freight_exchange.errors import ConfigurationError, LoginRejectedError

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from freight_exchange.bot.handlers.handler import Handler
    from freight_exchange.bot.metrics.metrics import Metrics
    from freight_exchange.bot.runtime.fleet.membership import Membership
    from freight_exchange.bot.runtime.options import BotOptions
    from freight_exchange.bot.unit_of_work import UnitOfWork
    from freight_exchange.client import FreightExchange
    from freight_exchange.feed.feed import Feed
    from freight_exchange.offer_feed.feed import OfferFeed

__all__ = ["Term", "join"]

_logger = logging.getLogger("freight_exchange.bot")

_POLL_INTERVAL: Final = 1.0
_CLAIM_PAUSE: Final = 0.1
"""Seconds from a notification until a replica asks for the term, in favour of claims: most notifications are of
deliveries, and a claim must not wait for that question."""
_TRIAL_INTERVALS: Final = 3
"""Intervals that a replica has for its scans after it took the term, before failures count."""
_HAND_OVER_PAUSE: Final = 5.0
"""Seconds that a replica whose scans fail leaves the term to others before it tries to take it again."""


async def join(feed: Feed, membership: Membership, exchange: FreightExchange, interval: timedelta) -> bool:
    """Take a seat and, unless another replica has the term, enter the feed; return whether it was entered.

    The first page may take longer than a lease, which is renewed meanwhile. If it cannot be read, other replicas try.
    Without the term, the replica only logs in. Until it can, it enters the feed once the term is free, and keeps no
    replica of an older version from it.
    """
    has_term = False
    with unwrap_errors():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(membership.keep_lease)
            has_term = await _enter_or_log_in(feed, membership, exchange, interval.total_seconds(), tasks)
            tasks.cancel_scope.cancel()
    return has_term


async def _enter_or_log_in(
    feed: Feed, membership: Membership, exchange: FreightExchange, interval: float, tasks: TaskGroup
) -> bool:
    """Enter the feed, or log in while another replica has the term; return whether the feed was entered."""
    logs_in = follows = False
    logged_in = anyio.Event()

    async def log_in_as_follower() -> None:
        await log_in(exchange)
        await membership.announce()
        logged_in.set()

    while True:
        try:
            if await _try_to_enter(feed, membership, interval):
                return True
        except TermHeldError as error:
            if not logs_in:
                logs_in = True
                tasks.start_soon(log_in_as_follower)
            if error.feed_state is None:
                # Until the other replica commits its first page, the store has no deliveries and no feed time.
                await anyio.sleep(_POLL_INTERVAL)
                continue
            feed.follow(error.feed_state)
            if not follows:
                follows = True
                _logger.info("this replica handles deliveries but does not scan: %s", error)
            with anyio.move_on_after(_POLL_INTERVAL):
                await logged_in.wait()
                return False
        else:
            _logger.warning(
                "the first scan of this replica failed, perhaps because of this machine; another replica takes over"
                " scanning"
            )
            await anyio.sleep(_HAND_OVER_PAUSE)


async def _try_to_enter(feed: Feed, membership: Membership, interval: float) -> bool:
    """Enter the feed, and return whether that was possible; `False` after failures while another replica lives.

    Raises:
        TermHeldError: Another replica has the term.
    """
    is_entered = False
    held: TermHeldError | None = None

    async def await_failure() -> None:
        await anyio.sleep(_TRIAL_INTERVALS * interval)
        while True:
            if _waits_after_failure(feed) and await membership.has_peer():
                tasks.cancel_scope.cancel()
                return
            await anyio.sleep(interval / 2)

    with unwrap_errors():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(await_failure)
            try:
                await feed.__aenter__()
                is_entered = True
            except TermHeldError as error:
                # Raised below: on trio the group would combine it with a cancellation by a stop.
                held = error
            tasks.cancel_scope.cancel()
    if held is not None:
        raise held
    return is_entered


def _waits_after_failure(feed: Feed) -> bool:
    """Return whether a feed waits to repeat a failed request, which takes an interval or more."""
    try:
        return bool(feed.status().retry_in)
    except ConfigurationError:
        # It reads nothing yet: it may stand by, or log in.
        return False


class Term:
    """Term of a replica.

    Args:
        feed: The feed, entered while the replica has the term.
        membership: Seat of the bot in its store.
        exchange: The client.
        unit_of_work: Stores events and their deliveries, under the term.
        handlers: Handlers of the bot.
        metrics: Counts events.
        options: Options of the bot.
        offer_feed: The feed of offers, if the bot has a handler of offers.
        wake: Called when a delivery may be due.
        on_rejection: Called when the service rejects the login.
        is_failing: Returns whether scans have failed for long.
    """

    def __init__(
        self,
        feed: Feed,
        membership: Membership,
        exchange: FreightExchange,
        unit_of_work: UnitOfWork,
        handlers: Collection[Handler],
        metrics: Metrics,
        options: BotOptions,
        offer_feed: OfferFeed | None,
        *,
        wake: Callable[[], None],
        on_rejection: Callable[[LoginRejectedError], None],
        is_failing: Callable[[], bool],
    ) -> None:
        self._feed = feed
        self._membership = membership
        self._routing = Routing(feed, unit_of_work, handlers, metrics, wake)
        pace = options.selection_interval.total_seconds()
        self._selections = SelectedBids(exchange, unit_of_work, self._routing, handlers, wake, pace=pace)
        self._offers = None
        if offer_feed is not None:
            self._offers = OfferEvents(offer_feed, unit_of_work, handlers, metrics, wake)
        self._backfill = options.start == "backfill"
        self._on_rejection = on_rejection
        self._is_failing = is_failing
        self._interval = options.interval.total_seconds()
        self._is_handed_over = False
        self._scope = anyio.CancelScope()

    async def introduce_selections(self) -> None:
        """Record when the bot first had a handler of selections. This comes before the first offer of the bot."""
        await self._selections.introduce(backfill=self._backfill)

    async def introduce_handlers(self) -> None:
        """Backfill new handlers."""
        await self._routing.introduce_handlers()

    async def run(self, *, is_entered: bool) -> None:
        """Receive events while the replica has the term, and wait for it otherwise, until `end`.

        Args:
            is_entered: Whether the feed is entered and the handlers are introduced.
        """
        with self._scope:
            try:
                while True:
                    if not is_entered:
                        await self._enter()
                        await self.introduce_selections()
                        await self.introduce_handlers()
                    await self._receive()
                    await self._feed.__aexit__(None, None, None)
                    is_entered = False
                    if not self._is_handed_over:
                        _logger.info(
                            "a newer version of the bot scans from now on; this replica keeps handling deliveries"
                        )
                        continue
                    _logger.warning(
                        "the scans of this replica fail, perhaps because of this machine; another replica scans from"
                        " now on, and this replica keeps handling deliveries"
                    )
                    await anyio.sleep(_HAND_OVER_PAUSE)
            except* LoginRejectedError as group:
                self._on_rejection(next(error for error in flatten(group) if isinstance(error, LoginRejectedError)))
        # Another replica may scan from now on, while this one drains.
        await self._feed.__aexit__(None, None, None)

    def end(self) -> None:
        """Give the term back, or wait for it no longer."""
        self._scope.cancel()

    async def _receive(self) -> None:
        """Receive events until a newer version of the bot should have the term, or scans fail."""
        self._is_handed_over = False
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._routing.run)
            if self._routing.selection_handlers():
                tasks.start_soon(self._selections.run)
            if self._offers is not None:
                tasks.start_soon(self._offers.run)
            tasks.start_soon(self._await_failure, tasks.cancel_scope)
            await self._membership.wait_newer()
            tasks.cancel_scope.cancel()

    async def _await_failure(self, scope: anyio.CancelScope) -> None:
        """Hand the term over once scans have failed for long. A replica that has just taken it may try first."""
        await anyio.sleep(_TRIAL_INTERVALS * self._interval)
        while True:
            if self._is_failing() and await self._membership.has_peer():
                self._is_handed_over = True
                scope.cancel()
                return
            await anyio.sleep(self._interval)

    async def _enter(self) -> None:
        while True:
            notified = self._membership.notified
            try:
                await self._feed.__aenter__()
            except TermHeldError as error:
                if error.feed_state is not None:
                    self._feed.follow(error.feed_state)
                # A replica that gives the term back notifies the others; one that dies does not.
                with anyio.move_on_after(_POLL_INTERVAL):
                    await notified.wait()
                    await anyio.sleep(_CLAIM_PAUSE)
            else:
                _logger.info("scanning from now on")
                return
