"""Processes of a forwarder or a shipper for the ledger's tests: a ledger over a sandbox, without handlers.

A process has events and deliveries that tests make by hand. It can be killed at each failpoint.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any

import anyio
import attrs
from tests.bot.rig import AMOUNT, BIDS, HOUR, INTERVAL

from freight_exchange import FreightExchange
from freight_exchange.bot import failpoints
from freight_exchange.bot.ledger import Ledger
from freight_exchange.bot.outcomes import IN_DOUBT, RetryLater
from freight_exchange.bot.writes import AnswerWrite, OfferWrite
from freight_exchange.errors import FencedError, OfferInDoubtError
from freight_exchange.models import Offer
from freight_exchange.store import Store, effects, fleet
from freight_exchange.store.database import Database
from freight_exchange.store.fleet import Binding
from freight_exchange.testing import Sandbox

SETTLE = 5.0
ANSWER = "quote/approveoffer"


class Killed(BaseException):
    """Simulated end of a process. It is not an `Exception`, so that no code handles it."""


@attrs.frozen
class Delivery:
    """A delivery, as the ledger needs it."""

    event_id: int
    handler: int
    subject: int
    merged: tuple[int, ...] = ()


class Process:
    """One process with a ledger.

    Attributes:
        ledger: The ledger.
        has_died: Whether it was killed.
    """

    def __init__(self, store: Store, exchange: FreightExchange, ledger: Ledger) -> None:
        self.store = store
        self.exchange = exchange
        self.ledger = ledger
        self.has_died = False

    async def event(self, request: int, *, handler: str = "quote") -> Delivery:
        """Make an event on a request, and claim its delivery."""

        def make(db: Database) -> Delivery:
            feed = self.store.feeds["requests"]
            row = db.run("SELECT id FROM handler WHERE binding = :b AND name = :n", b=self.store.binding, n=handler)
            found = row.fetchone() or db.run(
                "INSERT INTO handler (binding, name, feed, cursor) VALUES (:b, :n, :f, 0) RETURNING id",
                b=self.store.binding, n=handler, f=feed,
            ).fetchone()  # fmt: skip
            (count,) = db.run("SELECT count(*) FROM event").fetchone()
            (number,) = db.run(
                "INSERT INTO event (feed, key, subject, kind, payload, at) VALUES (:f, :k, :s, 'updated', :p, :at)"
                " RETURNING id",
                f=feed, k=f"{request}:{count}", s=request, p=b"", at=db.now,
            ).fetchone()  # fmt: skip
            db.run(
                "INSERT INTO delivery (event, handler, subject, state, attempts, not_before, owner)"
                " VALUES (:e, :h, :s, 'claimed', 1, :at, :me)",
                e=number, h=found[0], s=request, at=db.now, me=self.store.me,
            )  # fmt: skip
            return Delivery(number, found[0], request)

        return await self.store.run(make)

    async def claim(self, delivery: Delivery) -> Delivery:
        """Claim a delivery again, in any state."""
        await self.set_delivery(delivery, state="claimed", owner=self.store.me, error=None)
        return delivery

    async def set_delivery(self, delivery: Delivery, **columns: Any) -> None:
        """Change columns of a delivery."""

        def change(db: Database) -> None:
            changes = ", ".join(f"{name} = :{name}" for name in columns)
            db.run(
                f"UPDATE delivery SET {changes} WHERE event = :e AND handler = :h",
                e=delivery.event_id, h=delivery.handler, **columns,
            )  # fmt: skip

        await self.store.run(change)

    async def delivery(self, delivery: Delivery) -> tuple[str, float]:
        """Return the state of a delivery, and the seconds until it is due."""

        def read(db: Database) -> tuple[str, float]:
            row = db.run(
                "SELECT state, not_before FROM delivery WHERE event = :e AND handler = :h",
                e=delivery.event_id, h=delivery.handler,
            ).fetchone()  # fmt: skip
            return row[0], row[1] - db.now

        return await self.store.run(read)

    async def offer(self, delivery: Delivery | int, amount: Any = AMOUNT, **options: Any) -> Any:
        """Make an offer for a delivery, or on a request without one."""
        by = delivery if isinstance(delivery, Delivery) else None
        request = delivery.subject if isinstance(delivery, Delivery) else delivery
        write = OfferWrite(request=request, amount=Decimal(amount), **{"currency": 840, **options})
        return await self.ledger.once(write, by)  # type: ignore[arg-type]  # a delivery of this driver

    async def answer(self, delivery: Delivery, offer: Offer | int, *, approved: bool = True) -> Any:
        """Approve or decline an offer for a delivery."""
        number = offer if isinstance(offer, int) else offer.id
        assert number is not None
        seen = None if isinstance(offer, int) else offer
        write = AnswerWrite(request=delivery.subject, offer=number, approved=approved, seen=seen)
        return await self.ledger.once(write, delivery)  # type: ignore[arg-type]  # a delivery of this driver

    async def until_known(
        self, delivery: Delivery, amount: Any = AMOUNT, *, within: float = HOUR, **options: Any
    ) -> Any:
        """Make an offer again whenever its delivery is due, as a bot does, until its outcome is known."""
        with anyio.fail_after(within):
            while True:
                try:
                    return await self.offer(await self.claim(delivery), amount, **options)
                except RetryLater as later:
                    await anyio.sleep(later.delay)
                except OfferInDoubtError:
                    await self.set_delivery(
                        delivery, state="ready", error=IN_DOUBT, owner=None, not_before=self.store.now + 2
                    )
                    await self.resolved(delivery.subject)

    async def resolved(self, request: int, *, within: float = HOUR) -> None:
        """Wait until nothing about a request is in doubt."""
        with anyio.fail_after(within):
            while await self.held(request):  # noqa: ASYNC110 - the condition has no event
                await anyio.sleep(0.5)

    async def held(self, request: int) -> bool:
        """Return whether a request has an effect that may or may not have been carried out."""
        known = await self.store.run(effects.of_subject, self.store.binding, request)
        return any(one.is_open for one in known)

    async def beat(self) -> None:
        """Renew the lease and adopt, again and again."""
        while True:
            with contextlib.suppress(FencedError):
                await self.store.run(fleet.beat, self.store.me)
                self.ledger.adopt(await self.store.run(fleet.adopt, self.store.me))
            await anyio.sleep(5)


@asynccontextmanager
async def process(
    sandbox: Sandbox,
    store: Store,
    *,
    crash_at: str | None = None,
    account: Any = None,
    settle: float = SETTLE,
    interval: float = INTERVAL,
    **options: Any,
) -> AsyncIterator[Process]:
    """Run a process during the block. A kill at `crash_at` ends the block without an error."""
    running: list[Process] = []

    def reach(point: str) -> None:
        if running and (running[0].has_died or point == crash_at):
            running[0].has_died = True
            raise Killed(point)

    failpoints.active.set(reach)
    try:
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(store)
            client = await stack.enter_async_context(sandbox.client(account, **options))
            ledger = Ledger(store, client, settle=settle, interval=interval)
            holder = sandbox.forwarder if account is None else account
            joined = await store.join(Binding(sandbox.url, holder.email, "bot"))
            await ledger.start(joined)
            running.append(Process(store, client, ledger))
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(running[0].beat)
                tasks.start_soon(ledger.run)
                try:
                    yield running[0]
                finally:
                    tasks.cancel_scope.cancel()
    except BaseException as error:
        if not _is_kill(error):
            raise


def _is_kill(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return all(map(_is_kill, error.exceptions))
    return isinstance(error, Killed)


def reads(sandbox: Sandbox, path: str = BIDS) -> int:
    """Count the readings of a listing's pages."""
    return len(sandbox.audit_log.calls_to("GET", path))
