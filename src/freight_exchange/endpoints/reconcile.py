"""Reconciliation: find out by reading whether a write took effect. It never sends a write.

Each kind of write has a function that draws a conclusion from the records of one reading, and `_settle` repeats the
readings. Servers round amounts, return total weights, omit fields, replace an earlier offer with a later one, and list
a selected offer alone: if a reply has two explanations, the result is a doubt.
"""

from __future__ import annotations

import copy
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
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
    from freight_exchange.endpoints.resources import Bids, Offers, Routes
    from freight_exchange.paging import Paginator

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


@attrs.define(eq=False)
class _Shared:
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
                number, pages = shared.begun, listing.pages()
                try:
                    records = [record async for page in pages for record in page]
                    shared.result = records, pages.is_complete
                except FreightExchangeError as error:
                    shared.result = error
                shared.number = number
            if isinstance(shared.result, FreightExchangeError):
                # A copy: one exception raised in many tasks would collect the tracebacks of all.
                raise copy.copy(shared.result)
            return shared.result

    def last(self, key: Hashable) -> Sequence[Any]:
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
    before = _checked(type(write), baseline)
    known = frozenset(record.index for record in before or ())

    def read_of(listing: Callable[..., Paginator[T]], conclude: Conclude[T], *, by_state: bool = False) -> Read:
        async def read(complete: bool) -> Reconciliation:
            pages = listing(sweep=complete)
            records, is_complete = await readings.read((pages.listed.operation, None, complete), pages)
            return _cautious(conclude(joined(records)), is_complete or by_state or not complete)

        return read

    match write:
        case SubmitOffer():
            read = _read_of_bids(bids, readings, write, before)
        case Publish():
            read = read_of(offers.list, partial(_publication, write.draft, known))
        case Respond():
            # The offer shows its state: an approval is not concluded from what is absent.
            read = read_of(offers.list, partial(_answer, write), by_state=write.approved)
        case CreateRoute():
            read = read_of(routes.list, partial(_created_route, write.draft, known))
        case UpdateRoute(route=route):
            old = next((one for one in before or () if one.index == route.index), write.before)
            read = read_of(routes.list, partial(_updated_route, route, old), by_state=True)
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
    ends_at = anyio.current_time() + 4 * settle + 60
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


def _checked(write: type, baseline: Sequence[object] | None) -> list[Any] | None:
    """Check that a baseline consists of records of the write's listing, as other indexes mean nothing here."""
    kind = {SubmitOffer: Bid, CreateRoute: Route, UpdateRoute: Route}.get(write, Listing)
    # An iterator would be empty at the second reading.
    if baseline is None or (isinstance(baseline, Sequence) and all(isinstance(one, kind) for one in baseline)):
        return None if baseline is None else [*baseline]
    raise ConfigurationError(f"the baseline of this write is a sequence of {kind.__name__}s, not of other records")


# Offers

_VIEWS: Final = (None, *BidsType)
"""Types of the listing. The document does not state which bids the plain one omits, and a service may refuse some."""
_COARSEST_ROUNDING: Final = Decimal(1)
"""Largest change of an amount by a server that rounds."""


def _read_of_bids(bids: Bids, readings: Readings, write: SubmitOffer, baseline: list[Bid] | None) -> Read:
    """Make a function that reads the views of the bids until one shows the offer, or leaves a doubt."""
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
            may_be_older = view is not None and baseline is not None
            found = _submitted_offer(write, baseline or (), listed, is_complete, may_be_older)
            if not isinstance(found, NotApplied):
                return found
            is_proof = is_proof and is_complete
        return _cautious(NotApplied(), is_proof or not complete)

    return read


def _submitted_offer(
    write: SubmitOffer, baseline: Sequence[Bid], bids: list[Bid], is_counted: bool, may_be_older: bool
) -> Reconciliation[Bid]:
    before = Counter((bid.amount, bid.currency) for bid in baseline if bid.index == write.request)
    here = [(bid, (bid.amount, bid.currency)) for bid in bids if bid.index == write.request]
    now = Counter(terms for _, terms in here)
    wanted = write.amount, write.currency
    # A row that moves appears twice in a reading that is not complete.
    if now[wanted] > before[wanted] and not may_be_older and (is_counted or not before[wanted]):
        return Applied([bid for bid, terms in here if terms == wanted][-1])

    def may_be_it(bid: Bid) -> bool:
        """Return whether the bid may be the offer, which replaced an equal earlier bid."""
        if bid.currency not in (None, write.currency):
            return False
        return bid.amount is None or EXACT.subtract(bid.amount, write.amount).copy_abs() <= _COARSEST_ROUNDING

    doubtful = [bid for bid, terms in here if now[terms] > before[terms] or may_be_it(bid)]
    return StillUnknown(tuple(dict.fromkeys(doubtful))) if doubtful else NotApplied()


# Publications

_COARSEST_VOLUME: Final = Decimal("0.15")
"""Largest relative change of a volume by a server that rounds dimensions."""


def _publication(draft: RateRequestDraft, known: frozenset[int], listings: list[Listing]) -> Reconciliation[Listing]:
    """Look for a new request with the same commodity, lane, quantity, volume and weight. Most may be missing."""
    words = _words(draft.commodity, draft.origin, draft.destination)
    weights = draft.weight, EXACT.multiply(draft.weight, Decimal(draft.quantity))
    near: list[Listing] = []
    for one in (listing for listing in listings if listing.index not in known):
        listed = _words(one.commodity, one.origin, one.destination)
        is_named = listed == words
        is_measured = one.volume is not None and one.quantity == draft.quantity and one.weight in weights
        if one.volume is not None and one.volume != draft.volume:
            is_near = is_named and abs(one.volume - draft.volume) <= draft.volume * _COARSEST_VOLUME
        elif is_named and is_measured:
            return Applied(one)
        else:
            agrees = all(word in ("", ours) for word, ours in zip(listed, words, strict=True))
            agrees = agrees and one.quantity in (None, draft.quantity) and one.weight in (None, *weights)
            is_near = is_named or is_measured or agrees
        near += [one] if is_near else []
    return StillUnknown(tuple(near)) if near else NotApplied()


def _words(*words: str | None) -> tuple[str, ...]:
    return tuple(" ".join((word or "").split()).casefold() for word in words)


# Answers


@attrs.frozen(eq=False, repr=False)
class _Gone(Applied[Listing]):
    """A declined offer that is no longer listed. It is proof only if it lasts, since a listing may be out of date."""


def _answer(write: Respond, listings: list[Listing]) -> Reconciliation[Listing]:
    """Look at the state of the offer. The selection of another offer contradicts an approval."""
    for listing in listings:
        for offer in listing.offers:
            if offer.id == write.offer:
                return _state(write, listing, offer.status)
    without = next((listing for listing in listings if listing.index == write.request), None)
    if without is None:
        return StillUnknown()
    # The offer was declined, or its forwarder has withdrawn it.
    if without.selected is None and not write.approved:
        return _Gone(without)
    # A selected offer may be listed alone, so beside one it may be missing without a decline.
    is_lost = write.approved and without.selected is not None and without.selected.id is not None
    return Conflict(without) if is_lost else StillUnknown((without,))


def _state(write: Respond, listing: Listing, status: object) -> Reconciliation[Listing]:
    is_selected = status == OfferStatus.SELECTED
    if is_selected or status in DECLINED:
        return Applied(listing) if is_selected is write.approved else Conflict(listing)
    is_pending = status == OfferStatus.PENDING
    if listing.selected is not None and (write.approved or is_pending):
        return Conflict(listing)
    return NotApplied() if is_pending else StillUnknown((listing,))


# Routes

_VOYAGE: Final = ("origin", "destination", "carrier", "vessel", "voyage_id")
_TIMES: Final = ("cy_cutoff", "cfs_cutoff", "departure", "arrival")


def _created_route(draft: RouteDraft, known: frozenset[int], routes: list[Route]) -> Reconciliation[Route]:
    near: list[Route] = []
    for route in (route for route in routes if route.index not in known):
        different, is_whole = _differences(route, draft)
        if is_whole and not different:
            return Applied(route)
        # A service may spell one word differently, or hide fields.
        is_respelt = len(different) == 1 and "carrier" not in different
        near += [route] if different.isdisjoint(_VOYAGE) or is_respelt else []
    return StillUnknown(tuple(near)) if near else NotApplied()


def _updated_route(new: Route, old: Route | None, routes: list[Route]) -> Reconciliation[Route]:
    """Compare the route with what was sent, and with what it was before. If it is neither, another party wrote it."""
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
