"""Feeds of events, pulled one by one or in batches, and acknowledged durably."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeVar

import anyio
import anyio.lowlevel

from freight_exchange import validation
from freight_exchange.errors import (
    READ_ERRORS,
    ConfigurationError,
    DeadlineExceededError,
    HeldError,
    is_transient,
)
from freight_exchange.feed.events import (
    Acknowledgeable,
    Event,
    Gap,
    OfferEvent,
    OfferFeedEvent,
    RequestEvent,
    acknowledgeable,
    load_event,
)
from freight_exchange.feed.options import WatchOptions
from freight_exchange.feed.pace import Reports
from freight_exchange.feed.poller import ClientParts, Poller
from freight_exchange.feed.sources import Source
from freight_exchange.feed.status import (
    Explanation,
    FeedStatus,
    OfferFeedStatus,
    explain_offer,
    explain_request,
)
from freight_exchange.store import database, feeds, fleet

if TYPE_CHECKING:
    from freight_exchange.store.feeds import EventRow

EventT = TypeVar("EventT", bound=Acknowledgeable)

_logger = logging.getLogger("freight_exchange.feed")

_BATCH: Final = 100
_BETWEEN_TRIES: Final = 1.0
_LONGEST_BACKOFF: Final = 20.0
_BINDING: Final = "feeds"
"""Name under which a store keeps the feeds of a program without a bot."""


class EventStream(Generic[EventT]):
    """Base of feeds: events from a store, under a lease. When there are none left, a scan looks for more."""

    def __init__(self, source: Source, client: ClientParts, options: WatchOptions) -> None:
        self._source = source
        self._client = client
        self._options = options
        self._store = database.as_store(options.store)
        self._poller: Poller | None = None
        self._feed = 0
        self._is_open = self._is_pulled = False
        self._reset()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._options.name!r} of {self._client.base_url}>"

    def _reset(self) -> None:
        """Drop the events that were read; the next pull reads them again."""
        self._waiting: deque[EventRow] = deque()
        self._delivered: dict[int, EventRow] = {}
        self._filtered: list[int] = []
        self._last_read = 0
        self._is_uncertain = False

    # Start and end

    async def __aenter__(self) -> Self:
        if self._is_open:
            raise ConfigurationError("this feed is already entered: make another with exchange.watch()")
        self._reset()
        epoch = await self._take(await self._account())
        self._poller = Poller(self._source, self._store, self._feed, self._options, self._client)
        self._is_open = True
        try:
            await self._poller.enter(epoch)
            self._gaps: dict[int, Gap] = {}
            self._note(await self._store.run(feeds.gaps, self._feed))
            await self._load()
        except BaseException:
            await self._release()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._release()

    async def _account(self) -> str:
        """Return the email of the feed's account. While the credentials cannot be read, retry with backoff."""
        client, pause = self._client, 1.0
        reports = Reports(client.hooks, name=self._options.name, url=client.base_url)
        while True:
            try:
                with anyio.move_on_after(client.account_timeout):
                    account = await client.account()
                    await reports.send_recovery()
                    return account.strip().casefold()
                raise DeadlineExceededError(f"no credentials were given within {client.account_timeout:g} s")
            except READ_ERRORS as error:
                if not is_transient(error):
                    raise
                await reports.send_error(error, pause)
            await anyio.sleep(pause)
            pause = min(_LONGEST_BACKOFF, 2 * pause)

    async def _take(self, account: str) -> int:
        """Open the store, take the lease, and return its epoch; with `standby`, wait while another process has it."""
        is_waiting = False
        while True:
            try:
                return await self._try_to_take(account)
            except HeldError as error:
                if not self._options.standby:
                    raise
                if not is_waiting:
                    _logger.info("the feed %r stands by: it is held by %s", self._options.name, error.holder)
                    is_waiting = True
            await anyio.sleep(_BETWEEN_TRIES)

    async def _try_to_take(self, account: str) -> int:
        store, options = self._store, self._options
        await store.__aenter__()
        try:
            binding = fleet.Binding(self._client.base_url, account, _BINDING)
            joined = await store.join(binding, lease=options.lease)
            self._feed = await store.run(feeds.find_feed, joined.binding, options.name)
            epoch = await store.run(fleet.take_feed, store.me, self._feed, lease=options.lease)
            if epoch is None:
                holder = await store.run(feeds.holder_of, self._feed)
                problem = f"the feed {options.name!r} in {store.place} is held by {holder}: stop that one first"
                raise HeldError(problem, holder=holder)
        except BaseException:
            await store.__aexit__(None, None, None)
            raise
        return epoch

    async def _release(self) -> None:
        if self._poller is None or not self._is_open:
            return
        self._is_open = False
        with anyio.CancelScope(shield=True):
            try:
                await self._poller.leave()
            finally:
                await self._store.__aexit__(None, None, None)

    # Events

    def __aiter__(self) -> Self:
        self._requeue()
        return self

    async def __anext__(self) -> EventT:
        (event,) = await self._pull(1)
        return event

    def batches(self) -> AsyncIterator[tuple[EventT, ...]]:
        """Iterate over events in batches of up to a hundred.

        Pulling the next batch acknowledges the one before it, except for events that are acknowledged already.
        """
        self._requeue()
        return _Batches(partial(self._pull, _BATCH), self._requeue)

    async def ack(self) -> None:
        """Acknowledge the delivered events without pulling more."""
        await self._acknowledge([*self._delivered])

    async def _pull(self, most: int) -> tuple[EventT, ...]:
        poller = self._opened()
        if self._is_pulled:
            raise ConfigurationError("this feed is being pulled by another task: give each task a feed of its own")
        self._is_pulled = True
        try:
            # With a store that works in the event loop, a reader that only pulls could not be cancelled.
            await anyio.lowlevel.checkpoint()
            await self._acknowledge([*self._delivered])
            while True:
                if events := self._deliver(most):
                    self._client.hooks.found(self._options.name, [*self._delivered])
                    return events
                if self._filtered:
                    await self._acknowledge([])
                if not await self._load():
                    await poller.step()
                    await self._load()
                await anyio.lowlevel.checkpoint()
        finally:
            self._is_pulled = False

    def _opened(self) -> Poller:
        if self._poller is None or not self._is_open:
            raise ConfigurationError("this feed is not open: use it inside `async with exchange.watch() as feed`")
        return self._poller

    def _requeue(self) -> None:
        """Put delivered events that are not acknowledged back in the queue."""
        if self._is_uncertain:
            # An acknowledgement failed, and may have been committed: only a read shows what remains.
            self._reset()
        self._waiting.extendleft(reversed(self._delivered.values()))
        self._delivered.clear()

    def _is_wanted(self, event: Any) -> bool:
        raise NotImplementedError

    def _deliver(self, most: int) -> tuple[EventT, ...]:
        """Return up to `most` next events that pass the filter."""
        wanted: dict[int, EventT] = {}
        filtered: list[int] = []
        for row in self._waiting:
            if len(wanted) == most:
                break
            event: Any = load_event(row.kind, row.payload)
            # The filter may be the user's own code. If it raises, nothing has been delivered yet.
            if self._is_wanted(event):
                wanted[row.id] = acknowledgeable(event, partial(self._acknowledge, [row.id]))
            else:
                filtered.append(row.id)
        for _ in range(len(wanted) + len(filtered)):
            row = self._waiting.popleft()
            if row.id in wanted:
                self._delivered[row.id] = row
        self._filtered += filtered
        return tuple(wanted.values())

    async def _load(self) -> bool:
        """Read more events from the store, and return whether events wait."""
        if not self._waiting:
            found = await self._store.run(feeds.events_after, self._feed, self._last_read, _BATCH)
            self._note(found)
            self._waiting.extend(found)
            self._last_read = found[-1].id if found else self._last_read
        return bool(self._waiting)

    async def _acknowledge(self, numbers: Iterable[int]) -> None:
        """Acknowledge events, and those that the filter excluded."""
        poller, done = self._opened(), {*self._filtered, *numbers}
        if not done:
            return
        with anyio.CancelScope(shield=True):
            try:
                poller.open_events = await poller.hold(lambda db: feeds.acknowledge(db, self._feed, sorted(done)))
            except BaseException:
                self._is_uncertain = True
                raise
        requeued = done - self._delivered.keys()
        for number in done:
            self._delivered.pop(number, None)
        if requeued:
            self._waiting = deque(row for row in self._waiting if row.id not in requeued)
        # The filter may have excluded more events during the write.
        self._filtered = [number for number in self._filtered if number not in done]
        for number in done:
            self._gaps.pop(number, None)

    def _note(self, rows: Iterable[EventRow]) -> None:
        loaded = ((row.id, load_event(row.kind, row.payload)) for row in rows if row.kind == Gap.kind)
        self._gaps |= {number: gap for number, gap in loaded if isinstance(gap, Gap)}

    def _entered(self) -> Poller:
        if self._poller is None:
            raise ConfigurationError("this feed has not been entered: use `async with exchange.watch() as feed`")
        return self._poller


class Feed(EventStream[Event]):
    """Events of rate requests: `async for event in feed`. Made by `exchange.watch()`.

    Entering it reads all that is listed, unless an earlier run has. A wrong URL, an invalid certificate or a rejected
    login is raised. Transient errors never end a feed: `status()` and the hooks report them. A rejected login ends it.

    Pulling the next event acknowledges the one before it, durably. Leaving the loop does not: the last event is
    delivered again, also after a restart. Scans run only while an event is awaited. After a slow reader, the next scan
    looks further back.
    """

    def _is_wanted(self, event: Any) -> bool:
        where = self._options.where
        return where is None or not isinstance(event, RequestEvent) or where.matches(event.request)

    async def acknowledge_gaps(self) -> int:
        """Acknowledge all gaps, including those not delivered yet; return their number."""
        numbers = [*self._gaps]
        await self._acknowledge(numbers)
        return len(numbers)

    def status(self) -> FeedStatus:
        """Return the status of the feed."""
        poller = self._entered()
        return FeedStatus(
            window=timedelta(seconds=poller.window),
            allowance=self._options.allowance,
            gaps=tuple(self._gaps.values()),
            **poller.status(poller.open_events),
        )

    async def explain(self, index: int) -> Explanation:
        """Explain why a request was delivered, or was not yet.

        Raises:
            ConfigurationError: The feed is not open.
            ValidationError: The index is not a positive integer.
        """
        index = validation.identifier(index, "index")
        poller = self._opened()
        items, events = await self._store.run(feeds.history, self._feed, index)
        unseen = (
            f"was in no scan: the scans cover updates before {poller.to_utc(poller.state.time):%Y-%m-%d %H:%M:%S} UTC,"
            f" and the service may show one up to {self._options.allowance.total_seconds():g} s late"
        )
        item = items.get(str(index))
        return explain_request(index, item, events, poller.to_utc, self._options.where, unseen)


class OfferFeed(EventStream[OfferFeedEvent]):
    """Events of offers on your requests: `async for event in feed`. Made by `exchange.watch_offers()`.

    It is entered and read like `Feed`. An offer is gone if a complete scan and then a look-up of its request lack it,
    while another look-up shows what the scan has listed. If a scan lacks many known offers, none counts as
    gone for an hour.
    """

    def _is_wanted(self, event: Any) -> bool:
        where = self._options.where
        return where is None or not isinstance(event, OfferEvent) or where.matches(event.offer, event.listing)

    def status(self) -> OfferFeedStatus:
        """Return the status of the feed."""
        poller = self._entered()
        common = poller.status(poller.open_events)
        return OfferFeedStatus(requests=poller.subjects, offers=poller.items, **common)

    async def explain(self, request: int, offer: int) -> Explanation:
        """Explain why an offer was delivered or not; `Explanation.index` is that of its request.

        Raises:
            ConfigurationError: The feed is not open.
            ValidationError: An argument is not a positive integer.
        """
        request, offer = validation.identifier(request, "request"), validation.identifier(offer, "offer")
        poller = self._opened()
        items, events = await self._store.run(feeds.history, self._feed, request)
        item = items.get(f"{request}:{offer}")
        return explain_offer(request, offer, item, events, poller.to_utc, self._options.where)


class _Batches(AsyncIterator[tuple[EventT, ...]]):
    def __init__(self, pull: Callable[[], Awaitable[tuple[EventT, ...]]], requeue: Callable[[], None]) -> None:
        self._pull = pull
        self._requeue = requeue

    def __aiter__(self) -> Self:
        self._requeue()
        return self

    async def __anext__(self) -> tuple[EventT, ...]:
        return await self._pull()
