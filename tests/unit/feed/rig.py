"""Rig of the tests of the feed: a small service that lists recent updates, and a watcher of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import anyio
import attrs

from freight_exchange.errors import FreightExchangeError
from freight_exchange.feed.client_parts import ClientParts
from freight_exchange.feed.core.planning.pacer import Pacer
from freight_exchange.feed.core.watermark import MIN_RETENTION
from freight_exchange.feed.events import Event, RequestEvent
from freight_exchange.feed.scanning.journal import ScanJournal
from freight_exchange.feed.scanning.poller import Poller
from freight_exchange.feed.serialization import unpack
from freight_exchange.hooks import Event as HookEvent
from freight_exchange.hooks import Hooks, Scan
from freight_exchange.models import RateRequest
from freight_exchange.options import Start
from freight_exchange.platform.clock import Reading
from freight_exchange.store import MemoryStore, Store
from freight_exchange.store.protocol import Binding, TrackedRequest
from freight_exchange.wire import Rows

BINDING = Binding("https://host/api", "me@co.example", "requests")
HOUR, DAY = 3600.0, 86_400.0


@attrs.define
class HandClock:
    """Clocks that follow the loop's clock; a test may set the wall clock, or let the machine sleep."""

    run: str = "run"
    boot_id: str = "boot"
    asleep: float = 0.0
    wall: float = 1.7e9

    def read(self) -> Reading:
        now = anyio.current_time()
        return Reading(
            run=self.run,
            loop=now,
            boot_id=self.boot_id,
            boot=now + self.asleep,
            wall=self.wall + now + self.asleep,
        )


@attrs.define
class Listed:
    """Request that the service lists."""

    record: RateRequest
    updated: float
    visible_from: float


@attrs.define
class Service:
    """Service that lists the requests of a window, newest first, and answers with a fault when one is due.

    Attributes:
        clamp: Maximum number of rows in a page.
        latency: Seconds that a page takes.
        late: Seconds until a change shows.
        broken: Rows that cannot be read, in every page 0.
        faults: Faults of the next pages; `None` is a good page.
        on_page: Called when a page was answered, with its number.
        pages: The pages asked for: number, rows, window.
        lookups: The indexes looked up.
    """

    clamp: int = 10_000
    latency: float = 0.0
    late: float = 0.0
    asleep: float = 0.0
    broken: tuple[Any, ...] = ()
    faults: list[FreightExchangeError | None] = attrs.field(factory=list)
    lookup_faults: list[FreightExchangeError | None] = attrs.field(factory=list)
    on_page: Callable[[int], None] = lambda number: None
    pages: list[tuple[int, int, int]] = attrs.field(factory=list)
    lookups: list[int] = attrs.field(factory=list)
    requests: dict[int, Listed] = attrs.field(factory=dict)

    def now(self) -> float:
        return anyio.current_time() + self.asleep

    def publish(self, *indexes: int, age: float = 0.0, **fields: Any) -> None:
        """Publish requests, or replace them."""
        for index in indexes:
            record = RateRequest(index=index, **({"origin": "Oslo"} | fields))
            self.requests[index] = Listed(record, self.now() - age, self.now() - age + self.late)

    def touch(self, index: int) -> None:
        self.requests[index].updated = self.requests[index].visible_from = self.now()

    def withdraw(self, *indexes: int) -> None:
        for index in indexes:
            del self.requests[index]

    @property
    def windows(self) -> list[int]:
        """Return the windows of the scans, as their first pages requested them."""
        return [window for number, _, window in self.pages if number == 0]

    async def page(self, number: int, rows: int, window: int) -> Rows[RateRequest]:
        self.pages.append((number, rows, window))
        fault = self.faults.pop(0) if self.faults else None
        await anyio.sleep(self.latency)
        if fault is not None:
            raise fault
        now, size = self.now(), min(rows, self.clamp)
        listed = [row for row in self.requests.values() if row.updated >= now - window and row.visible_from <= now]
        listed.sort(key=lambda row: (row.updated, row.record.index), reverse=True)
        found = tuple(row.record for row in listed[number * size : (number + 1) * size])
        self.on_page(number)
        return Rows(found, self.broken if number == 0 else ())

    async def find(self, index: int) -> RateRequest | None:
        self.lookups.append(index)
        fault = self.lookup_faults.pop(0) if self.lookup_faults else None
        await anyio.sleep(self.latency)
        if fault is not None:
            raise fault
        return self.requests[index].record if index in self.requests else None


@attrs.define
class Hiding(Service):
    """Service that omits the hidden requests from listings, and finds them in look-ups."""

    hidden: frozenset[int] = frozenset()

    async def page(self, number: int, rows: int, window: int) -> Rows[RateRequest]:
        page = await Service.page(self, number, rows, window)
        return Rows(tuple(record for record in page.records if record.index not in self.hidden), ())


@attrs.define
class Partial(Hiding):
    """Service that omits the hidden requests from listings and look-ups."""

    async def find(self, index: int) -> RateRequest | None:
        found = await Service.find(self, index)
        return None if index in self.hidden else found


async def _account() -> str:
    return BINDING.account


class Rig:
    """Watcher of a service on a store; `restart()` begins the next run on the same store."""

    def __init__(
        self,
        service: Service,
        *,
        store: Store | None = None,
        clock: HandClock | None = None,
        start: Start = "now",
        interval: float = 30.0,
        allowance: float = 60.0,
    ) -> None:
        self.service = service
        self.store: Store = MemoryStore() if store is None else store
        self.clock = HandClock() if clock is None else clock
        self.reported: list[HookEvent] = []
        self._options: dict[str, Any] = {"start": start, "interval": interval, "allowance": allowance}
        self.feed_store = self.store.open(BINDING, lease=60.0)
        self.journal = ScanJournal(
            self.feed_store,
            self._run,
            start=start,
            allowance=allowance,
            now=self.clock.read(),
            retention=MIN_RETENTION,
        )
        client = ClientParts(
            base_url=BINDING.base_url,
            account=_account,
            account_timeout=60.0,
            clock=self.clock,
            hooks=Hooks((self.reported.append,)),
        )
        pacer = Pacer(interval, Random(7))
        self.poller = Poller(service, self.journal, client, pacer, name="requests", start=start)

    @staticmethod
    async def _run(work: Callable[[], Any]) -> Any:
        return work()

    def restart(self, *, run: str = "next run") -> Rig:
        self.feed_store.release()
        return Rig(self.service, store=self.store, clock=attrs.evolve(self.clock, run=run), **self._options)

    async def prime(self) -> None:
        """Scan until the first scan is complete and has decided about all its requests."""
        await self.poller.prime()
        while not self.journal.state.is_primed:
            await self.poller.scan()

    async def scan(self, count: int = 1) -> None:
        for _ in range(count):
            await self.poller.scan()

    async def scan_for(self, seconds: float) -> None:
        """Scan until this time has passed, and complete the last scan."""
        until = anyio.current_time() + seconds
        while anyio.current_time() < until:
            await self.poller.scan()

    async def scan_until_well(self) -> None:
        """Scan until all faults are used up and a scan succeeds."""
        while self.service.faults or self.poller.progress.phase == "backing-off":
            await self.poller.scan()

    @property
    def events(self) -> list[Event]:
        """Return all events that wait for delivery."""
        return [unpack(stored.kind, stored.payload) for stored in self.feed_store.pending(limit=10_000)]

    @property
    def event_keys(self) -> list[tuple[str, int]]:
        """Return the kinds and indexes of the events about requests."""
        return [(event.kind, event.request.index) for event in self.events if isinstance(event, RequestEvent)]

    def seen(self, index: int) -> TrackedRequest:
        seen, _ = self.feed_store.history(index)
        assert seen is not None
        return seen


async def live(service: Service, store: Store, **options: Any) -> Rig:
    """Return a watcher whose first scan is complete, and forget the pages of its first scans."""
    rig = Rig(service, store=store, **options)
    await rig.prime()
    await rig.scan()
    service.pages.clear()
    return rig


def scans(rig: Rig, *, complete: bool = True) -> Counter[str]:
    """Return the number of ended scans, by tier."""
    return Counter(
        reported.tier for reported in rig.reported if isinstance(reported, Scan) and reported.complete == complete
    )
