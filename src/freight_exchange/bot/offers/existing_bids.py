"""The own bids that stand at the service, whoever made them."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

import anyio

from freight_exchange import wire
from freight_exchange.bot.outcomes import RetryLater
from freight_exchange.errors import BadRequestError, DecodeError
from freight_exchange.errors.transient import READ_ERRORS, is_from_login
from freight_exchange.hooks import BrokenRecord, Event
from freight_exchange.models import BidsType

if TYPE_CHECKING:
    from freight_exchange.client import FreightExchange
    from freight_exchange.endpoints.bids import Bids
    from freight_exchange.models import Bid

__all__ = ["ExistingBids", "leniently", "on_request", "united"]

_logger = logging.getLogger("freight_exchange.bot")

_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
_PATIENCE: Final = 10.0


class ExistingBids:
    """Own bids as known by a reading at the start, and by those that doubts and further prices take later.

    No reading is taken for an offer that stands alone.

    Args:
        exchange: Where they are listed.
        made_on: Asks the ledger on which requests it has made offers.
    """

    def __init__(self, exchange: FreightExchange, made_on: Callable[[], Awaitable[frozenset[int]]]) -> None:
        self._exchange = exchange
        self._made_on = made_on
        self._strangers: frozenset[int] = frozenset()
        self._allowed: set[int] = set()
        self._learnt = anyio.Event()
        self._certain = anyio.Event()
        self._certain_at = 0.0

    async def learn(self, *, settle: float) -> None:
        """Find the requests on which own bids stand that the ledger has not made. Goes on until it is done.

        Args:
            settle: Seconds after which to look again. An earlier run whose store is lost may have offered up to the
                moment of its end, and the service may show that later. An account without any bid has had no such run.
        """
        wait = settle if await self._look() else 0.0
        self._certain_at = anyio.current_time() + wait
        self._learnt.set()
        if wait:
            await anyio.sleep(wait)
            await self._look()
        self._certain.set()
        if self._strangers:
            _logger.warning("%d requests have own bids that this bot's store does not know", len(self._strangers))

    def allow(self, request: int) -> None:
        """Let an offer be made on the request beside what later readings have shown there, as a person says."""
        self._allowed.add(request)

    async def unknown_on(self, request: int, *, younger: bool, stands: bool) -> bool:
        """Whether an own bid stands on the request that the ledger does not know.

        Args:
            request: The request.
            younger: Whether it was published in this store's time: what stood before it does not matter.
            stands: Whether the ledger knows of one, which later readings show.

        Raises:
            RetryLater: That is not known yet.
        """
        await _wait_for(self._learnt)
        if not younger:
            if (left := self._certain_at - anyio.current_time()) > 0:
                raise RetryLater(left, "the store is new, and an own bid may not be shown yet")
            await _wait_for(self._certain)
        if request in self._strangers:
            return True
        return not stands and request not in self._allowed and self._exchange._has_seen_bid_on(request)

    async def on(self, request: int) -> tuple[Bid, ...]:
        """The own bids on the request, as the plain listing shows them now."""
        return tuple([bid for bid in await self._exchange._own_bids() if bid.index == request])

    async def _look(self) -> bool:
        """Read them; whether there are any, whoever made them."""
        pause = _FIRST_PAUSE
        while True:
            try:
                listed = await self._listed()
            except READ_ERRORS as error:
                _logger.warning("the own bids cannot be read yet, and no offer is made before: %s", error)
                await anyio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            else:
                # Asked afterwards: what the listing shows of this bot's own was written down before it was sent.
                self._strangers |= listed - await self._made_on()
                return bool(listed)

    async def _listed(self) -> frozenset[int]:
        found: set[int] = set()

        def note(index: int | None, error: DecodeError) -> None:
            found.update([] if index is None else [index])
            _logger.error("an own bid cannot be read, on %s: %s", on_request(index), error)

        bids = leniently(self._exchange, note)
        # What the plain listing leaves out is not documented, and neither is that every type is served.
        for type in (None, *BidsType):
            try:
                found.update([bid.index async for bid in bids.list(type=type, sweep=True)])
            except BadRequestError as error:
                if type is None or is_from_login(error):
                    raise
        return frozenset(found)


def leniently(exchange: FreightExchange, note: Callable[[int | None, DecodeError], None]) -> Bids:
    """The listings of own bids, in which one that cannot be read costs none of the others, whatever the client's
    options are. `note` is told of it: the request that it is on, where that can be read, and what is wrong with it."""

    def hear(event: Event) -> None:
        if isinstance(event, BrokenRecord):
            note(wire.index_of_raw(event.error.raw), event.error)

    return exchange.with_options(strict=False)._heard_by(hear).bids


def on_request(request: int | None) -> str:
    """The request that a bid is on, in words."""
    return "a request that cannot be told" if request is None else f"request {request}"


async def _wait_for(reading: anyio.Event) -> None:
    # Nobody's time limit is to pass here: that would count as his failure.
    left = anyio.current_effective_deadline() - anyio.current_time()
    with anyio.move_on_after(min(_PATIENCE, left / 2)):
        await reading.wait()
    if not reading.is_set():
        raise RetryLater(_PATIENCE, "the own bids at the service cannot be read at present")


def united(listed: Sequence[Bid], known: Iterable[Bid]) -> list[Bid]:
    """The bids that are listed, and those that are known besides. Bids carry no identifier: alike ones are counted."""
    alike = Counter((bid.amount, bid.currency) for bid in listed)
    missing: list[Bid] = []
    for bid in known:
        terms = bid.amount, bid.currency
        if not alike[terms]:
            missing.append(bid)
        alike[terms] -= bool(alike[terms])
    return [*listed, *missing]
