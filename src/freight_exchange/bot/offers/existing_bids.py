"""The account's bids at the service, whether or not this bot made them."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import anyio

from freight_exchange import wire
from freight_exchange.bot.outcomes import RetryLater
from freight_exchange.errors import (
    READ_ERRORS,
    AlreadyOfferedError,
    BadRequestError,
    DecodeError,
    FeedProtocolError,
    is_from_login,
)
from freight_exchange.hooks import BrokenRecord, Event
from freight_exchange.models import BidsType
from freight_exchange.transport.call import RequestMeter

if TYPE_CHECKING:
    from freight_exchange.bot.offers.repository import OfferRepository
    from freight_exchange.client import FreightExchange
    from freight_exchange.endpoints.bids import Bids
    from freight_exchange.models import Bid

__all__ = ["ExistingBids", "describe_request", "lenient_bids", "merge_bids", "unknown_bid_error"]

_logger = logging.getLogger("freight_exchange.bot")

_FIRST_PAUSE, _MAX_PAUSE = 1.0, 60.0
_PAUSE_PER_REQUEST: Final = 1.0
"""Seconds of pause for each request of a failed reading: one of many pages may fail only at the end."""
_MAX_WAIT: Final = 10.0


class ExistingBids:
    """The account's bids that are not in the ledger.

    They are read at startup, and later by checks of doubts and of revisions. Any other offer reads nothing.

    Args:
        exchange: The client.
        repository: The offers that the bot has made.
    """

    def __init__(self, exchange: FreightExchange, repository: OfferRepository) -> None:
        self._exchange = exchange
        self._repository = repository
        self._unknown: frozenset[int] = frozenset()
        self._allowed: set[int] = set()
        self._first_read = anyio.Event()
        self._certain = anyio.Event()
        self._certain_at = 0.0
        self._is_restored = self._is_shared = False

    async def read(self, *, settle: float, is_shared: bool = False) -> None:
        """Read them at startup, repeated until it succeeds.

        Args:
            is_shared: Whether other replicas may offer meanwhile.
            settle: Seconds before a second reading. An earlier run whose store is lost may have offered until its end,
                and the service may list its last offers later. An account without any bid counts as new and is not read
                again: it is a documented limit that the store may be lost before the first bid is listed.
        """
        self._is_shared = is_shared
        has_bids = await self._read_once()
        wait = settle if has_bids or self._is_restored else 0.0
        self._certain_at = anyio.current_time() + wait
        self._first_read.set()
        if wait:
            await anyio.sleep(wait)
            await self._read_once()
        self._certain.set()
        if self._unknown:
            _logger.warning(
                "%d requests have bids of yours that the bot's store lacks; no offer is made on them",
                len(self._unknown),
            )

    def distrust(self) -> None:
        """Expect bids on any request before they are read: the store has lost commits."""
        self._is_restored = True

    @contextmanager
    def allow(self, request: int) -> Iterator[None]:
        """Permit an offer on a request despite a bid that is not in the ledger.

        A person's decision is recorded inside the block. The permission begins with the block, because the handler may
        offer before its end. A block that raises has decided nothing, and ends the permission.
        """
        is_new = request not in self._allowed
        self._allowed.add(request)
        try:
            yield
        except BaseException:
            if is_new:
                self._allowed.discard(request)
            raise

    async def has_unknown_bid(self, request: int, *, is_newer: bool, has_known_bid: bool) -> bool:
        """Return whether this account has a bid on a request that is not in the ledger.

        Args:
            request: The request.
            is_newer: Whether the request was published after the store was made: bids from before cannot be on it.
            has_known_bid: Whether the ledger has a bid there, which later readings show as well.

        Raises:
            RetryLater: The account's bids are not known yet.
        """
        await _wait_for(self._first_read)
        if not is_newer or self._is_restored:
            if (remaining := self._certain_at - anyio.current_time()) > 0:
                raise RetryLater(
                    remaining,
                    f"the store is {'restored' if self._is_restored else 'new'}, and a bid of an earlier run may not be"
                    f" listed yet: offers on requests from before the first scan wait {remaining:.0f} s for that",
                )
            await _wait_for(self._certain)
        if request in self._unknown:
            return True
        return not has_known_bid and request not in self._allowed and self._exchange._has_seen_bid_on(request)

    async def list_on(self, request: int) -> tuple[Bid, ...]:
        """Return the account's bids on a request that the plain listing has now."""
        return tuple([bid for bid in await self._exchange._own_bids() if bid.index == request])

    async def _read_once(self) -> bool:
        """Read them, and return whether there are any, known or not."""
        listed = await self._list_requests()
        # The ledger is read second: it recorded each of its offers before the service could list it.
        offered = await self._repository.find_requests_with_offers(listed)
        self._unknown |= listed - offered
        if not offered and not self._first_read.is_set() and await self._repository.has_offers():
            _logger.warning(
                "%s lists none of the offers that this bot's store has: if the exchange was reset, as by a restart of"
                " the sandbox, its requests count as known; begin with a new store",
                self._exchange._base_url,
            )
        return bool(listed)

    async def _list_requests(self) -> frozenset[int]:
        found: set[int] = set()
        meter = RequestMeter()

        def note(index: int | None, error: DecodeError) -> None:
            found.update([] if index is None else [index])
            _logger.error("your bid on %s cannot be read: %s", describe_request(index), error)

        bids = lenient_bids(self._exchange._limited(meter=meter), note)
        # The plain listing may lack some bids, and some types may not be served; neither is documented.
        for type in (None, *BidsType):
            found.update(await self._list_view(bids, type, meter))
        return frozenset(found)

    async def _list_view(self, bids: Bids, type: BidsType | None, meter: RequestMeter) -> set[int]:
        """Read one view, repeated until it succeeds, and return its requests; none if the service refuses the view."""
        pause, sweep = _FIRST_PAUSE, True
        while True:
            began = meter.sent
            try:
                found = {bid.index async for bid in bids.list(type=type, sweep=sweep)}
                return found if sweep else found | {bid.index async for bid in bids.list(type=type)}
            except READ_ERRORS as error:
                if sweep and self._is_shared and isinstance(error, FeedProtocolError):
                    # The listing changed during the sweep: offers of other replicas move rows towards its end, where a
                    # plain pass finds them too. Without this, the replica might wait for hours before it can offer.
                    sweep = False
                    continue
                if type is not None and isinstance(error, BadRequestError) and not is_from_login(error):
                    return set()
                wait = max(pause, (meter.sent - began) * _PAUSE_PER_REQUEST)
                _logger.warning(
                    "your bids cannot be read from %s: %s; no offer is made until then; retrying in %.0f s",
                    self._exchange._base_url,
                    error,
                    wait,
                )
                await anyio.sleep(wait)
                pause = min(2 * pause, _MAX_PAUSE)


def lenient_bids(exchange: FreightExchange, note: Callable[[int | None, DecodeError], None]) -> Bids:
    """Make a view of the account's bids that skips unreadable ones under any options of the client.

    Args:
        exchange: The client.
        note: Called for each unreadable bid, with its request, if that can be read, and the error.
    """

    def on_event(event: Event) -> None:
        # A record with an unreadable value is listed all the same.
        if isinstance(event, BrokenRecord) and wire.index_of_raw(event.error.raw) is None:
            note(None, event.error)

    return exchange.with_options(strict=False)._with_hook(on_event).bids


def describe_request(request: int | None) -> str:
    """Describe the request of a bid in a message."""
    return "an unknown request" if request is None else f"request {request}"


def unknown_bid_error(request: int) -> AlreadyOfferedError:
    """Make the error for an offer beside a bid that is not in the ledger."""
    return AlreadyOfferedError(
        f"this account has an offer on request {request} that the bot's store lacks: a person or another bot made "
        "it, or the store was lost; pass allow_existing=True to offer anyway",
        request=request,
    )


async def _wait_for(reading: anyio.Event) -> None:
    # The handler's own timeout must not pass here: that would count as a failure of the handler.
    remaining = anyio.current_effective_deadline() - anyio.current_time()
    with anyio.move_on_after(min(_MAX_WAIT, remaining / 2)):
        await reading.wait()
    if not reading.is_set():
        raise RetryLater(_MAX_WAIT, "your bids cannot be read at present")


def merge_bids(listed: Sequence[Bid], known: Iterable[Bid]) -> list[Bid]:
    """Merge listed bids and known ones. Bids have no identifier: equal ones are matched by their number."""
    unmatched = Counter((bid.amount, bid.currency) for bid in listed)
    missing: list[Bid] = []
    for bid in known:
        terms = bid.amount, bid.currency
        if not unmatched[terms]:
            missing.append(bid)
        unmatched[terms] -= bool(unmatched[terms])
    return [*listed, *missing]
