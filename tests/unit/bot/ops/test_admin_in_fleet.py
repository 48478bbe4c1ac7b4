"""A bot's database, changed beside its replicas."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import attrs
import pytest
from tests.unit.store.postgres.databases import database_url, empty_store, execute
from tests.unit.store.rows import BINDING

from freight_exchange import StoreError, ValidationError
from freight_exchange.bot.answers.record import AnswerRecord
from freight_exchange.bot.offers.record import OfferRecord
from freight_exchange.bot.ops.admin import BotFile
from freight_exchange.store import PostgresStore
from freight_exchange.store.postgres.seat import PostgresSeat
from freight_exchange.store.postgres.work import PostgresWork
from freight_exchange.store.work import Effect

OFFER = OfferRecord(request=1, state="sending", handler="quote", amount=Decimal(100), currency=1)
ANSWER = AnswerRecord(request=1, offer=7, state="sending", approved=True, handler="award", event=1)

Record = OfferRecord | AnswerRecord


@pytest.fixture
def seat() -> Iterator[PostgresSeat]:
    """Seat of a replica that runs."""
    store = empty_store()
    yield join(store)
    store.close()


@pytest.fixture(params=[OFFER, ANSWER], ids=["offer", "answer"])
def record(request: pytest.FixtureRequest) -> Record:
    return request.param  # type: ignore[no-any-return]  # one of the two


def join(store: PostgresStore) -> PostgresSeat:
    return store.join(BINDING, handlers=["quote"], version="1", lease=60.0)


def resolve(record: Record, *, taken: bool = False) -> None:
    BotFile(database_url()).resolve(1, taken=taken, offer=record.offer if isinstance(record, AnswerRecord) else None)


def state(seat: PostgresSeat, record: Record) -> str:
    effect = seat.work.effect(record.key)
    assert effect is not None
    return effect.state


@pytest.mark.parametrize("taken", [True, False])
def test_what_a_replica_is_sending_is_not_in_doubt(seat: PostgresSeat, record: Record, taken: bool) -> None:
    """It would be sent again while its bytes are on their way."""
    seat.work.put_effect(record.to_effect(), expected_state=None)
    with pytest.raises(ValidationError, match="is being sent: wait for its result"):
        resolve(record, taken=taken)
    assert state(seat, record) == "sending"
    assert execute("SELECT count(*) FROM freight_exchange.replica WHERE NOT has_left") == [(1,)]


def test_what_an_ended_replica_was_sending_is_resolved(seat: PostgresSeat, record: Record) -> None:
    """As not taken only once it cannot arrive any more."""
    seat.work.put_effect(record.to_effect(), expected_state=None)
    seat.leave()
    with pytest.raises(ValidationError, match="may still arrive for 20 s: look at the service's own pages after that"):
        resolve(record)
    execute("UPDATE freight_exchange.effect SET at = -30")
    resolve(record)
    store = PostgresStore(database_url())
    assert state(join(store), record) == "intent"
    store.close()


def test_what_another_replica_has_adopted_is_resolved(seat: PostgresSeat, record: Record) -> None:
    """It is in doubt at once, and may still arrive for as long."""
    adopted = attrs.evolve(record, state="unknown", unknown_since=0.0)
    seat.work.put_effect(adopted.to_effect(), expected_state=None)
    with pytest.raises(ValidationError, match="may still arrive for 20 s"):
        resolve(record)
    assert state(seat, record) == "unknown"
    long_ago = attrs.evolve(adopted, unknown_since=-30.0)
    assert seat.work.put_effect(long_ago.to_effect(), expected_state="unknown")
    resolve(record)
    assert state(seat, record) == "intent"


def test_change_by_a_replica_at_the_same_time_is_kept(
    seat: PostgresSeat, record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    doubtful, confirmed = (attrs.evolve(record, state=word, at=-30.0).to_effect() for word in ("unknown", "confirmed"))
    seat.work.put_effect(doubtful, expected_state=None)
    put: Any = PostgresWork.put_effect

    def overtaken(work: PostgresWork, effect: Effect, *, expected_state: str | None) -> bool:
        monkeypatch.undo()
        assert seat.work.put_effect(confirmed, expected_state="unknown")
        return bool(put(work, effect, expected_state=expected_state))

    monkeypatch.setattr(PostgresWork, "put_effect", overtaken)
    with pytest.raises(StoreError, match="has changed meanwhile: nothing was written"):
        resolve(record)
    assert state(seat, record) == "confirmed"
