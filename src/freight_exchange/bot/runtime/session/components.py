"""Parts of a session that a bot's own methods use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from freight_exchange.feed.events import Gap

if TYPE_CHECKING:
    from freight_exchange.bot.answers.ledger import AnswerLedger
    from freight_exchange.bot.delivery.dispatcher import Dispatcher
    from freight_exchange.bot.offers.ledger import OfferLedger
    from freight_exchange.bot.runtime.fleet.membership import Membership
    from freight_exchange.bot.unit_of_work import UnitOfWork
    from freight_exchange.feed.feed import Feed

__all__ = ["Components"]


@attrs.frozen
class Components:
    """Parts of a session."""

    feed: Feed
    unit_of_work: UnitOfWork
    ledger: OfferLedger
    answers: AnswerLedger
    dispatcher: Dispatcher
    membership: Membership

    async def acknowledge_gaps(self) -> int:
        """Acknowledge the gaps, also in a replica that does not scan, and return their number."""
        if self.feed.lease.is_held:
            return await self.feed.acknowledge_gaps()
        return await self.membership.acknowledge(Gap.kind, at=self.unit_of_work.time())
