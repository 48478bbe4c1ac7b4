"""The account's bids at the service, whether or not this bot has made them.

One reading of their listing at a time, at the feed's pace, serves all that wait for one: a start, a second price, and
doubts. The last one is recorded in the store for all replicas.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, Final

import anyio
import attrs

from freight_exchange.bot.outcomes import RetryLater
from freight_exchange.bot.writes import Price, prices_of, unknown_prices
from freight_exchange.errors import READ_ERRORS, LoginRejectedError
from freight_exchange.feed.pace import Pace
from freight_exchange.models import Bid
from freight_exchange.store import effects

if TYPE_CHECKING:
    from freight_exchange.client import FreightExchange
    from freight_exchange.store import Store
    from freight_exchange.store.database import Database

_logger = logging.getLogger("freight_exchange.bot")

_MIN_DELAY, _MAX_DELAY = 1.0, 60.0
"""Limits, in seconds, of the time after which a handler that waits for a reading is called again."""
_MAX_WAIT: Final = 10.0
"""Seconds for which a handler waits for a reading. Longer waits would count against its timeout."""


@attrs.frozen
class Reading:
    """The account's bids in one reading of the listing, which began at a time of the store's clock.

    `bids` are the records, if this process has read them.
    """

    began: float = 0.0
    prices: Mapping[int, Sequence[Price]] = attrs.field(factory=dict)
    bids: Sequence[Bid] = ()

    def record(self, request: int, price: Price) -> Bid:
        """Return the bid on a request with a price, with as much of its record as is known."""
        found = (bid for bid in self.bids if bid.index == request and (bid.amount, bid.currency) == price)
        return next(found, Bid(index=request, amount=price[0], currency=price[1]))


class OwnBids:
    """The last reading of the account's bids, and the pace of further ones. `wake` is called once one is wanted."""

    def __init__(
        self, store: Store, exchange: FreightExchange, *, interval: float, settle: float, wake: Callable[[], object]
    ) -> None:
        self._store = store
        self._bids = exchange.with_options(strict=False).bids
        self._interval = interval
        self._settle = settle
        self._wake = wake
        self._pace = Pace(interval, Random())
        # A start has read other listings before.
        self._pace.record_reply(is_deep=False)
        self._next_at = 0.0
        self._wanted = 0.0
        self._changed = anyio.Event()
        self.last = Reading()
        self.required = 0.0

    async def start(self, *, must_read: bool, wait: float) -> None:
        """Find out whether the bids must be read before anything is offered, as the ledger may lack offers.

        Each of these is listed after `wait` seconds.
        """

        def begin(db: Database) -> effects.LastReading:
            if must_read or effects.last_reading(db, self._store.binding).payload is None:
                effects.require_reading(db, self._store.binding, db.now + wait)
            return effects.last_reading(db, self._store.binding)

        self._load(await self._store.run(begin))

    @property
    def is_wanted(self) -> bool:
        """`True` while something waits for a newer reading."""
        return self.last.began < max(self._wanted, self.required)

    async def since(self, began: float) -> Reading:
        """Return a reading that began then or later; `RetryLater` if it takes longer than a handler may wait."""
        remaining = anyio.current_effective_deadline() - anyio.current_time()
        with anyio.move_on_after(min(_MAX_WAIT, remaining / 2)):
            while self.last.began < max(began, self.required):
                self._wanted = max(self._wanted, began)
                self._wake()
                await self._changed.wait()
            return self.last
        delay = min(max(self.delay, _MIN_DELAY), _MAX_DELAY)
        raise RetryLater(delay, "your bids have to be read first, and that takes a moment")

    async def refresh(self) -> None:
        """Take over what other replicas have recorded."""
        self._load(await self._store.run(effects.last_reading, self._store.binding))

    @property
    def delay(self) -> float:
        """Seconds until the next reading may begin."""
        return max(0.0, self._next_at - anyio.current_time(), self.required - self._store.now)

    def skip(self) -> None:
        """Count a look at another listing as a reading."""
        self._next_at = anyio.current_time() + self._interval

    async def read(self) -> bool:
        """Read the listing once, unless another replica just has; return whether that succeeded."""
        await self.refresh()
        began, at = self._store.now, anyio.current_time()
        if not self.is_wanted and (age := began - self.last.began) < self._interval:
            self._next_at = at + self._interval - age
            return True
        try:
            bids = await self._bids.list().collect()
        except READ_ERRORS as error:
            if isinstance(error, LoginRejectedError):
                raise
            now = anyio.current_time()
            wait = self._pace.record_failure(now, error)
            self._next_at = now + wait
            _logger.warning("your bids cannot be read: %s; retrying in %.0f s", error, wait)
            return False
        self._pace.record_reply(is_deep=False)
        self._next_at = at + self._interval
        payload = json.dumps(
            [[bid.index, None if bid.amount is None else str(bid.amount), bid.currency] for bid in bids]
        ).encode()
        self._load(await self._store.run(self._record, began, payload), bids)
        return True

    def _record(self, db: Database, began: float, payload: bytes) -> effects.LastReading:
        """Record a reading. If it shows bids that nothing knows, further ones may be on their way to the listing."""
        required, repeats, before, earlier = effects.last_reading(db, self._store.binding)
        if began >= before:
            effects.record_reading(db, self._store.binding, began, payload)
        if before < required <= began and self._settle and not repeats:
            known, listed = _prices(earlier), _prices(payload)
            ledger: dict[int | None, list[Any]] = {}
            for effect in effects.prices(db, self._store.binding, [*listed]):
                ledger.setdefault(effect.subject, []).append(effect)
            lost = [
                request
                for request, prices in listed.items()
                if unknown_prices(prices, ledger.get(request, ())) - unknown_prices(known.get(request, ()), ())
            ]
            if lost:
                effects.require_reading(db, self._store.binding, began + self._settle, repeats=True)
                _logger.warning(
                    "%d requests have bids of yours that the bot's store lacks; nothing is offered for %.0f s, until"
                    " they have been read once more",
                    len(lost),
                    self._settle,
                )
        return effects.last_reading(db, self._store.binding)

    def _load(self, found: effects.LastReading, bids: Sequence[Bid] = ()) -> None:
        self.required, _, began, payload = found
        if payload is not None and began > self.last.began:
            self.last = Reading(began, _prices(payload), bids)
            self._changed.set()
            self._changed = anyio.Event()


def _prices(payload: bytes | None) -> dict[int, list[Price]]:
    found: dict[int, list[Price]] = {}
    for request, *price in json.loads(payload or b"[]"):
        found.setdefault(request, []).extend(prices_of([price]))
    return found
