"""Reconciliation: find out by reading whether a write took effect. It never sends a write.

Each kind of write has a function that draws a conclusion from the records of one reading. `_settle` repeats the
readings: presence is proof at once, and all else counts only if complete readings at the start and at the end of the
settle time agree.

Conclusions are cautious. Servers round amounts, return total weights, omit fields, replace an earlier offer with a
later one, and list a selected offer alone. If a reply has two explanations, the result is a doubt.
"""

from __future__ import annotations

import copy
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, TypeVar

import anyio
import attrs

from freight_exchange.base import EXACT
from freight_exchange.endpoints.service import joined
from freight_exchange.errors import (
    READ_ERRORS,
    BadRequestError,
    ConfigurationError,
    FreightExchangeError,
    LoginRejectedError,
    ValidationError,
    is_from_login,
    retry_delay,
)
from freight_exchange.models import (
    Applied,
    Bid,
    BidsType,
    Conflict,
    CreateRoute,
    Listing,
    NotApplied,
    OfferStatus,
    Publish,
    RateRequestDraft,
    Reconciliation,
    Respond,
    Route,
    RouteDraft,
    StillUnknown,
    SubmitOffer,
    UpdateRoute,
    Write,
)
from freight_exchange.validation import find_zone
from freight_exchange.words import DECLINED

if TYPE_CHECKING:
    from freight_exchange.endpoints.bids import Bids
    from freight_exchange.endpoints.offers import Offers
    from freight_exchange.endpoints.routes import Routes
    from freight_exchange.paging import Paginator

__all__ = ["Readings", "reconcile", "time_limit"]

T = TypeVar("T")

_logger = logging.getLogger("freight_exchange.reconcile")

Read = Callable[[bool], Awaitable[Reconciliation]]
"""Function that reads the listings, completely or by one pass, and draws a conclusion."""
Conclude = Callable[[list[T]], Reconciliation]
"""Function that draws a conclusion from the records of one reading."""

_FIRST_PAUSE, _MAX_PAUSE = 0.5, 8.0
_SHARE_OF_SETTLE: Final = 0.125
"""Pause between readings, as a share of the settle time, so that a long settle time needs few readings."""
_MIN_PAUSE: Final = 0.001
"""Shortest pause in seconds. Without a pause, a clock that moves only while tasks sleep would never move."""


def time_limit(settle: float) -> float:
    """Return the seconds after which a reconciliation whose readings fail gives up."""
    return 4 * settle + 60


@attrs.define(eq=False)
class _Shared:
    """Readings of one listing, one at a time."""

    lock: anyio.Lock = attrs.Factory(anyio.Lock)
    begun: int = 0
    number: int = 0
    result: tuple[list[Any], bool] | FreightExchangeError = ([], False)


class Readings:
    """Readings of listings, shared by all callers that wait: each uses one that began after it came.

    So a hundred offers in doubt need one or two readings of the bids, not a hundred.

    Args:
        once: Whether one reading of each listing serves all callers, as they come together.
    """

    def __init__(self, *, once: bool = False) -> None:
        self._once = once
        self._by_key: dict[Hashable, _Shared] = {}

    async def read(self, key: Hashable, listing: Paginator[T]) -> tuple[list[T], bool]:
        """Return the records of a listing, and whether they are complete; raise the error of a reading for all."""
        shared = self._by_key.setdefault(key, _Shared())
        came = 0 if self._once else shared.begun
        async with shared.lock:
            if shared.number <= came:
                shared.begun += 1
                number, pages = shared.begun, aiter(listing)
                try:
                    records = [record async for record in pages]
                    shared.result = records, pages.is_complete
                except FreightExchangeError as error:
                    shared.result = error
                shared.number = number
            if isinstance(shared.result, FreightExchangeError):
                # A copy: one exception raised in many tasks would collect the tracebacks of all.
                raise copy.copy(shared.result)
            return shared.result

    def last(self, key: Hashable) -> Sequence[Any]:
        """Return the records of the last reading of a listing."""
        shared = self._by_key.get(key)
        return () if shared is None or isinstance(shared.result, FreightExchangeError) else shared.result[0]


async def reconcile(
    bids: Bids,
    offers: Offers,
    routes: Routes,
    readings: Readings,
    write: Write,
    *,
    settle: timedelta,
    baseline: Sequence[object] | None,
    has_settled: bool | None = None,
) -> Reconciliation:
    """Find out whether the write happened, in about the settle time; no deadline of the client applies.

    A caller that waits on its own says whether the settle time `has_settled`: one complete reading decides then. The
    listings of the resources skip unreadable records. The `baseline` was listed before the write was sent.
    """
    if not isinstance(settle, timedelta) or settle < timedelta(0):
        raise ValidationError("settle must be a timedelta that is not negative", field="settle")

    checked = _checked(_BASELINES[type(write)], baseline) if type(write) in _BASELINES else None
    indexes = frozenset(getattr(record, "index", None) for record in checked or ())

    def read_of(
        name: str, listing: Callable[..., Paginator[T]], conclude: Conclude[T], *, by_state: bool = False
    ) -> Read:
        async def read(complete: bool) -> Reconciliation:
            records, is_complete = await readings.read((name, None, complete), listing(sweep=complete))
            return _cautious(conclude(joined(records)), is_complete or by_state or not complete)

        return read

    match write:
        case SubmitOffer():
            read = _read_of_bids(bids, readings, write, checked)
        case Publish():
            read = read_of("offers", offers.list, publication(write.draft, indexes))
        case Respond():
            # The offer shows its state: an approval is not concluded from what is absent.
            read = read_of("offers", offers.list, answer(write), by_state=write.approved)
        case CreateRoute():
            read = read_of("routes", routes.list, created_route(write.draft, indexes))
        case UpdateRoute(route=route):
            known = [*(checked or ()), *([] if write.before is None else [write.before])]
            before = next((one for one in known if one.index == route.index), None)
            read = read_of("routes", routes.list, updated_route(route, before), by_state=True)
        case _:
            return StillUnknown()
    if has_settled is None:
        return await _settle(read, settle.total_seconds())
    found = await read(True)
    if isinstance(found, _Gone):
        return Applied(found.record) if has_settled else StillUnknown()
    return found


async def _settle(read: Read, settle: float) -> Reconciliation:
    """Read until the write is found, or until complete readings at the start and the end of the settle time agree.

    A result other than `Applied` must last for the settle time, since the service may still show the time before the
    write. Between the two complete readings there are single passes, from which absence does not follow.
    """
    ends_at = anyio.current_time() + time_limit(settle)
    agreed: type[Reconciliation] | None = None
    until, pause = 0.0, _FIRST_PAUSE
    doubt = StillUnknown()
    while True:
        began, wait = anyio.current_time(), pause
        complete = agreed is None or began >= until
        try:
            found: Reconciliation | None = None
            with anyio.CancelScope(deadline=ends_at):
                found = await read(complete)
            if found is None:
                return doubt
        except READ_ERRORS as error:
            if isinstance(error, LoginRejectedError):
                raise
            _logger.info("a reading failed: %s; the settle time starts again", error)
            agreed = None
            wait = max(wait, retry_delay(error) or 0.0)
        else:
            if isinstance(found, Applied) and not isinstance(found, _Gone):
                return found
            if isinstance(found, StillUnknown):
                doubt = found
            if agreed is not type(found) and (complete or not isinstance(found, NotApplied)):
                agreed, until = type(found), began + settle
            elif complete:
                return Applied(found.record) if isinstance(found, _Gone) else found
            wait = min(wait, until - anyio.current_time())
        wait = max(wait, _MIN_PAUSE)
        if anyio.current_time() + wait > ends_at:
            return doubt
        await anyio.sleep(wait)
        pause = min(2 * pause, max(_MAX_PAUSE, _SHARE_OF_SETTLE * settle))


def _cautious(found: Reconciliation, is_complete: bool) -> Reconciliation:
    """Return a doubt in place of an absence that a reading with gaps or unreadable rows cannot prove."""
    return found if is_complete or not isinstance(found, NotApplied | _Gone) else StillUnknown()


_BASELINES: Final[Mapping[type, type]] = {
    SubmitOffer: Bid, Publish: Listing, Respond: Listing, CreateRoute: Route, UpdateRoute: Route,
}  # fmt: skip


def _checked(kind: type, baseline: Sequence[object] | None) -> list[Any] | None:
    """Check that a baseline consists of records of the write's listing, as other indexes mean nothing here."""
    if baseline is None:
        return None
    # An iterator would be empty at the second reading.
    if isinstance(baseline, Sequence) and all(isinstance(record, kind) for record in baseline):
        return [*baseline]
    raise ConfigurationError(f"the baseline of this write is a sequence of {kind.__name__}s, not of other records")


# Offers

_VIEWS: Final = (None, *BidsType)
"""Types of the listing. The document does not state which bids the plain one omits, and a service may refuse some."""
_COARSEST_ROUNDING: Final = Decimal(1)
"""Largest change of an amount by a server that rounds."""


def _read_of_bids(bids: Bids, readings: Readings, write: SubmitOffer, baseline: list[Bid] | None) -> Read:
    """Make a function that reads the views of the bids until one shows the offer, or leaves a doubt."""
    conclude = submitted_offer(write, baseline)
    served: set[BidsType | None] = set()

    async def read(complete: bool) -> Reconciliation:
        is_proof = True
        for view in _VIEWS if complete else _VIEWS[:1]:
            try:
                listing = bids.list(type=view, sweep=complete)
                listed, is_complete = await readings.read(("bids", view, complete), listing)
            except BadRequestError as error:
                # A view that was served before fails now; it is not refused.
                if view is None or view in served or is_from_login(error):
                    raise
                continue
            served.add(view)
            # A baseline is from the plain listing: a bid that only another view shows may be older.
            found = conclude(listed, is_counted=is_complete, may_be_older=view is not None and baseline is not None)
            if not isinstance(found, NotApplied):
                return found
            is_proof = is_proof and is_complete
        return _cautious(NotApplied(), is_proof or not complete)

    return read


def submitted_offer(write: SubmitOffer, baseline: list[Bid] | None) -> Callable[..., Reconciliation[Bid]]:
    """Look for one more bid of the account on the request with this price and currency."""
    before = Counter(_terms(bid) for bid in baseline or () if bid.index == write.request)
    wanted = write.amount, write.currency

    def may_be_it(bid: Bid) -> bool:
        """Return whether the bid may be the offer, which replaced an equal earlier bid."""
        if bid.currency not in (None, write.currency):
            return False
        return bid.amount is None or EXACT.subtract(bid.amount, write.amount).copy_abs() <= _COARSEST_ROUNDING

    def conclude(bids: list[Bid], *, is_counted: bool, may_be_older: bool) -> Reconciliation[Bid]:
        here = [bid for bid in bids if bid.index == write.request]
        now = Counter(map(_terms, here))
        # A row that moves appears twice in a reading that is not complete.
        if now[wanted] > before[wanted] and not may_be_older and (is_counted or not before[wanted]):
            return Applied([bid for bid in here if _terms(bid) == wanted][-1])
        doubtful = [bid for bid in here if now[_terms(bid)] > before[_terms(bid)] or may_be_it(bid)]
        return StillUnknown(tuple(dict.fromkeys(doubtful))) if doubtful else NotApplied()

    return conclude


def _terms(bid: Bid) -> tuple[object, object]:
    return bid.amount, bid.currency


# Publications

_COARSEST_VOLUME: Final = Decimal("0.15")
"""Largest relative change of a volume by a server that rounds dimensions."""


def publication(draft: RateRequestDraft, before: frozenset[object]) -> Conclude[Listing]:
    """Look for a new request with the same commodity, lane, quantity, volume and weight. Most may be missing."""
    words = _words(draft.commodity, draft.origin, draft.destination)
    weights = draft.weight, EXACT.multiply(draft.weight, Decimal(draft.quantity))

    def likeness(one: Listing) -> Reconciliation[Listing]:
        listed = _words(one.commodity, one.origin, one.destination)
        is_named = listed == words
        if one.volume not in (None, draft.volume):
            assert one.volume is not None
            is_near = is_named and abs(one.volume - draft.volume) <= draft.volume * _COARSEST_VOLUME
            return StillUnknown((one,)) if is_near else NotApplied()
        is_measured = one.volume is not None and one.quantity == draft.quantity and one.weight in weights
        if is_named and is_measured:
            return Applied(one)
        agrees = (
            all(word in ("", ours) for word, ours in zip(listed, words, strict=True))
            and one.quantity in (None, draft.quantity)
            and one.weight in (None, *weights)
        )
        return StillUnknown((one,)) if is_named or is_measured or agrees else NotApplied()

    return lambda listings: _best(likeness(one) for one in listings if one.index not in before)


def _words(*words: str | None) -> tuple[str, ...]:
    return tuple(" ".join((word or "").split()).casefold() for word in words)


def _best(found: Iterable[Reconciliation]) -> Reconciliation[Any]:
    """Return the proof among conclusions about single records, or a doubt about all that are similar."""
    near: list[Any] = []
    for one in found:
        if isinstance(one, Applied):
            return one
        near += one.candidates if isinstance(one, StillUnknown) else ()
    return StillUnknown(tuple(near)) if near else NotApplied()


# Answers


@attrs.frozen(eq=False, repr=False)
class _Gone(Applied[Listing]):
    """A declined offer that is no longer listed. It is proof only if it lasts, since a listing may be out of date."""


def answer(write: Respond) -> Conclude[Listing]:
    """Look at the state of the offer. The selection of another offer contradicts an approval."""

    def conclude(listings: list[Listing]) -> Reconciliation[Listing]:
        without: Listing | None = None
        for listing in listings:
            for offer in listing.offers:
                if offer.id == write.offer:
                    return state(listing, offer.status)
            if listing.index == write.request:
                without = listing
        if without is None:
            return StillUnknown()
        if write.approved:
            # A selected offer is listed alone.
            is_lost = without.selected is not None and without.selected.id is not None
            return Conflict(without) if is_lost else StillUnknown((without,))
        # The offer was declined, or its forwarder has withdrawn it. A selected offer may be listed alone, so beside one
        # it may be missing without a decline.
        return _Gone(without) if without.selected is None else StillUnknown((without,))

    def state(listing: Listing, status: object) -> Reconciliation[Listing]:
        if status == OfferStatus.SELECTED:
            return Applied(listing) if write.approved else Conflict(listing)
        if status in DECLINED:
            return Conflict(listing) if write.approved else Applied(listing)
        is_pending = status == OfferStatus.PENDING
        if listing.selected is not None and (write.approved or is_pending):
            return Conflict(listing)
        return NotApplied() if is_pending else StillUnknown((listing,))

    return conclude


# Routes

_VOYAGE: Final = ("origin", "destination", "carrier", "vessel", "voyage_id")
_SPELLED: Final = frozenset(_VOYAGE) - {"carrier"}
_TIMES: Final = ("cy_cutoff", "cfs_cutoff", "departure", "arrival")


def created_route(draft: RouteDraft, before: frozenset[object]) -> Conclude[Route]:
    """Look for a new route with the same fields."""

    def likeness(route: Route) -> Reconciliation[Route]:
        different, is_whole = _differences(route, draft)
        if is_whole and not different:
            return Applied(route)
        # A service may spell one word differently, or hide fields.
        is_respelt = len(different) == 1 and different <= _SPELLED
        return StillUnknown((route,)) if different.isdisjoint(_VOYAGE) or is_respelt else NotApplied()

    return lambda routes: _best(likeness(route) for route in routes if route.index not in before)


def updated_route(new: Route, old: Route | None) -> Conclude[Route]:
    """Compare the route with what was sent, and with what it was before. If it is neither, another party wrote it."""

    def conclude(routes: list[Route]) -> Reconciliation[Route]:
        route = next((route for route in routes if route.index == new.index), None)
        if route is None:
            return StillUnknown()
        different, is_whole = _differences(route, new)
        if is_whole and not different:
            return Applied(route)
        # If fields are missing, a route that another client wrote may look like the new one.
        if not different or old is None:
            return StillUnknown((route,))
        different, is_whole = _differences(route, old)
        if different:
            return Conflict(route)
        # An old route with missing fields, which was never read completely, agrees with too much.
        return NotApplied() if is_whole else StillUnknown((route,))

    return conclude


def _differences(listed: Route, sent: Route | RouteDraft) -> tuple[frozenset[str], bool]:
    """Return the fields that both routes have and that differ, and whether both have the same fields."""
    ours, theirs = _facts(sent), _facts(listed)
    pairs = {name: (fact, theirs[name]) for name, fact in ours.items()}
    different = frozenset(name for name, pair in pairs.items() if None not in pair and pair[0] != pair[1])
    return different, all((fact is None) == (theirs[name] is None) for name, fact in ours.items())


def _facts(route: Route | RouteDraft) -> dict[str, object]:
    """Return the fields that a client sends, as the service writes them; `None` for a missing or unreadable one."""
    zone = find_zone(route.timezone) if route.timezone else None
    facts: dict[str, object] = {}
    for name in (*_VOYAGE, "timezone", *_TIMES):
        value = getattr(route, name)
        if isinstance(value, str):
            value = _words(value)[0] or None
        elif isinstance(value, datetime):
            value = value.astimezone(zone) if zone is not None and value.tzinfo is not None else value
            value = value.replace(tzinfo=None, microsecond=0, fold=0)
        facts[name] = value
    return facts
