"""Adoption: take over the deliveries, offers and answers of replicas that have ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from freight_exchange.bot.answers.ledger import AnswerLedger
    from freight_exchange.bot.delivery.dispatcher import Dispatcher
    from freight_exchange.bot.offers.ledger import OfferLedger
    from freight_exchange.bot.runtime.fleet.membership import Membership

__all__ = ["adopt_lapsed"]


async def adopt_lapsed(
    membership: Membership, dispatcher: Dispatcher, ledger: OfferLedger, answers: AnswerLedger
) -> None:
    """Take over the work of replicas as they end, until cancelled."""
    while True:
        await membership.wait_lapsed()
        adoption = await membership.adopt()
        await dispatcher.recover(adoption)
        await ledger.adopt(adoption)
        await answers.adopt(adoption)
        dispatcher.wake()
