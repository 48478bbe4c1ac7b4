"""Status of a bot, read from its supervisor and its metrics."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from freight_exchange.bot.ops.status import BotStatus, Doubt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from freight_exchange.bot.metrics.metrics import Metrics
    from freight_exchange.bot.runtime.session.components import Components
    from freight_exchange.bot.runtime.supervisor import Supervisor

__all__ = ["read_doubts", "read_status"]


def read_status(supervisor: Supervisor | None, metrics: Metrics) -> BotStatus:
    """Read the status. A bot that never began has no supervisor."""
    session = None if supervisor is None else supervisor.session
    components = None if session is None else session.components
    offers = () if components is None else components.ledger.resolver.records()
    answers = () if components is None else components.answers.doubts()
    parked = [doubt.parked for doubt in offers] + [doubt.parked for doubt in answers]
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
        answers=dict(metrics.answers),
        in_doubt=parked.count(False),
        parked=parked.count(True),
        offer_feed=None if session is None else session.health.offer_feed_status(),
        scans=session is None or session.scans,
        address=None if supervisor is None else supervisor.address,
    )


def read_doubts(components: Components) -> Sequence[Doubt]:
    """Read the offers and the answers to offers in doubt, each kind by age."""
    to_utc = components.unit_of_work.to_utc
    offers = [Doubt.from_record(record, to_utc) for record in components.ledger.resolver.records()]
    return [*offers, *(Doubt.from_answer(record, to_utc) for record in components.answers.doubts())]
