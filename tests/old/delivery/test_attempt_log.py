"""Tests of the log of attempts: what happened, to what, why, and what comes next, with one traceback per failure."""

from __future__ import annotations

import logging
from typing import Any

import anyio
import pytest
from tests.old.rig import AMOUNT, new_bot

from freight_exchange import Bot, Drop, OfferInDoubtError, RetryLater
from freight_exchange.bot.delivery.attempt_log import AttemptLog
from freight_exchange.bot.delivery.retry_policy import Decision
from freight_exchange.bot.handler import Handler
from freight_exchange.errors import OfferRejectedError
from freight_exchange.store import MemoryStore
from freight_exchange.store.protocol import StoreRefusedError
from freight_exchange.store.work import Delivery
from freight_exchange.testing import Sandbox


async def quote(request: Any, ctx: Any) -> None: ...


HANDLER = Handler(id="quote", function=quote, filters={}, retries=8, timeout=300.0, from_start=False)


def delivery(attempts: int = 1, *, index: int | None = 4, kind: str = "new") -> Delivery:
    return Delivery(
        event=17, handler="quote", index=index, kind=kind, payload=b"", attempts=attempts, state="claimed",
        not_before=0.0, error=None,
    )  # fmt: skip


def failure(text: str = "no rate", *, kind: type[Exception] = LookupError) -> Exception:
    try:
        raise kind(text)
    except Exception as error:  # noqa: BLE001 - the one that was raised here
        return error


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """Return the log of the bot from level DEBUG."""
    caplog.set_level(logging.DEBUG, "freight_exchange.bot")
    return caplog


FAILED = Decision(ending="failed", state="ready", delay=1.2, error="LookupError: no rate")


@pytest.mark.parametrize(
    ("row", "decision", "error", "level", "line"),
    [
        (
            delivery(),
            FAILED,
            failure(),
            logging.WARNING,
            "handler quote failed on request 4 (attempt 1 of 9): LookupError: no rate; retrying in 1 s",
        ),
        (
            delivery(),
            Decision(ending="transient", state="ready", delay=15.0, error="StoreRefusedError: no right"),
            StoreRefusedError("no right"),
            logging.WARNING,
            "handler quote failed on request 4 (attempt 1 of 9): StoreRefusedError: no right; retrying in 15 s",
        ),
        (
            delivery(9),
            Decision(ending="dead", state="dead", error="LookupError: no rate"),
            failure(),
            logging.ERROR,
            "handler quote failed on request 4 (attempt 9 of 9): LookupError: no rate; its delivery is dead: replay"
            " event 17 to retry",
        ),
        (
            delivery(index=None, kind="gap"),
            Decision(ending="dropped", state="done", error="Drop: known"),
            Drop("known"),
            logging.INFO,
            "handler quote drops event 17 (gap): Drop: known",
        ),
        (
            delivery(),
            Decision(ending="later", state="ready", delay=300, error="no tariff yet"),
            RetryLater(300, "no tariff yet"),
            logging.INFO,
            "handler quote waits with request 4: no tariff yet; retrying in 300 s",
        ),
        (
            delivery(),
            Decision(ending="doubt", state="ready", delay=2, error="its offer is in doubt"),
            failure(kind=TimeoutError),
            logging.WARNING,
            "handler quote failed on request 4 (attempt 1 of 9): TimeoutError: no rate; its offer is in doubt: retrying"
            " once that is resolved",
        ),
        (
            delivery(),
            Decision(ending="doubt", state="ready", delay=2, error="its offer is in doubt"),
            OfferInDoubtError("it may have been taken"),
            logging.INFO,
            "handler quote waits with request 4: its offer is in doubt; retrying in 2 s",
        ),
        (
            delivery(),
            Decision(ending="done", state="done"),
            None,
            logging.DEBUG,
            "handler quote is done with request 4",
        ),
    ],
)
def test_line_has_handler_request_attempt_error_and_next_step(
    log: pytest.LogCaptureFixture,
    row: Delivery,
    decision: Decision,
    error: Exception | None,
    level: int,
    line: str,
) -> None:
    AttemptLog().write(row, HANDLER, decision, error)
    (record,) = log.records
    assert (record.levelno, record.getMessage()) == (level, line)
    assert (record.exc_info is not None) == (level >= logging.WARNING)
    fields = vars(record)
    assert (fields["handler"], fields["number"], fields["attempt"]) == ("quote", 17, row.attempts)


def test_traceback_is_logged_once_for_each_failure_and_then_at_debug(log: pytest.LogCaptureFixture) -> None:
    attempts = AttemptLog()
    for text in ("for Rotterdam", "for Hamburg"):
        attempts.write(delivery(), HANDLER, FAILED, failure(text))
    attempts.write(delivery(), HANDLER, FAILED, failure(kind=ValueError))
    assert [(record.levelname, record.exc_info is not None) for record in log.records] == [
        ("WARNING", True),
        ("WARNING", False),
        ("DEBUG", True),
        ("WARNING", True),
    ]


def test_failures_are_remembered_up_to_a_limit(log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("freight_exchange.bot.delivery.attempt_log._REMEMBERED_FAILURES", 2)
    attempts = AttemptLog()
    for kind in (LookupError, ValueError, TypeError, LookupError):
        attempts.write(delivery(), HANDLER, FAILED, failure(kind=kind))
    assert [record.levelname for record in log.records] == ["WARNING"] * 4
    assert all(record.exc_info for record in log.records)


@pytest.mark.virtual_time
@pytest.mark.parametrize("how", ["awarded", "withdrawn"])
async def test_offer_refused_because_the_request_is_closed_is_info(caplog: pytest.LogCaptureFixture, how: str) -> None:
    caplog.set_level(logging.INFO, "freight_exchange.bot")
    sandbox, errors = Sandbox(), list[OfferRejectedError]()
    bot = new_bot(MemoryStore())

    @bot.on_new(id="quote")
    async def quote(request: Any, ctx: Any) -> None:
        if how == "awarded":
            other = sandbox.exchange.offer(sandbox.rival, request.index, sandbox.now())
            sandbox.exchange.select(other, sandbox.now())
        else:
            sandbox.exchange.withdraw(request.index, sandbox.now())
        try:
            await ctx.offer(amount=AMOUNT, currency=840)
        except OfferRejectedError as error:
            errors.append(error)
            raise

    index = sandbox.publish()
    async with sandbox.running(bot) as trial:
        await trial.idle()
        # A request may be listed again: it stays on the list of what was not handled.
        assert [letter.request for letter in await bot.dead_letters()] == [index]
    assert [error.request_closed for error in errors] == [True]
    (record,) = [record for record in caplog.records if "too late" in record.getMessage()]
    assert record.levelno == logging.INFO
    assert record.exc_info is None
    assert f"handler quote is too late for request {index}: OfferRejectedError: " in record.getMessage()
    assert record.getMessage().endswith("; replay event 1 if it reopens")
    assert not [record for record in caplog.records if record.levelno > logging.INFO]


@pytest.mark.virtual_time
async def test_wait_of_a_new_store_is_explained(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "freight_exchange.bot")
    sandbox = Sandbox()
    old, fresh = sandbox.publish(), Bot(store=None, start="backfill")
    sandbox.exchange.offer(sandbox.forwarder, sandbox.publish(), sandbox.now())

    @fresh.on_new(id="quote")
    async def quote(request: Any, ctx: Any) -> None:
        await ctx.offer(amount=AMOUNT, currency=840)

    async with sandbox.running(fresh) as trial:
        await trial.idle()
        await anyio.sleep(120)
    waits = [record.getMessage() for record in caplog.records if f"waits with request {old}" in record.getMessage()]
    assert waits[0].startswith(
        f"handler quote waits with request {old}: the store is new, and a bid of an earlier run may not be listed yet:"
        " offers on requests from before the first scan wait 30 s for that; retrying in "
    )
