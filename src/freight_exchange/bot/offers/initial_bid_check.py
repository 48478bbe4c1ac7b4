"""Initial check of the account's bids, once a bot has its seat in the store."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from freight_exchange.bot.offers.existing_bids import ExistingBids
    from freight_exchange.bot.offers.repository import OfferRepository

__all__ = ["InitialBidCheck", "RestoreState"]

_logger = logging.getLogger("freight_exchange.bot")


class RestoreState(Protocol):
    """State of a store that may have been restored from a backup."""

    @property
    def is_restored(self) -> bool:
        """`True` if the store may have lost commits, until `trust`."""
        ...

    async def trust(self) -> None:
        """Record that the bot has looked for the offers that the store may have lost."""
        ...


class InitialBidCheck:
    """Initial check of the account's bids. It takes longer if the store may have lost offers.

    Args:
        bids: The account's bids.
        repository: Records whether an earlier run has read them.
        restore_state: Whether the store may have been restored from a backup.
        settle: Seconds until the service lists an offer that was sent before the start.
    """

    def __init__(
        self, bids: ExistingBids, repository: OfferRepository, restore_state: RestoreState, *, settle: float
    ) -> None:
        self._bids = bids
        self._repository = repository
        self._restore_state = restore_state
        self._settle = settle
        if restore_state.is_restored:
            bids.distrust()
            _logger.critical(
                "the database may have lost its last commits: it was restored or moved, or a standby was promoted; no"
                " offer is made and no answer is given for at least %.0f s, until your bids have been read",
                settle,
            )

    async def __call__(self) -> None:
        """Read the account's bids; repeat this until it succeeds."""
        is_repeated = await self._repository.has_read_bids() and not self._restore_state.is_restored
        # Other replicas may offer meanwhile only if one of them has read the bids before.
        await self._bids.read(settle=0.0 if is_repeated else self._settle, is_shared=is_repeated)
        await self._repository.mark_bids_read()
        if self._restore_state.is_restored:
            await self._restore_state.trust()
