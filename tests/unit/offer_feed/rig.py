"""Rig of the tests of the offer feed: a small service with the account's requests, and a poller of it."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from random import Random
from typing import Any

import anyio
import anyio.lowlevel
import attrs

from freight_exchange.errors import DecodeError, FreightExchangeError, ServerError
from freight_exchange.feed.client_parts import ClientParts
from freight_exchange.feed.core.planning.pacer import Pacer
from freight_exchange.feed.core.watermark import MIN_RETENTION
from freight_exchange.feed.events import Unreadable
from freight_exchange.hooks import Event as HookEvent
from freight_exchange.hooks import Hooks
from freight_exchange.models import Listing, Offer, OfferStatus
from freight_exchange.offer_feed.events import OfferEvent, OfferFeedEvent
from freight_exchange.offer_feed.scanning.journal import OfferJournal
from freight_exchange.offer_feed.scanning.poller import OfferPoller
from freight_exchange.offer_feed.serialization import unpack
from freight_exchange.platform.clock import Reading
from freight_exchange.store import MemoryStore, Store
from freight_exchange.store.protocol import Binding
from freight_exchange.wire import Rows

BINDING = Binding("https://host/api", "me@co.example", "offers")
INTERVAL = 30.0


@attrs.define
class LoopClock:
    """Clock that follows the clock of the event loop."""

    run: str = "run"

    def read(self) -> Reading:
        now = anyio.current_time()
        return Reading(run=self.run, loop=now, boot_id="boot", boot=now, wall=1.7e9 + now)


@attrs.define
class OfferService:
    """Service that lists the account's requests with their offers, newest first, and answers with due faults.

    Attributes:
        clamp: Maximum number of rows in a page.
        faults: Faults of the next pages; `None` is a good page.
        lookup_faults: The same for look-ups.
        unfindable: Requests whose look-ups fail.
        view: Makes the reply to a look-up from a request, or none.
        flaws: Unreadable offers, in every page.
        hidden: Requests that listings leave out, and look-ups find.
        shadows: Rows of others before the last own request: pages are cut first, and hide them then.
        pages: The pages asked for: number and rows.
        lookups: The indexes looked up.
        requests: The offers of each request, by their identifiers.
        selected: The approved offer of each request.
    """

    clamp: int = 10_000
    faults: list[FreightExchangeError | None] = attrs.field(factory=list)
    lookup_faults: list[FreightExchangeError | None] = attrs.field(factory=list)
    unfindable: set[int] = attrs.field(factory=set)
    view: Callable[[Listing], Listing | None] = lambda listing: listing
    flaws: tuple[DecodeError, ...] = ()
    hidden: set[int] = attrs.field(factory=set)
    shadows: int = 0
    pages: list[tuple[int, int]] = attrs.field(factory=list)
    lookups: list[int] = attrs.field(factory=list)
    requests: dict[int, dict[int, Offer]] = attrs.field(factory=dict)
    selected: dict[int, int] = attrs.field(factory=dict)

    def publish(self, *indexes: int) -> None:
        for index in indexes:
            self.requests.setdefault(index, {})

    def offer(self, request: int, number: int, amount: int = 100, **fields: Any) -> None:
        """Make an offer, or replace it."""
        details: dict[str, Any] = {"currency": 1, "status": OfferStatus.PENDING} | fields
        self.requests[request][number] = Offer(id=number, amount=Decimal(amount), **details)

    def approve(self, request: int, number: int) -> None:
        offer = self.requests[request][number]
        self.requests[request][number] = attrs.evolve(offer, status=OfferStatus.SELECTED)
        self.selected[request] = number

    def listing(self, index: int) -> Listing:
        offers, chosen = self.requests[index], self.selected.get(index)
        if chosen is not None:
            # The service lists the selected offer alone.
            return Listing(index=index, offers=(offers[chosen],))
        return Listing(index=index, origin="Oslo", offers=tuple(offers.values()))

    async def page(self, number: int, rows: int) -> Rows[Listing]:
        self.pages.append((number, rows))
        await anyio.lowlevel.checkpoint()
        if (fault := self.faults.pop(0) if self.faults else None) is not None:
            raise fault
        size = min(rows, self.clamp)
        listed = [index for index in sorted(self.requests, reverse=True) if index not in self.hidden]
        table = [*listed[:-1], *[0] * self.shadows, *listed[-1:]]
        found = table[number * size : (number + 1) * size]
        return Rows(tuple(self.listing(index) for index in found if index), (), self.flaws)

    async def find(self, index: int) -> Listing | None:
        self.lookups.append(index)
        await anyio.lowlevel.checkpoint()
        if (fault := self.lookup_faults.pop(0) if self.lookup_faults else None) is not None:
            raise fault
        if index in self.unfindable:
            raise ServerError("down", status=503)
        return self.view(self.listing(index)) if index in self.requests else None


async def _account() -> str:
    return BINDING.account


class OfferRig:
    """Poller of a service, on a store; `again()` is the next run on the same store."""

    def __init__(self, service: OfferService, *, store: Store | None = None, is_silent: bool = False) -> None:
        self.service = service
        self.store: Store = MemoryStore() if store is None else store
        self.clock = LoopClock()
        self.reported: list[HookEvent] = []
        self.feed_store = self.store.open(BINDING, lease=60.0)
        self.journal = OfferJournal(
            self.feed_store, self._run, is_silent=is_silent, now=self.clock.read(), retention=MIN_RETENTION
        )
        pacer = Pacer(INTERVAL, Random(7))
        client = ClientParts(
            base_url=BINDING.base_url,
            account=_account,
            account_timeout=60.0,
            clock=self.clock,
            hooks=Hooks((self.reported.append,)),
        )
        self.poller = OfferPoller(service, self.journal, client, pacer, name="offers")

    @staticmethod
    async def _run(work: Callable[[], Any]) -> Any:
        return work()

    async def start(self) -> None:
        await self.journal.load()
        await self.poller.prime()

    async def restart(self) -> OfferRig:
        self.feed_store.release()
        next_run = OfferRig(self.service, store=self.store)
        await next_run.start()
        return next_run

    async def scan(self, count: int = 1) -> None:
        for _ in range(count):
            await self.poller.scan()

    @property
    def events(self) -> list[OfferFeedEvent]:
        """Return all events that wait for delivery."""
        return [unpack(stored.kind, stored.payload) for stored in self.feed_store.pending(limit=10_000)]

    @property
    def event_keys(self) -> list[tuple[str, int, int | None]]:
        """Return kind, request and offer of each event."""
        found: list[tuple[str, int, int | None]] = []
        for event in self.events:
            if isinstance(event, OfferEvent):
                found.append((event.kind, event.request, event.offer.id))
            elif isinstance(event, Unreadable):
                found.append((event.kind, event.index or 0, None))
        return found


async def rig_with(*offers: tuple[int, int], service: OfferService | None = None, is_silent: bool = False) -> OfferRig:
    """Start a poller of a service with these offers, each on its request."""
    service = OfferService() if service is None else service
    for request, number in offers:
        service.publish(request)
        service.offer(request, number)
    rig = OfferRig(service, is_silent=is_silent)
    await rig.start()
    return rig
