"""Market of the tests of feeds: a sandbox whose replies a test may change, and a reader of a feed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import Any

import anyio
import attrs

from freight_exchange import FreightExchange
from freight_exchange.testing import Cargo, Fault, Profile, Sandbox

__all__ = ["HALF_MINUTE", "Market"]

HALF_MINUTE = timedelta(seconds=30)
_REQUESTS = "quote/getrequests"
_OFFERS = "quote/getoffers"

Rows = dict[str, Any]


@attrs.define(eq=False)
class Market:
    """Sandbox with a reader.

    Attributes:
        told: What the reader was told: the kind of each event, and the index of its request or offer.
        events: The events.
        feed: The feed that is read.
        listed: Changes the rows of a page in place, given its number.
        found: Changes the rows of a look-up in place, given its index.
        answer: Makes the whole body of a reply to a listing, given its number and size; `None` for the usual one.
    """

    sandbox: Sandbox = attrs.field(factory=Sandbox)
    told: list[str] = attrs.field(factory=list)
    events: list[Any] = attrs.field(factory=list)
    feed: Any = None
    listed: Callable[[int, Rows], None] = lambda page, rows: None
    found: Callable[[int, Rows], None] = lambda index, rows: None
    answer: Callable[[int, int], bytes | None] = lambda page, size: None
    _call: dict[str, Any] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self.sandbox.strike(Fault(name="market", when=self._is_listing, times=None, mutate=self._mutate))

    @classmethod
    def of(cls, **profile: Any) -> Market:
        """Make a market whose service has these quirks."""
        return cls(Sandbox(Profile(**profile)))

    # The service

    def _is_listing(self, call: Any) -> bool:
        if call.path not in (_REQUESTS, _OFFERS):
            return False
        self._call = json.loads(call.body or b"{}")
        return True

    def _mutate(self, reply: Any, now: float, random: object) -> Any:
        if reply.status != 200:
            return reply
        payload = json.loads(reply.body)
        ((name, rows),) = payload.items()
        if "index" in self._call:
            self.found(int(self._call["index"]), rows)
        else:
            page, size = int(self._call["offset"]), int(self._call["rowsperpage"])
            body = self.answer(page, size)
            if body is not None:
                return attrs.evolve(reply, body=body)
            self.listed(page, rows)
        return attrs.evolve(reply, body=json.dumps({name: rows}).encode())

    def strike(self, *faults: Fault) -> None:
        """Arm faults before those of the market."""
        script = self.sandbox.exchange.faults
        waiting = script.waiting
        script.clear()
        script.add(*faults, *waiting)

    def hide(self, *indexes: int) -> None:
        """Leave requests out of the listing; look-ups find them."""
        hidden = {*indexes}
        self.listed = lambda page, rows: drop(rows, hidden)

    def restore(self) -> None:
        """Answer as usual again."""
        self.listed = self.found = lambda number, rows: None

    def publish(self, **cargo: Any) -> int:
        return self.sandbox.publish(Cargo(**cargo))

    def publish_many(self, count: int) -> list[int]:
        return [self.publish(commodityname=f"Tea {number}") for number in range(count)]

    def update(self, index: int, **changes: Any) -> None:
        self.sandbox.update(index, **changes)

    def withdraw(self, *indexes: int) -> None:
        for index in indexes:
            self.sandbox.exchange.withdraw(index, self.sandbox.now())

    def offer(self, request: int, amount: int = 900, *, by_rival: bool = False) -> int:
        account = self.sandbox.rival if by_rival else self.sandbox.forwarder
        number: int = self.sandbox.exchange.offer(account, request, self.sandbox.now(), amount=Decimal(amount))
        return number

    def requests_of(self, path: str = _REQUESTS, *, since: float = 0.0) -> list[dict[str, Any]]:
        """Return the bodies of the requests to a listing since a time on the loop's clock, oldest first."""
        from_then = self.sandbox.now() - anyio.current_time() + since
        calls = [call for call in self.sandbox.audit_log.calls if call.path == path and call.time >= from_then]
        return [json.loads(call.body or b"{}") for call in calls]

    # The reader

    def client(self, *, offers: bool = False, **options: Any) -> FreightExchange:
        return self.sandbox.client(self.sandbox.shipper if offers else None, **options)

    @asynccontextmanager
    async def watched(
        self, *, offers: bool = False, client: FreightExchange | None = None, **options: Any
    ) -> AsyncIterator[None]:
        """Read a feed during the block."""
        options.setdefault("interval", HALF_MINUTE)
        async with self.client(offers=offers) if client is None else client as exchange:
            feed: Any = exchange.watch_offers(**options) if offers else exchange.watch(**options)
            async with feed as self.feed, anyio.create_task_group() as tasks:
                tasks.start_soon(self._read)
                try:
                    yield
                finally:
                    tasks.cancel_scope.cancel()

    async def _read(self) -> None:
        async for event in self.feed:
            self.events.append(event)
            self.told.append(word(event))

    async def play(self, *script: tuple[float, Callable[[], object]]) -> None:
        """Do each thing so many seconds after the one before."""
        for wait, action in script:
            await anyio.sleep(wait)
            action()


def word(event: Any) -> str:
    """Name an event in a word or two."""
    match event.kind:
        case "gap":
            return "gap"
        case "unreadable":
            return f"unreadable {event.index}"
        case "selected":
            return f"selected {event.bid.index}"
        case kind:
            number = event.offer.id if hasattr(event, "offer") else event.request.index
            return f"{kind} {number}{' again' if event.returned else ''}"


def drop(rows: Rows, indexes: Iterable[int]) -> None:
    """Remove the rows of requests."""
    hidden = {*indexes}
    for key in [key for key, row in rows.items() if row["index"] in hidden]:
        del rows[key]


def later(function: Callable[..., object], *args: Any, **named: Any) -> Callable[[], object]:
    """Return a call to make later."""
    return partial(function, *args, **named)
