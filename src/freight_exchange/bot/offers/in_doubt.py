"""Resolver of offers in doubt: check whether the service has one, until it is known or a person must decide."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

import anyio

from freight_exchange.bot.offers.existing_bids import merge_bids
from freight_exchange.bot.offers.own_updates import changed_by_offer
from freight_exchange.bot.offers.record import RESOLVED, UNSETTLED, describe_unsent, manual_changes
from freight_exchange.bot.offers.repository import ChangedElsewhereError, changed_elsewhere_error
from freight_exchange.bot.writes.late_writes import LateWrites
from freight_exchange.bot.writes.record_versions import is_version
from freight_exchange.endpoints.reconcile import time_limit
from freight_exchange.errors import READ_ERRORS, ValidationError
from freight_exchange.models import Applied, Bid, NotApplied, StillUnknown

if TYPE_CHECKING:
    from freight_exchange.bot.metrics.metrics import Metrics
    from freight_exchange.bot.offers.record import OfferRecord, State
    from freight_exchange.bot.offers.repository import OfferRepository
    from freight_exchange.client import FreightExchange
    from freight_exchange.models import Reconciliation

__all__ = ["InDoubtResolver"]

T = TypeVar("T")

_logger = logging.getLogger("freight_exchange.bot")

_MAX_CHECKS: Final = 3
_FIRST_PAUSE, _MAX_PAUSE = 1.0, 60.0
_RETRY_PAUSE, _RETRY_PAUSE_EACH = 2.0, 0.1
"""Minimum seconds, and seconds for each offer in doubt: each retry of a delivery costs two commits."""
_OTHERS_PAUSE: Final = 5.0
_CONCURRENCY: Final = 100
"""Limit of checks at a time. They share their readings of the listings, and each takes the settle time."""

_MAX_RESENDS: Final = 3
_CHECK_FACTOR: Final = 4
"""If the service lists offers later than `settle`, absence proves nothing. So each resend of an offer is checked four
times as long as the one before, and there are at most three."""


class InDoubtResolver:
    """Resolver of offers in doubt.

    Args:
        exchange: The client.
        repository: Stores the results.
        metrics: Counts results.
        settle: Time that the service may take to list an offer.

    Attributes:
        wake: Called when a delivery may have become ready again.
    """

    wake: Callable[[], None]

    def __init__(
        self, exchange: FreightExchange, repository: OfferRepository, metrics: Metrics, *, settle: timedelta
    ) -> None:
        self._exchange = exchange
        self._repository = repository
        self._metrics = metrics
        self._settle = settle
        self._slots = anyio.CapacityLimiter(_CONCURRENCY)
        self._unresolved: dict[str, OfferRecord] = {}
        self._being_recorded: dict[str, anyio.Event] = {}
        self._late_writes = LateWrites()
        self.wake = _ignore

    def retry_pause(self, request: int | None, *, handler: str | None = None) -> float | None:
        """Return the seconds before a delivery may retry; `None` without a doubt on its request, or by the handler."""
        found = [record for record in self._unresolved.values() if record.request == request]
        found = [record for record in found if handler in (None, record.handler)]
        if not found:
            return None
        if all(record.parked for record in found):
            return _MAX_PAUSE
        return min(max(_RETRY_PAUSE, _RETRY_PAUSE_EACH * len(self._unresolved)), _MAX_PAUSE)

    async def delivery_pause(self, request: int | None, *, handler: str | None) -> float | None:
        """Return the same as `retry_pause`, but consider the doubts of all replicas."""
        pause = self.retry_pause(request, handler=handler)
        if pause is not None or request is None:
            return pause
        records = [record for record in await self._repository.find(request) if record.state in UNSETTLED]
        return _OTHERS_PAUSE if any(handler in (None, record.handler) for record in records) else None

    def records(self) -> tuple[OfferRecord, ...]:
        """Return the offers in doubt, the oldest first."""
        return tuple(sorted(self._unresolved.values(), key=lambda record: (record.in_doubt_since, record.key)))

    async def wait_recorded(self, key: str) -> None:
        """Wait until the result of a check is recorded, if one is being recorded."""
        while (recorded := self._being_recorded.get(key)) is not None:
            await recorded.wait()

    def add(self, record: OfferRecord) -> None:
        """Add an offer; `resolve` follows."""
        self._unresolved[record.key] = record

    async def resolve(self, record: OfferRecord, wait: float = 0.0) -> None:
        """Check an offer until it is found, absent, or decided elsewhere. It may still arrive for `wait` seconds."""
        if wait:
            await self._late_writes.wait(record, wait)
        try:
            await self._resolve(record)
        except ChangedElsewhereError as error:
            _logger.warning("%s is no longer checked: %s", record, error, extra={"request": record.request})
            self.wake()

    async def _resolve(self, record: OfferRecord) -> None:
        while not record.parked:
            result = await self._check(record)
            # A person may have resolved it meanwhile. The result says nothing about a newer doubt that began since.
            if not self._take(record):
                return
            match result:
                case Applied(record=Bid() as bid):
                    changes = {"bid": bid, "changed_fields": changed_by_offer(bid, record.fields_before)}
                    await self._close(record, "confirmed", why="it was found among your bids", **changes)
                    return
                case NotApplied() if record.resends < _MAX_RESENDS:
                    resends = record.resends + 1
                    await self._close(record, "intent", resends=resends, why="it was not taken")
                    return
                case NotApplied():
                    record = await self._keep(record, parked=True)
                case _:
                    checks = record.checks + 1
                    record = await self._keep(record, checks=checks, parked=checks >= _MAX_CHECKS)
        _logger.critical(
            "%s is parked: no check can prove whether it was taken; look at the service's own pages, and resolve it by"
            " hand",
            record,
            extra={"request": record.request, "revision": record.revision, "amount": str(record.amount)},
        )
        await self._await_decision(record)

    async def _await_decision(self, record: OfferRecord) -> None:
        """Wait until a person has decided a parked offer, perhaps by a command, which changes the store alone."""
        while self._unresolved.get(record.key) is record:
            await anyio.sleep(_MAX_PAUSE)
            stored = await self._repository.find_one(record.request, record.key)
            if not is_version(stored, record) and self._take(record):
                raise changed_elsewhere_error(record)

    async def decide(self, record: OfferRecord, *, taken: bool) -> None:
        """Resolve an offer by a person's decision. Runs in a task that only the bot's end cancels: see `_record`.

        Raises:
            ValidationError: It is not in doubt any more, it may still arrive, or `taken` is not a boolean.
        """
        changes = manual_changes(record, taken=taken)
        if not taken:
            self._late_writes.check(record)
        if not self._take(record):
            raise ValidationError(f"{record} is not in doubt any more", field="request")
        await self._close(record, why=f"a person decided that it was {'taken' if taken else 'not taken'}", **changes)

    def _take(self, record: OfferRecord) -> bool:
        """Take an offer to record its result, and return whether it was still there."""
        if self._unresolved.get(record.key) is not record:
            return False
        del self._unresolved[record.key]
        return True

    async def _close(self, record: OfferRecord, state: State, *, why: str, **changes: Any) -> None:
        changes, fields = {**RESOLVED, **changes}, {"request": record.request}
        if state == "confirmed":
            await self._record(record, self._repository.advance(record, state, step="resolved", **changes))
            self._metrics.offers["confirmed"] += 1
            _logger.warning("%s is no longer in doubt: %s", record, why, extra=fields)
            return
        is_sent_again = await self._record(record, self._repository.return_to_handler(record, **changes))
        self._metrics.offers["not taken"] += 1
        if is_sent_again:
            self.wake()
            then = "its handler sends it again"
            _logger.warning("%s is no longer in doubt: %s, and %s", record, why, then, extra=fields)
        else:
            then = describe_unsent(record, is_final=is_sent_again is False)
            _logger.error("%s is no longer in doubt: %s, and %s", record, why, then, extra=fields)

    async def _keep(self, record: OfferRecord, **changes: Any) -> OfferRecord:
        """Record that an offer stays in doubt, and return the new record."""
        write = self._repository.advance(record, "unknown", step="resolved", **changes)
        self._unresolved[record.key] = changed = await self._record(record, write)
        return changed

    async def _record(self, record: OfferRecord, write: Awaitable[T]) -> T:
        """Await a write. After an error nothing was written, and the offer stays in doubt, unless it has changed.

        A cancelled write may continue without its caller, so only the bot's end may cancel this.
        """
        recorded = self._being_recorded[record.key] = anyio.Event()
        try:
            return await write
        except ChangedElsewhereError:
            raise
        except BaseException:
            self._unresolved[record.key] = record
            raise
        finally:
            del self._being_recorded[record.key]
            recorded.set()

    async def _check(self, record: OfferRecord) -> Reconciliation:
        """Check an offer by reading, repeated until a reading succeeds."""
        pause = _FIRST_PAUSE
        settle = self._settle.total_seconds()
        # An absent offer is checked again until then; each check takes a whole settle time.
        until = anyio.current_time() + settle * (_CHECK_FACTOR**record.resends - 1)
        slowness = 1
        while True:
            wait, is_slow = pause, False
            try:
                async with self._slots:
                    baseline, began = await self._baseline(record), anyio.current_time()
                    result = await self._exchange.reconcile(
                        record.write, settle=self._settle * slowness, baseline=baseline
                    )
                    if result == StillUnknown():
                        # An unreadable bid takes the settle time; readings that do not end in time take the limit.
                        is_slow = anyio.current_time() - began > time_limit(settle * slowness) / 2
                        # No similar bid was seen. This raises if the bids cannot be read at all.
                        await self._exchange._own_bids()
            except READ_ERRORS as error:
                _logger.warning(
                    "%s cannot be checked yet: %s; retrying", record, error, extra={"request": record.request}
                )
            else:
                if is_slow:
                    slowness *= 2
                    _logger.warning(
                        "%s cannot be checked yet: reading all your bids takes too long; retrying with twice the time",
                        record,
                        extra={"request": record.request},
                    )
                    continue
                if not isinstance(result, NotApplied) or anyio.current_time() >= until:
                    return result
                # Absence proves nothing before then, and each check reads whole listings.
                wait = max(pause, (until - anyio.current_time()) / 2)
            await anyio.sleep(wait)
            pause = min(2 * pause, _MAX_PAUSE)

    async def _baseline(self, record: OfferRecord) -> list[Bid]:
        """Return the account's bids on the request that are not this offer.

        Those of the ledger are included: the service may list them late.
        """
        others = [other.bid for other in await self._repository.find(record.request) if other.key != record.key]
        return merge_bids(record.baseline, [bid for bid in others if bid is not None])


def _ignore() -> None:
    """Wake nothing."""
