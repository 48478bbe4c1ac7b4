"""Tests of delivering updates after an offer of this bot."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import timedelta
from random import Random
from typing import Any

import anyio
import attrs
import pytest
from tests.unit.bot.rig import AMOUNT, OFFER, eventually, new_bot, offering_bot, offers, run_until_idle

from freight_exchange.store import MemoryStore
from freight_exchange.testing import Cargo, Fault, Profile, Sandbox
from freight_sandbox.wire import Reply

pytestmark = pytest.mark.virtual_time
QUOTED = "Quoted."


class TestOwnUpdate:
    """The reply to an offer may show changes of the request, which the next scan shows as well."""

    @pytest.fixture
    def sandbox(self) -> Sandbox:
        return Sandbox(Profile(published_notes="as_sent"))

    async def test_is_not_delivered(self, sandbox: Sandbox, store: MemoryStore) -> None:
        assert await updates_after_an_offer(sandbox, store, [Cargo(notes=QUOTED)]) == []

    async def test_with_other_changes_is_delivered(self, sandbox: Sandbox, store: MemoryStore) -> None:
        cargo = Cargo(notes=QUOTED, weight=41)
        assert await updates_after_an_offer(sandbox, store, [cargo]) == [{"notes", "weight"}]

    async def test_only_first_update_counts_as_own(self, sandbox: Sandbox, store: MemoryStore) -> None:
        changes = [Cargo(notes=QUOTED), Cargo(notes="Urgent."), Cargo(notes=QUOTED)] * 2
        assert await updates_after_an_offer(sandbox, store, changes) == [{"notes"}] * 4

    async def test_with_other_changes_counts_as_first(self, sandbox: Sandbox, store: MemoryStore) -> None:
        changes = [Cargo(notes=QUOTED, weight=41), Cargo(notes="Urgent.", weight=41), Cargo(notes=QUOTED, weight=41)]
        received = await updates_after_an_offer(sandbox, store, changes)
        assert received == [{"notes", "weight"}, {"notes"}, {"notes"}]

    @pytest.mark.parametrize("answer", [{"qty": 77}, {"weight": 77}, {"origin": "Hamburg"}], ids=str)
    async def test_other_fields_of_reply_do_not_count(
        self, sandbox: Sandbox, store: MemoryStore, answer: dict[str, Any]
    ) -> None:
        cargo = Cargo(**{{"qty": "quantity"}.get(name, name): value for name, value in answer.items()}, notes=QUOTED)
        received = await updates_after_an_offer(sandbox, store, [cargo], answer={**answer, "notes": QUOTED})
        assert len(received) == 1

    async def test_change_during_handler_is_delivered(self, sandbox: Sandbox, store: MemoryStore) -> None:
        bot, priced, received = new_bot(store, settle=timedelta(0)), list[int](), list[int]()

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            priced.append(request.quantity)
            await anyio.sleep(5)
            await ctx.offer(amount=AMOUNT, currency=840)

        @bot.on_updated
        async def updated(request: Any, ctx: Any) -> None:
            received.append(request.quantity)

        async with sandbox.running(bot) as trial:
            index = sandbox.publish(Cargo(quantity=10))
            await eventually(lambda: priced)
            for quantity in (1000, 10, 1000):
                sandbox.exchange.update(index, sandbox.now(), Cargo(quantity=quantity))
                await trial.idle()
        assert (priced, received) == ([10], [1000, 10, 1000])

    async def test_is_own_for_each_handler_and_run(self, sandbox: Sandbox, store: MemoryStore) -> None:
        received: list[str] = []

        def bot() -> Any:
            bot = offering_bot(store)
            for name in ("first", "second"):

                @bot.on_updated(id=name)
                async def updated(request: Any, ctx: Any, name: str = name) -> None:
                    received.append(request.notes)

            return bot

        sandbox.strike(answering({"notes": QUOTED}))
        index = sandbox.publish()
        async with sandbox.running(bot()) as trial:
            await trial.idle()
            sandbox.exchange.update(index, sandbox.now(), Cargo(notes=QUOTED))
            await trial.idle()
            sandbox.exchange.update(index, sandbox.now(), Cargo(notes="Urgent."))
            await trial.idle()
        sandbox.exchange.update(index, sandbox.now(), Cargo(notes=QUOTED))
        await run_until_idle(sandbox, bot())
        assert received == ["Urgent.", "Urgent.", QUOTED, QUOTED]

    @pytest.mark.parametrize("revision", [0, 1])
    async def test_revision_has_one_too(self, sandbox: Sandbox, store: MemoryStore, revision: int) -> None:
        assert await updates_after_an_offer(sandbox, store, [Cargo(notes=QUOTED)], revision=revision) == []


async def updates_after_an_offer(
    sandbox: Sandbox,
    store: MemoryStore,
    changes: Iterable[Cargo],
    answer: dict[str, Any] | None = None,
    revision: int = 0,
) -> list[set[str]]:
    """Offer with this reply, change the request, and return the changes of each delivered update."""
    bot, received = new_bot(store), list[set[str]]()
    bot.on_new(id="quote")(offers(revision=revision))

    @bot.on_updated
    async def updated(request: Any, ctx: Any) -> None:
        received.append(set(ctx.event.changed))

    # The service changes the request as it takes the offer.
    sandbox.strike(answering(answer or {"notes": QUOTED}))
    index = sandbox.publish()
    async with sandbox.running(bot) as trial:
        await trial.idle()
        for cargo in changes:
            sandbox.exchange.update(index, sandbox.now(), cargo)
            await trial.idle()
    return received


def answering(fields: dict[str, Any]) -> Fault:
    """Fault: the reply to an offer has these fields."""

    def mutate(good: Reply, now: float, random: Random) -> Reply:
        text = json.loads(good.body)
        (records,) = text.values()
        for record in records.values() if "0" in records else [records]:
            record.update(fields)
        return attrs.evolve(good, body=json.dumps(text).encode())

    return Fault(name="answer", method="POST", path=OFFER, mutate=mutate)
