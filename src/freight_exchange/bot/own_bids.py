"""The own bids that stand at the service, whoever made them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import anyio

from freight_exchange import wire
from freight_exchange.bot.outcomes import RetryLater
from freight_exchange.errors import (
    APIStatusError,
    BadRequestError,
    DeadlineExceededError,
    DecodeError,
    FeedProtocolError,
    TransportError,
)
from freight_exchange.hooks import BrokenRecord, Event
from freight_exchange.models import BidsType

if TYPE_CHECKING:
    from freight_exchange.client import FreightExchange
    from freight_exchange.models import Bid

__all__ = ["PASSING", "OwnBids"]

_logger = logging.getLogger("freight_exchange.bot")

PASSING: Final = (TransportError, DeadlineExceededError, DecodeError, FeedProtocolError, APIStatusError)
"""Trouble of a reading that may pass."""

_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
_PATIENCE: Final = 10.0


class OwnBids:
    """What is known of them: one reading at the start, and none for an offer that stands alone."""

    def __init__(self, exchange: FreightExchange) -> None:
        self._exchange = exchange
        self._strangers: frozenset[int] = frozenset()
        self._learnt = anyio.Event()

    async def learn(self, known: frozenset[int]) -> None:
        """Find the requests on which own bids stand beyond those that are known. Goes on until it is done."""
        pause = _FIRST_PAUSE
        while True:
            try:
                self._strangers = await self._listed() - known
            except PASSING as error:
                _logger.warning("the own bids cannot be read yet, and no offer is made before: %s", error)
                await anyio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            else:
                break
        if self._strangers:
            _logger.warning("%d requests have own bids that this bot's store does not know", len(self._strangers))
        self._learnt.set()

    async def unknown_on(self, request: int) -> bool:
        """Whether an own bid stands on the request that the ledger does not know.

        Raises:
            RetryLater: That is not known yet.
        """
        with anyio.move_on_after(_PATIENCE):
            await self._learnt.wait()
        if not self._learnt.is_set():
            raise RetryLater(_PATIENCE, "the own bids at the service cannot be read at present")
        return request in self._strangers

    async def on(self, request: int) -> tuple[Bid, ...]:
        """The own bids on the request, as the plain listing shows them now."""
        return tuple([bid async for bid in self._exchange.bids.list(sweep=True) if bid.index == request])

    async def _listed(self) -> frozenset[int]:
        found: set[int] = set()

        def note(event: Event) -> None:
            if isinstance(event, BrokenRecord):
                index = wire.index_of_raw(event.error.raw)
                found.update([] if index is None else [index])
                where = "a request that cannot be told" if index is None else f"request {index}"
                _logger.error("an own bid cannot be read, on %s: %s", where, event.error)

        bids = self._exchange.with_options(strict=False)._heard_by(note).bids
        # What the plain listing leaves out is not documented, and neither is that every type is served.
        for type in (None, *BidsType):
            try:
                found.update([bid.index async for bid in bids.list(type=type, sweep=True)])
            except BadRequestError:
                if type is None:
                    raise
        return frozenset(found)
