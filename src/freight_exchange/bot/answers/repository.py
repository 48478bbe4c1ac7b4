"""Repository of the answer ledger: answers in the bot's store, and those that this process checks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from freight_exchange.bot.answers.record import AnswerRecord, AnswerState
from freight_exchange.bot.offers.repository import changed_elsewhere_error
from freight_exchange.bot.writes.record_versions import put_version

if TYPE_CHECKING:
    from collections.abc import Sequence

    from freight_exchange.bot.unit_of_work import UnitOfWork
    from freight_exchange.store.work import Effect, Work

__all__ = ["AnswerRepository", "redeliver_answer"]


class AnswerRepository:
    """Answers of a bot in its store.

    Args:
        unit_of_work: The store.
    """

    def __init__(self, unit_of_work: UnitOfWork) -> None:
        self._unit_of_work = unit_of_work
        self._own: dict[str, AnswerRecord] = {}
        """Answers that this process sends or checks. In a fleet, other replicas check theirs."""

    def own(self, record: AnswerRecord) -> None:
        """Record that this process checks an answer."""
        self._own[record.key] = record

    def is_current(self, record: AnswerRecord) -> bool:
        """Return whether this process still checks an answer, and nothing has changed it since."""
        return self._own.get(record.key) is record

    def doubts(self) -> Sequence[AnswerRecord]:
        """Return the answers in doubt that this process checks, the oldest first."""
        doubts = [record for record in self._own.values() if record.state == "unknown"]
        return sorted(doubts, key=lambda record: (record.in_doubt_since, record.key))

    async def find(self, key: str) -> AnswerRecord | None:
        """Return an answer."""
        effect: Effect | None = await self._unit_of_work.read(lambda store: store.effect(key))
        return None if effect is None else AnswerRecord.from_effect(effect)

    async def advance(
        self, record: AnswerRecord, state: AnswerState, *, step: str | None = None, **changes: Any
    ) -> AnswerRecord:
        """Record a new state of an answer, and return the new record; raise as `put` does."""
        changed: AnswerRecord = attrs.evolve(record, state=state, **changes)
        return await self.put(step or state, changed, replaces=record)

    async def put(self, step: str, record: AnswerRecord, *, replaces: AnswerRecord | None) -> AnswerRecord:
        """Record an answer in place of the version that was read, if any, and return it with its time.

        Raises:
            ChangedElsewhereError: A person or another replica has changed it.
        """
        record = attrs.evolve(record, at=self._unit_of_work.time())
        is_written = await self._unit_of_work.write(step, lambda store: put_version(store, record, replaces=replaces))
        if not is_written:
            # If a check of this process was faster than a person's decision, that check goes on.
            if self._own.get(record.key) is replaces:
                self._own.pop(record.key, None)
            raise changed_elsewhere_error(record)
        if record.state in ("sending", "unknown"):
            self._own[record.key] = record
        else:
            self._own.pop(record.key, None)
        return record


def redeliver_answer(store: Work, record: AnswerRecord, *, at: float) -> bool:
    """Redeliver to the handler of an answer that was not carried out. Return whether the handler is called again.

    Args:
        store: The store.
        record: The answer.
        at: Time on the feed's clock.
    """

    def has(*states: Any) -> bool:
        found = [delivery for state in states for delivery in store.deliveries(state=state, index=record.request)]
        return any((delivery.event, delivery.handler) == (record.event, record.handler) for delivery in found)

    if has("dead"):
        return store.replay(record.event, record.handler, at=at)
    return has("ready", "claimed")
