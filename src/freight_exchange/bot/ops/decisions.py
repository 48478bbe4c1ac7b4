"""Decisions of a person about offers and answers, written into the bot's store beside its replicas."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from time import sleep
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from freight_exchange.bot.answers.in_doubt import log_absent
from freight_exchange.bot.answers.record import AnswerRecord, answer_keys, manual_answer
from freight_exchange.bot.answers.repository import redeliver_answer
from freight_exchange.bot.offers.record import (
    UNSETTLED,
    OfferRecord,
    checked_offer_key,
    describe_unsent,
    manual_changes,
)
from freight_exchange.bot.offers.repository import redeliver
from freight_exchange.bot.writes.record_versions import put_version
from freight_exchange.errors import ValidationError
from freight_exchange.store.protocol import ConflictError

if TYPE_CHECKING:
    from freight_exchange.store.seat import Seat
    from freight_exchange.store.work import Work

__all__ = ["OnWait", "decide_answer", "decide_offer"]

_logger = logging.getLogger("freight_exchange.bot")

Record = TypeVar("Record", OfferRecord, AnswerRecord)

OpenSeat = Callable[[], AbstractContextManager[tuple["Seat", float]]]
"""Takes a seat in the store for a block, and yields it with a time on the feed's clock."""


OnWait = Callable[[str], object]
"""Called before a wait, with a sentence about it."""


def decide_offer(open_seat: OpenSeat, on_wait: OnWait, request: int, revision: int, *, taken: bool) -> bool:
    """Record whether the service has an offer; see `BotFile.resolve`."""
    key = checked_offer_key(request, revision)

    def find(work: Work) -> tuple[OfferRecord, Mapping[str, Any]]:
        effect = work.effect(key)
        record = None if effect is None else OfferRecord.from_effect(effect)
        changes = manual_changes(record, taken=taken)
        assert record is not None
        return record, changes

    return _decide(open_seat, on_wait, find, redeliver, _log_absent_offer, taken=taken)


def decide_answer(open_seat: OpenSeat, on_wait: OnWait, request: int, offer: int, *, taken: bool) -> bool:
    """Record whether the service has carried out an answer to an offer; see `BotFile.resolve`."""
    keys = answer_keys(request, offer)

    def find(work: Work) -> tuple[AnswerRecord, Mapping[str, Any]]:
        effects = [work.effect(key) for key in keys]
        records = [AnswerRecord.from_effect(effect) for effect in effects if effect is not None]
        return manual_answer(records, offer, taken=taken)

    return _decide(open_seat, on_wait, find, redeliver_answer, log_absent, taken=taken)


def _decide(
    open_seat: OpenSeat,
    on_wait: OnWait,
    find: Callable[[Work], tuple[Record, Mapping[str, Any]]],
    redeliver: Callable[..., bool | None],
    log: Callable[..., None],
    *,
    taken: bool,
) -> bool:
    """Write a person's decision. If that is "not taken", first wait until the write cannot arrive any more.

    Args:
        open_seat: Takes a seat in the store.
        on_wait: Called before a wait.
        find: Returns the record, and its changes.
        redeliver: Redelivers to the handler of a write that was not taken.
        log: Logs that a write in doubt was not taken, and whether its handler is called again.
        taken: Whether the service has it.

    Returns:
        Whether nothing is left to do.

    Raises:
        ValidationError: A replica is sending it.
        ConflictError: Another process has changed it meanwhile.
    """
    awaited: Record | None = None
    while True:
        with open_seat() as (seat, time), seat.work.transaction():
            record, changes = find(seat.work)
            wait = _take_over(seat, record)
            if awaited is not None and not _is_same_send(record, awaited):
                raise _changed_error(record)
            if taken or awaited is not None or not wait:
                # The last scan may be older than the record.
                changed = attrs.evolve(record, at=max(time, record.at), **changes)
                is_sent_again = taken or (record.state in UNSETTLED and redeliver(seat.work, changed, at=time))
                if not put_version(seat.work, changed, replaces=record):
                    raise _changed_error(record)
                break
        # The wait begins after the send, and is measured by the clock of this process alone. It holds no seat, so that
        # a replica can check the write meanwhile.
        on_wait(f"{record} may still arrive for {wait:.0f} s: waiting, before it counts as not taken")
        sleep(wait)
        awaited = record
    if record.state in UNSETTLED and not taken:
        log(record, is_sent_again=is_sent_again)
    return bool(is_sent_again)


def _take_over(seat: Seat, record: OfferRecord | AnswerRecord) -> float:
    """Take a record over if its process has ended, and return the seconds for which the service may still receive it.

    Raises:
        ValidationError: A replica is sending it.
    """
    if record.state not in UNSETTLED:
        return 0.0
    # A write that was being sent when its process ended is adopted, and from then on only checked: it is in doubt.
    adoption = seat.adopt()
    if record.state == "sending" and record.key not in [effect.key for effect in adoption.effects]:
        raise ValidationError(f"{record} is being sent: wait for its result", field="request")
    # A replica checks it only once it cannot arrive any more.
    return 0.0 if record.checks or record.parked else adoption.wait


def _is_same_send(record: OfferRecord | AnswerRecord, earlier: OfferRecord | AnswerRecord) -> bool:
    """Return whether a record is still in doubt about the same send as when it was read earlier."""

    def send(one: OfferRecord | AnswerRecord) -> tuple[object, ...]:
        return one.key, one.resends, one.in_doubt_since

    return record.state in UNSETTLED and send(record) == send(earlier)


def _changed_error(record: OfferRecord | AnswerRecord) -> ConflictError:
    return ConflictError(f"{record} has changed meanwhile: nothing was written; look at it again")


def _log_absent_offer(record: OfferRecord, *, is_sent_again: bool | None) -> None:
    text, fields = "%s is no longer in doubt: %s", {"request": record.request}
    if is_sent_again:
        then = f"it was not taken, and the handler {record.handler!r} sends it again, if the bot still has it"
        _logger.warning(text, record, then, extra=fields)
    else:
        _logger.error(text, record, describe_unsent(record, is_final=is_sent_again is False), extra=fields)
