"""Tests of approvals by replicas on one PostgreSQL database: one approved offer per request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import anyio
import pytest
from tests.unit.bot.rig import SETTLE, eventually
from tests.unit.store.postgres.databases import empty_store
from tests.unit.store.rows import BINDING

from freight_exchange import AlreadyApprovedError, Bot, Context, FreightExchange, Offer, OfferEvent, OfferInDoubtError
from freight_exchange.bot.answers.ledger import AnswerLedger
from freight_exchange.bot.answers.record import AnswerRecord
from freight_exchange.bot.metrics.metrics import Metrics
from freight_exchange.bot.unit_of_work import UnitOfWork
from freight_exchange.feed.feed import Feed
from freight_exchange.store import PostgresStore
from freight_exchange.testing import Profile, Sandbox

T = TypeVar("T")

WITHIN = timedelta(seconds=20)


@pytest.fixture
def store() -> Iterator[PostgresStore]:
    store = empty_store(lease=timedelta(seconds=60))
    yield store
    store.close()


@pytest.fixture
def sandbox() -> Sandbox:
    """Return a service that carries out each approval."""
    return Sandbox(Profile(second_approval="switched"))


def offered(sandbox: Sandbox) -> tuple[int, list[int]]:
    request = sandbox.publish()
    offers = [sandbox.exchange.offer(sandbox.forwarder, request, sandbox.now(), amount=amount) for amount in (900, 800)]
    return request, offers


def approvals(sandbox: Sandbox) -> Counter[int]:
    """Count the approvals that the service has carried out, by request."""
    request_of = {record.offer.index: record.offer.request for record in sandbox.audit_log.offers}
    calls = [call for call in sandbox.audit_log.calls_to("POST", "quote/approveoffer") if call.processed]
    return Counter(request_of[int(call.parameters["offerIndex"])] for call in calls)


def awarding_bot(store: PostgresStore) -> Bot:
    bot = Bot(store=store, interval=timedelta(seconds=1), settle=SETTLE)

    async def award(offer: Offer, ctx: Context) -> None:
        assert isinstance(ctx.event, OfferEvent)
        await ctx.approve(min(ctx.event.listing.offers, key=lambda entry: entry.amount or 0))

    for name in ("award", "award again"):
        bot.on_offer(id=name)(award)
    return bot


async def test_replicas_approve_one_offer_on_each_request(sandbox: Sandbox, store: PostgresStore) -> None:
    bots = [awarding_bot(store) for _ in range(2)]
    async with anyio.create_task_group() as tasks:
        for bot in bots:
            tasks.start_soon(partial(bot.serve, exchange=sandbox.client(sandbox.shipper)))
            await eventually(partial(is_running, bot), WITHIN)
        requests = [offered(sandbox)[0] for _ in range(6)]
        await eventually(lambda: approvals(sandbox).keys() == {*requests}, WITHIN)
        await eventually(lambda: sum(bot.status().handled for bot in bots) == 4 * len(requests), WITHIN)
        for bot in bots:
            bot.stop()
    assert approvals(sandbox) == dict.fromkeys(requests, 1)


def is_running(bot: Bot) -> bool:
    return bot.status().state == "running"


class Replica:
    """Ledger of answers with a separate seat."""

    def __init__(self, exchange: FreightExchange, store: PostgresStore, tasks: Any) -> None:
        work = store.join(BINDING, handlers=("award",), version="1", lease=60).work
        feed = SimpleNamespace(time=anyio.current_time)
        access = SimpleNamespace(inline=False, state=lambda: work, run=self._run)
        unit_of_work = UnitOfWork(cast("Feed", feed), lambda _: None, cast("Any", access))
        self.ledger = AnswerLedger(exchange, unit_of_work, tasks, Metrics(), settle=SETTLE)

    async def _run(self, work: Callable[[], T]) -> T:
        return await anyio.to_thread.run_sync(work)

    async def approve(self, request: int, offer: int, refusals: list[Exception]) -> None:
        draft = AnswerRecord(request=request, offer=offer, approved=True, handler="award", event=1)
        try:
            await self.ledger.answer(draft, seen=None, check=lambda: None)
        except (OfferInDoubtError, AlreadyApprovedError) as error:
            refusals.append(error)


async def test_of_two_approvals_at_once_one_is_sent(sandbox: Sandbox, store: PostgresStore) -> None:
    requests = dict(offered(sandbox) for _ in range(10))
    refusals = list[Exception]()
    async with sandbox.client(sandbox.shipper) as exchange, anyio.create_task_group() as tasks:
        await exchange.login()
        replicas = [Replica(exchange, store, tasks) for _ in range(2)]
        for request, offers in requests.items():
            async with anyio.create_task_group() as race:
                for replica, offer in zip(replicas, offers, strict=True):
                    race.start_soon(replica.approve, request, offer, refusals)
        tasks.cancel_scope.cancel()
    assert approvals(sandbox) == dict.fromkeys(requests, 1)
    assert len(refusals) == len(requests)
