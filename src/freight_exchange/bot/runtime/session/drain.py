"""Drain of a session: wait for its handlers, and for the offers that are being sent."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import anyio

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from freight_exchange.bot.answers.ledger import AnswerLedger
    from freight_exchange.bot.delivery.dispatcher import Dispatcher
    from freight_exchange.bot.metrics.metrics import InFlight
    from freight_exchange.bot.offers.ledger import OfferLedger

__all__ = ["await_replies", "cancel_handlers", "drain", "report_stuck"]

_logger = logging.getLogger("freight_exchange.bot")

_CANCELLATION_GRACE: Final = 0.5
_REPLY_TIMEOUT: Final = 10.0


async def drain(
    dispatcher: Dispatcher, ledger: OfferLedger, answers: AnswerLedger, in_flight: InFlight, timeout: timedelta
) -> None:
    """Wait for the handlers, their offers and their answers to end, for a limited time."""
    if in_flight:
        _logger.info("draining: waiting for %d handlers, at most %s", len(in_flight), timeout)
    with anyio.move_on_after(timeout.total_seconds()) as scope:
        await dispatcher.wait_idle()
        await ledger.wait_idle()
        await answers.wait_idle()
    if scope.cancelled_caught:
        _logger.warning("the drain timed out: %d handlers are cancelled, and called again later", len(in_flight))


async def cancel_handlers(dispatcher: Dispatcher, tasks: TaskGroup) -> None:
    """Cancel the handlers, and wait a moment for those that clean up."""
    tasks.cancel_scope.cancel()
    with anyio.move_on_after(_CANCELLATION_GRACE, shield=True):
        await dispatcher.wait_idle()


async def await_replies(dispatcher: Dispatcher, ledger: OfferLedger, answers: AnswerLedger) -> None:
    """Wait for replies after the seat was lost.

    Without a reply, other replicas have to search the service for the write. A handler whose call of the store gets no
    reply cannot end before that call does.
    """
    with anyio.move_on_after(_REPLY_TIMEOUT, shield=True):
        await dispatcher.wait_idle()
        await ledger.wait_idle()
        await answers.wait_idle()


def report_stuck(in_flight: InFlight) -> None:
    """Log the handlers that have not ended though they were cancelled."""
    if in_flight:
        _logger.critical("handlers ignore their cancellation: %s; the bot waits until they end", str(in_flight))
