"""Tests of adoption: a running replica takes over the deliveries, offers and answers of a dead one."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from tests.unit.bot.rig import eventually, new_bot
from tests.unit.store.postgres.databases import empty_store, execute

from freight_exchange import RetryLater
from freight_exchange.bot.answers.record import AnswerRecord
from freight_exchange.bot.offers.record import OfferRecord
from freight_exchange.store.postgres.fleet import seat
from freight_exchange.store.protocol import Binding
from freight_exchange.testing import Sandbox

WITHIN = timedelta(seconds=20)
OFFER = OfferRecord(request=1000, state="sending", handler="quote", amount=Decimal(100), currency=840)
ANSWER = AnswerRecord(request=1000, offer=7, state="sending", approved=True, handler="award", event=1)


def states(table: str) -> list[Any]:
    return [state for (state,) in execute(f"SELECT state FROM freight_exchange.{table}")]


async def test_running_replica_takes_over_the_work_of_one_that_ended(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seat, "_ADOPTION_WAIT", 0.0)
    store = empty_store(lease=timedelta(seconds=1))
    bot = new_bot(store, interval=timedelta(seconds=1), settle=timedelta(0))

    @bot.on_new(id="quote")
    async def postpone(request: Any, ctx: Any) -> None:
        raise RetryLater(timedelta(hours=1))

    sandbox.publish()
    async with sandbox.running(bot):
        await eventually(lambda: states("delivery") == ["ready"], WITHIN)
        ((base_url, account, name),) = execute("SELECT base_url, account, name FROM freight_exchange.binding")
        other = store.join(Binding(base_url, account, name), handlers=["quote"], version="1", lease=60.0)
        for record in (OFFER, ANSWER):
            other.work.put_effect(record.to_effect(), expected_state=None)
        execute("UPDATE freight_exchange.delivery SET state = 'claimed', owner = %s", other.replica.id)
        other.leave()
        await eventually(lambda: "claimed" not in states("delivery"), WITHIN)
        await eventually(lambda: "sending" not in states("effect"), WITHIN)
    store.close()
