"""Status of a bot, read from its supervisor and its metrics."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from freight_exchange.bot.ops.status import BotStatus

if TYPE_CHECKING:
    from freight_exchange.bot.metrics.metrics import Metrics
    from freight_exchange.bot.runtime.supervisor import Supervisor

__all__ = ["read_status"]


def read_status(supervisor: Supervisor | None, metrics: Metrics) -> BotStatus:
    """Read the status. A bot that never began has no supervisor."""
    session = None if supervisor is None else supervisor.session
    components = None if session is None else session.components
    doubts = () if components is None else components.ledger.resolver.records()
    has_ended = supervisor is None or supervisor.has_ended
    dispatcher = None if components is None or has_ended else components.dispatcher
    return BotStatus(
        state="stopped" if supervisor is None else supervisor.state,
        live=supervisor is not None and supervisor.is_live(),
        age=timedelta(0) if supervisor is None else supervisor.age(),
        feed=None if session is None else session.feed_status(),
        in_flight=len(metrics.in_flight),
        waiting=0 if dispatcher is None else dispatcher.waiting,
        waited=timedelta(seconds=0.0 if dispatcher is None else dispatcher.longest_wait),
        handled=metrics.count_ended("done") + metrics.count_ended("dropped"),
        retried=metrics.count_ended("failed"),
        dead=metrics.count_ended("dead"),
        offers=dict(metrics.offers),
        in_doubt=sum(not record.parked for record in doubts),
        parked=sum(record.parked for record in doubts),
        offer_feed=None if session is None else session.health.offer_feed_status(),
        address=None if supervisor is None else supervisor.address,
    )
