"""Feeds of events, pulled one by one or in batches, and acknowledged durably: options, status and explanations."""

from __future__ import annotations

import contextlib
import logging
import os
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Literal, Self, TypeVar

import anyio
import anyio.lowlevel
import attrs

from freight_exchange import validation
from freight_exchange.base import Serializable
from freight_exchange.errors import (
    READ_ERRORS,
    ConfigurationError,
    DeadlineExceededError,
    FencedError,
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
    StoredEvent,
    Unreadable,
    load_event,
    load_record,
)
from freight_exchange.feed.pace import Pace, Reports
from freight_exchange.feed.poller import ClientParts, Poller
from freight_exchange.feed.sources import Source, load_offer
from freight_exchange.feed.state import WIDEST
from freight_exchange.filters import OfferFilter, RequestFilter
from freight_exchange.models import RateRequest
from freight_exchange.options import DEFAULT_ALLOWANCE, DEFAULT_INTERVAL, flag
from freight_exchange.store import database, feeds, fleet

if TYPE_CHECKING:
    from freight_exchange.options import Start
    from freight_exchange.store import Store
    from freight_exchange.store.database import Database
    from freight_exchange.store.feeds import EventRow, Item

EventT = TypeVar("EventT", bound=Acknowledgeable)

_logger = logging.getLogger("freight_exchange.feed")

MIN_INTERVAL: Final = timedelta(seconds=1)
MIN_RETENTION: Final = timedelta(seconds=WIDEST + 86_400)
"""A day more than the service may list a request again for the same update."""

_DAY: Final = timedelta(days=1)
_LEASE: Final = 90.0
_BATCH: Final = 100
_BETWEEN_TRIES: Final = 1.0
_BINDING: Final = "feeds"
"""Name under which a store keeps the feeds of a program without a bot."""


@attrs.frozen(kw_only=True)
class WatchOptions:
    """Options of a feed of requests, or of a poller. `exchange.watch()` describes most of them.

    Attributes:
        where: A `RequestFilter`, or an `OfferFilter` for offers; `None` for all events.
        retention: Time for which the store keeps acknowledged events, and records that are no longer listed.
        lease: Seconds for which a page, or the wait for the next one, extends the lease of the feed.
    """

    name: str = "requests"
    start: Start = "now"
    interval: timedelta = DEFAULT_INTERVAL
    allowance: timedelta = DEFAULT_ALLOWANCE
    where: Any = None
    store: Store | str | os.PathLike[str] | None = None
    standby: bool = False
    retention: timedelta = MIN_RETENTION
    lease: float = _LEASE

    _filter: ClassVar[type[RequestFilter | OfferFilter]] = RequestFilter

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ConfigurationError(f"name must be a text that is not empty, not {self.name!r}")
        check_text(self.name, "name")
        if isinstance(self.start, timedelta) and self._filter is RequestFilter:
            if not timedelta(0) <= self.start <= validation.MAX_WINDOW:
                raise ConfigurationError(
                    f"start must be from zero to five days, which is all that the service lists, not {self.start}"
                )
        elif self.start not in ("now", "backfill"):
            choices = "'now', 'backfill' or a timedelta" if self._filter is RequestFilter else "'now' or 'backfill'"
            raise ConfigurationError(f"start must be {choices}, not {self.start!r}")
        _check_duration(self.interval, "interval")
        if self.interval < MIN_INTERVAL:
            raise ConfigurationError(f"interval must be at least one second, to spare the service, not {self.interval}")
        _check_duration(self.allowance, "allowance")
        flag(self.standby, "standby")
        if self.where is not None and not isinstance(self.where, self._filter):
            raise ConfigurationError(f"where must be {self._filter.__name__}(...), not {type(self.where).__name__}")
        database.as_store(self.store)


@attrs.frozen(kw_only=True)
class WatchOffersOptions(WatchOptions):
    """Options of a feed of offers. `exchange.watch_offers()` describes them."""

    _filter = OfferFilter


def check_text(text: str, name: str) -> None:
    """Check that a text can be stored as UTF-8; raise `ConfigurationError` otherwise."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ConfigurationError(
            f"{name} holds half a character (a lone surrogate), which cannot be kept: {text!r}"
        ) from None


def _check_duration(value: object, name: str) -> None:
    if not isinstance(value, timedelta) or value <= timedelta(0):
        raise ConfigurationError(f"{name} must be a timedelta of more than 0, not {value!r}")
    if value > _DAY:
        raise ConfigurationError(f"{name} must be at most {_DAY}, not {value}")


Phase = Literal["priming", "live", "catching-up", "backing-off", "stopped"]
"""State of a feed."""

Verdict = Literal["unseen", "unreadable", "baseline", "excluded", "waiting", "handed-out"]


@attrs.frozen(kw_only=True)
class ScanStatus(Serializable):
    """Fields that the statuses of all feeds have.

    Attributes:
        state: `priming` until the first scan is complete; `live`; `catching-up` after a restart, or after a scan that
            took longer than its window allowed for; `backing-off` while scans fail; `stopped`.
        cover_age: Time since the start of the last complete scan; `None` before the first. In a healthy feed it stays
            small. No update of before then was missed, except for those that the service shows later than `allowance`.
        last_success: When the last complete scan began, UTC.
        pages: Pages of the running or last scan.
        unacknowledged: Number of events that wait to be delivered or acknowledged.
        retry_in: Time until the next request after a failure: at least an interval, and at least `Retry-After`.
    """

    state: Phase
    cover_age: timedelta | None
    last_success: datetime | None
    pages: int
    unacknowledged: int
    retry_in: timedelta = timedelta(0)


@attrs.frozen(kw_only=True)
class FeedStatus(ScanStatus):
    """Status of a feed: the fields of `ScanStatus`, and these.

    Attributes:
        window: Window of the running or last scan.
        allowance: Time that the service may take to show an update.
        gaps: The gaps that are not acknowledged yet.
    """

    window: timedelta
    allowance: timedelta
    gaps: tuple[Gap, ...]


@attrs.frozen(kw_only=True)
class OfferFeedStatus(ScanStatus):
    """Status of a feed of offers: the fields of `ScanStatus`, and these.

    Attributes:
        requests: Number of your requests that the last scan has listed with offers.
        offers: Number of offers on them.
    """

    requests: int
    offers: int


@attrs.frozen(kw_only=True)
class Explanation(Serializable):
    """Explanation why a request was delivered or not; `str()` returns the sentence.

    Attributes:
        index: The request's identifier.
        verdict: `unseen`: no scan has seen it. `unreadable`: it is listed and cannot be read. `baseline`: it was listed
            when the feed began, and has not changed. `excluded`: the filter excludes it. `waiting`: its event waits to
            be pulled. `handed-out`: its last event was acknowledged.
        sentence: The verdict in words.
        first_seen: When a scan first saw it, UTC; `None` if none has.
        last_seen: When a scan or a look-up last saw it, or found it gone, UTC; `None` if that is unknown.
        events: The kinds of its events that the store still has, oldest first.
    """

    index: int
    verdict: Verdict
    sentence: str
    first_seen: datetime | None
    last_seen: datetime | None
    events: tuple[str, ...]

    def __str__(self) -> str:
        return self.sentence


def explain(
    index: int,
    what: str,
    item: Item | None,
    events: Sequence[EventRow],
    to_utc: Callable[[float], datetime],
    *,
    unseen: str,
    is_wanted: Callable[[StoredEvent], bool] = lambda event: True,
    excluded: str = "",
) -> Explanation:
    """Explain why something was delivered or not, by its item and its events in the store.

    `unseen` and `excluded` are the explanations if no scan has seen it, and if the filter excludes its last state.
    """
    kinds = tuple(event.kind.removeprefix("earlier:") for event in events)
    told = (row for row in events if not row.acked and row.kind != Unreadable.kind)
    waiting = next((row.kind for row in told if is_wanted(load_event(row.kind, row.payload))), None)
    verdict: Verdict
    if item is None and Unreadable.kind not in kinds:
        verdict, why = "unseen", unseen
    elif waiting is not None:
        verdict, why = "waiting", f"is {waiting}, and its event waits to be pulled or acknowledged"
    elif item is None or kinds[-1:] == (Unreadable.kind,):
        verdict, why = "unreadable", "is listed and cannot be read: an Unreadable event has the reason"
    elif excluded:
        verdict, why = "excluded", excluded
    elif item.version == 0 and not kinds:
        verdict, why = "baseline", "was listed when the feed began, which delivers later ones only, and has not changed"
    elif not kinds:
        verdict, why = "handed-out", "was handed out, or excluded by a filter, longer ago than events are kept"
    else:
        verdict, why = "handed-out", f"was handed out and acknowledged: the last event was {kinds[-1]!r}"
    return Explanation(
        index=index,
        verdict=verdict,
        sentence=f"{what} {why}",
        first_seen=None if item is None else to_utc(item.first_seen),
        # A tombstone has no time at which the request was last seen.
        last_seen=None if item is None or item.record is None else to_utc(item.last_seen),
        events=kinds,
    )


class EventStream(Generic[EventT]):
    """Base of feeds: events from a store, under a lease. When there are none left, a scan looks for more."""

    def __init__(self, source: Source, client: ClientParts, options: WatchOptions) -> None:
        self._source = source
        self._client = client
        self._options = options
        self._store = database.as_store(options.store)
        self._poller: Poller | None = None
        self._feed = 0
        self._is_open = self._is_pulled = self._is_waiting = False
        self._gaps: dict[int, Gap] = {}
        self._reset()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._options.name!r} of {self._client.base_url}>"

    def _reset(self) -> None:
        """Drop the events that were read and are not acknowledged: the next pull reads them again."""
        self._waiting: deque[EventRow] = deque()
        self._taken: set[int] = set()
        self._last_read = 0

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
            self._gaps.clear()
            self._note(await self._store.run(feeds.gaps, self._feed))
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._poller is None or not self._is_open:
            return
        self._is_open = False
        with anyio.CancelScope(shield=True):
            try:
                await self._poller.leave()
            finally:
                await self._store.__aexit__(None, None, None)

    async def _account(self) -> str:
        """Return the email of the account, and look up what the filter needs. While that fails, retry with backoff."""
        client, pace = self._client, Pace(1.0, Random())
        reports = Reports(client.hooks, name=self._options.name, url=client.base_url)
        while True:
            try:
                with anyio.move_on_after(client.account_timeout):
                    account = await client.account()
                    await self._source.prepare()
                    await reports.send_recovery()
                    return account.strip().casefold()
                raise DeadlineExceededError(f"no credentials were given within {client.account_timeout:g} s")
            except READ_ERRORS as error:
                if not is_transient(error):
                    raise
                await reports.send_error(error, pace.record_failure(anyio.current_time(), error))
            await anyio.sleep(pace.quiet_for)

    async def _take(self, account: str) -> int:
        """Open the store, take the lease, and return its epoch; with `standby`, wait while another process has it."""
        store, options = self._store, self._options
        binding = fleet.Binding(self._client.base_url, account, _BINDING)
        while True:
            try:
                async with contextlib.AsyncExitStack() as stack:
                    await stack.enter_async_context(store)
                    joined = await store.join(binding, lease=options.lease)
                    self._feed = await store.run(feeds.find_feed, joined.binding, options.name)
                    while True:
                        epoch = await store.run(fleet.take_feed, store.me, self._feed, lease=options.lease)
                        if epoch is not None:
                            stack.pop_all()
                            return epoch
                        holder = await store.run(feeds.holder_of, self._feed)
                        problem = f"the feed {options.name!r} in {store.place} is held by {holder}: stop that one first"
                        await self._stand_by(HeldError(problem, holder=holder))
                        await store.run(fleet.beat, store.me)
            except HeldError as error:
                await self._stand_by(error)
            except FencedError:
                # This machine has slept for longer than the lease.
                continue

    async def _stand_by(self, error: HeldError) -> None:
        if not self._options.standby:
            raise error
        if not self._is_waiting:
            _logger.info("the feed %r stands by: it is held by %s", self._options.name, error.holder)
            self._is_waiting = True
        await anyio.sleep(_BETWEEN_TRIES)

    # Events

    def __aiter__(self) -> Self:
        self._reset()
        return self

    async def __anext__(self) -> EventT:
        (event,) = await self._pull(1)
        return event

    def batches(self) -> AsyncIterator[tuple[EventT, ...]]:
        """Iterate over events in batches of up to a hundred.

        Pulling the next batch acknowledges the one before it, except for events that are acknowledged already.
        """
        self._reset()
        return _Batches(self)

    async def ack(self) -> None:
        """Acknowledge the delivered events without pulling more."""
        await self._acknowledge(self._taken)

    async def _pull(self, most: int) -> tuple[EventT, ...]:
        poller = self._opened()
        if self._is_pulled:
            raise ConfigurationError("this feed is being pulled by another task: give each task a feed of its own")
        self._is_pulled = True
        try:
            while True:
                # With a store that works in the event loop, a reader that only pulls could not be cancelled.
                await anyio.lowlevel.checkpoint()
                await self._acknowledge(self._taken)
                if events := self._deliver(most):
                    self._client.hooks.found(self._options.name, sorted(self._taken))
                    return events
                if not self._taken and not await self._load():
                    await poller.step()
        finally:
            self._is_pulled = False

    def _opened(self) -> Poller:
        if self._poller is None or not self._is_open:
            raise ConfigurationError("this feed is not open: use it inside `async with exchange.watch() as feed`")
        return self._poller

    def _is_wanted(self, event: Any) -> bool:
        raise NotImplementedError

    def _deliver(self, most: int) -> tuple[EventT, ...]:
        """Take up to `most` next events that pass the filter, and the others before them."""
        wanted: list[EventT] = []
        taken: list[int] = []
        filtered: list[int] = []
        for row in self._waiting:
            if len(wanted) == most:
                break
            event: Any = load_event(row.kind, row.payload)
            # The filter may be the user's own code. If it raises, nothing has been delivered yet.
            if self._is_wanted(event):
                object.__setattr__(event, "_acknowledge", partial(self._acknowledge, [*filtered, row.id]))
                wanted.append(event)
                filtered.clear()
            else:
                filtered.append(row.id)
            taken.append(row.id)
        for _ in taken:
            self._waiting.popleft()
        self._taken |= {*taken}
        return tuple(wanted)

    async def _load(self) -> bool:
        """Read more events from the store, and return whether events wait."""
        if not self._waiting:
            found = await self._store.run(feeds.events_after, self._feed, self._last_read, _BATCH)
            self._note(found)
            self._waiting.extend(found)
            self._last_read = found[-1].id if found else self._last_read
        return bool(self._waiting)

    async def _acknowledge(self, numbers: Iterable[int]) -> None:
        poller, done = self._opened(), {*numbers}
        if not done:
            return

        def acknowledge(db: Database) -> int:
            feeds.acknowledge(db, sorted(done))
            return feeds.count_open(db, self._feed)

        with anyio.CancelScope(shield=True):
            poller.open_events = await poller.hold(acknowledge)
        self._taken -= done
        # After a new loop it may wait again.
        self._waiting = deque(row for row in self._waiting if row.id not in done)
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
        item, where = items.get(str(index)), self._options.where
        unseen = (
            f"was in no scan: the scans cover updates before {poller.to_utc(poller.state.time):%Y-%m-%d %H:%M:%S} UTC,"
            f" and the service may show one up to {self._options.allowance.total_seconds():g} s late"
        )
        field = None
        if where is not None and item is not None and item.record is not None:
            field = where.excluded_by(load_record(item.record, RateRequest))
        return explain(
            index,
            f"request {index}",
            item,
            events,
            poller.to_utc,
            unseen=unseen,
            is_wanted=self._is_wanted,
            excluded="" if field is None else f"is excluded by the filter: {field}",
        )


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
        item, where = items.get(f"{request}:{offer}"), self._options.where

        def is_its(row: EventRow) -> bool:
            event = load_event(row.kind, row.payload)
            return isinstance(event, OfferEvent) and event.offer.id == offer

        excluded = ""
        if where is not None and item is not None and item.record is not None:
            excluded = "" if where.matches(*load_offer(item.record)) else "is excluded by the filter"
        return explain(
            request,
            f"offer {offer} on request {request}",
            item,
            [*filter(is_its, events)],
            poller.to_utc,
            unseen="was in no scan: the service has not listed it, or it cannot be read",
            is_wanted=self._is_wanted,
            excluded=excluded,
        )


class _Batches(AsyncIterator[tuple[EventT, ...]]):
    def __init__(self, feed: EventStream[EventT]) -> None:
        self._feed = feed

    def __aiter__(self) -> Self:
        self._feed._reset()
        return self

    async def __anext__(self) -> tuple[EventT, ...]:
        return await self._feed._pull(_BATCH)
