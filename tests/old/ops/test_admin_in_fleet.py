"""Tests of changes to a bot's database while its replicas run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import attrs
import pytest
from tests.unit.store.postgres.databases import database_url, empty_store, execute
from tests.unit.store.postgres.replicas import enqueue, join

from freight_exchange import StoreError, ValidationError
from freight_exchange.bot.answers.record import AnswerRecord
from freight_exchange.bot.offers.record import OfferRecord
from freight_exchange.bot.ops import decisions
from freight_exchange.bot.admin import BotFile
from freight_exchange.feed.core.state import State
from freight_exchange.feed.core.watermark import Watermark
from freight_exchange.platform.clock import Reading
from freight_exchange.store import PostgresStore
from freight_exchange.store.postgres.fleet.seat import PostgresSeat
from freight_exchange.store.postgres.fleet.work import PostgresWork
from freight_exchange.store.work import Effect

OFFER = OfferRecord(request=1, state="sending", handler="quote", amount=Decimal(100), currency=1)
ANSWER = AnswerRecord(request=1, offer=7, state="sending", approved=True, handler="award", event=1)

TIME = 9000.0
"""Time of the last scan, on the feed's clock."""

Record = OfferRecord | AnswerRecord


@pytest.fixture
def seat() -> Iterator[PostgresSeat]:
    """Return the seat of a running replica."""
    store = empty_store()
    yield join(store)
    store.close()


@pytest.fixture(params=[OFFER, ANSWER], ids=["offer", "answer"])
def record(request: pytest.FixtureRequest) -> Record:
    return request.param  # type: ignore[no-any-return]  # one of the two


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Replace the waits of commands with a list of their seconds."""
    waited = list[float]()
    monkeypatch.setattr(decisions, "sleep", waited.append)
    return waited


def resolve(record: Record, *, taken: bool = False) -> None:
    BotFile(database_url()).resolve(1, taken=taken, offer=record.offer if isinstance(record, AnswerRecord) else None)


def stored_state(record: Record) -> str:
    ((state,),) = execute("SELECT state FROM freight_exchange.effect WHERE key = %s", record.key)
    return str(state)


def scanned_elsewhere(hours: int) -> datetime:
    """Commit a scan of another machine, whose clock is some hours ahead, and return its time."""
    at = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=hours)
    reading = Reading(run="theirs", loop=1.0, boot_id="their machine", boot=1.0, wall=at.timestamp())
    state = State(watermark=Watermark(TIME, reading), stage="primed", allowance=60.0)
    execute("UPDATE freight_exchange.binding SET state = %s", state.dump())
    return at


@pytest.mark.parametrize("taken", [True, False])
def test_what_a_replica_is_sending_is_not_in_doubt(seat: PostgresSeat, record: Record, taken: bool) -> None:
    """A decision would send it again while its bytes are in flight."""
    seat.work.put_effect(record.to_effect(), expected_state=None)
    with pytest.raises(ValidationError, match="is being sent: wait for its result"):
        resolve(record, taken=taken)
    assert stored_state(record) == "sending"
    assert execute("SELECT count(*) FROM freight_exchange.replica WHERE NOT has_left") == [(1,)]


def test_what_an_ended_replica_was_sending_counts_as_not_taken_once_it_cannot_arrive(
    seat: PostgresSeat, record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Meanwhile a replica may look for the offer."""
    seat.work.put_effect(record.to_effect(), expected_state=None)
    seat.leave()
    other, waits = PostgresStore(database_url()), list[float]()

    def wait(seconds: float) -> None:
        waits.append(seconds)
        replica = join(other)
        assert [effect.key for effect in replica.adopt().effects] == [record.key]
        adopted = attrs.evolve(record, state="unknown", unknown_since=record.at, at=1.0)
        assert replica.work.put_effect(adopted.to_effect(), expected_state="sending")

    monkeypatch.setattr(decisions, "sleep", wait)
    resolve(record)
    other.close()
    assert waits == [pytest.approx(20.2)]
    assert stored_state(record) == "intent"


def test_what_a_replica_has_just_adopted_is_waited_for_by_any_clock_of_the_command(
    seat: PostgresSeat, record: Record, waits: list[float]
) -> None:
    scanned_elsewhere(hours=-2)
    adopted = attrs.evolve(record, state="unknown", unknown_since=TIME)
    seat.work.put_effect(adopted.to_effect(), expected_state=None)
    resolve(record)
    assert waits == [pytest.approx(20.2)]
    assert stored_state(record) == "intent"


def test_what_a_replica_has_checked_cannot_arrive_any_more(
    seat: PostgresSeat, record: Record, waits: list[float]
) -> None:
    """The replica began the check after a wait of its own."""
    checked = attrs.evolve(record, state="unknown", checks=1)
    seat.work.put_effect(checked.to_effect(), expected_state=None)
    resolve(record)
    assert (waits, stored_state(record)) == ([], "intent")


@pytest.mark.parametrize("changes", [{"state": "rejected"}, {"state": "unknown", "unknown_since": 5.0}])
def test_change_during_the_wait_is_kept(
    seat: PostgresSeat, record: Record, monkeypatch: pytest.MonkeyPatch, changes: Mapping[str, Any]
) -> None:
    """Either the reply was recorded, or a second send is in doubt, which may arrive later."""
    adopted = attrs.evolve(record, state="unknown", unknown_since=0.0)
    seat.work.put_effect(adopted.to_effect(), expected_state=None)

    def wait(seconds: float) -> None:
        later = attrs.evolve(adopted, **changes)
        assert seat.work.put_effect(later.to_effect(), expected_state="unknown")

    monkeypatch.setattr(decisions, "sleep", wait)
    with pytest.raises(StoreError, match="has changed meanwhile: nothing was written"):
        resolve(record)
    assert stored_state(record) == changes["state"]


def test_what_is_taken_is_not_waited_for(seat: PostgresSeat, record: Record, waits: list[float]) -> None:
    seat.work.put_effect(record.to_effect(), expected_state=None)
    seat.leave()
    resolve(record, taken=True)
    assert (waits, stored_state(record)) == ([], "confirmed")


@pytest.mark.parametrize("later", [-50.0, 50.0])
def test_decision_is_not_earlier_than_what_it_decides(seat: PostgresSeat, record: Record, later: float) -> None:
    """The record may be newer than the last scan, from which a command takes the time."""
    scanned_elsewhere(hours=0)
    doubtful = attrs.evolve(record, state="unknown", checks=1, at=TIME + later)
    seat.work.put_effect(doubtful.to_effect(), expected_state=None)
    resolve(record)
    decided = seat.work.effect(record.key)
    assert decided is not None
    assert decided.at == max(TIME, TIME + later)


@pytest.mark.parametrize("hours", [-2, 3])
def test_replayed_delivery_is_due_by_any_clock_of_the_command(seat: PostgresSeat, hours: int) -> None:
    enqueue(seat, 1)
    scanned_elsewhere(hours)
    (claimed,) = seat.work.claim(now=TIME, limit=1)
    seat.work.settle(claimed.event, "quote", state="dead", at=TIME)
    assert BotFile(database_url()).replay(claimed.event, "quote")
    assert [one.event for one in seat.work.claim(now=TIME, limit=1)] == [claimed.event]


def test_moments_are_those_of_the_clock_of_the_replica_that_scans(seat: PostgresSeat) -> None:
    scanned_at = scanned_elsewhere(hours=3)
    doubtful = attrs.evolve(OFFER, state="unknown", unknown_since=TIME - 60)
    seat.work.put_effect(doubtful.to_effect(), expected_state=None)
    file = BotFile(database_url())
    assert file.status().covered_until == scanned_at
    assert [doubt.since for doubt in file.doubts()] == [scanned_at - timedelta(minutes=1)]
    assert f"updates before {scanned_at:%Y-%m-%d %H:%M:%S} UTC" in file.explain(1).explanation.sentence


@pytest.mark.parametrize("word", ["confirmed", "unknown"])
def test_change_by_a_replica_at_the_same_time_is_kept(
    seat: PostgresSeat, record: Record, word: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The replica may have sent the offer again, so that it is in doubt once more."""
    doubtful = attrs.evolve(record, state="unknown", checks=1).to_effect()
    changed = attrs.evolve(record, state=word, at=1.0).to_effect()
    seat.work.put_effect(doubtful, expected_state=None)
    put: Any = PostgresWork.put_effect

    def overtaken(work: PostgresWork, effect: Effect, **expected: Any) -> bool:
        monkeypatch.undo()
        assert seat.work.put_effect(changed, expected_state="unknown")
        return bool(put(work, effect, **expected))

    monkeypatch.setattr(PostgresWork, "put_effect", overtaken)
    with pytest.raises(StoreError, match="has changed meanwhile: nothing was written"):
        resolve(record)
    assert seat.work.effect(record.key) == changed
