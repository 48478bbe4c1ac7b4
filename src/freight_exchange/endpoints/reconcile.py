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
from typing import TYPE_CHECKING, Any, Final, TypeVar

import anyio
import attrs

from freight_exchange.base import EXACT
from freight_exchange.endpoints.resources import BIDS, OFFERS, ROUTES
from freight_exchange.endpoints.service import Service, joined
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
from freight_exchange.wire import encode_list_parameters
from freight_exchange.words import DECLINED

if TYPE_CHECKING:
    from freight_exchange.paging import Listed, Paginator

T = TypeVar("T")

_logger = logging.getLogger("freight_exchange.reconcile")

_FIRST_PAUSE, _MAX_PAUSE = 0.5, 8.0
_SHARE_OF_SETTLE: Final = 0.125
"""Pause between readings, as a share of the settle time, so that a long settle time needs few readings."""
_MIN_PAUSE: Final = 0.001
"""Shortest pause in seconds. Without a pause, a clock that moves only while tasks sleep would never move."""


@attrs.frozen
class _Absence:
    """Conclusion from what a reading lacks: it follows only from complete readings, and only if it lasts."""

    result: Applied | NotApplied


_Conclusion = Reconciliation | _Absence
_NOT_APPLIED: Final = _Absence(NotApplied())

_VIEWS: Final = (None, *BidsType)
"""Types of the listing of bids. The document does not state which bids the plain one omits."""


@attrs.define(eq=False)
class _Shared:
    lock: anyio.Lock = attrs.Factory(anyio.Lock)
    number: int = 0
    result: tuple[list[Any], bool] | FreightExchangeError = ([], False)


class SharedReadings:
    """Readings of listings, shared by all callers that wait: each uses one that began after it came.

    So a hundred offers in doubt need one or two readings of the bids, not a hundred.
    """

    def __init__(self) -> None:
        self._begun = 0
        self._by_listing: dict[Hashable, _Shared] = {}

    async def read(self, listing: Paginator[T], came: int | None = None) -> tuple[list[T], bool]:
        """Return the records of a listing, and whether they are complete; raise the error of a reading for all.

        All callers that say they `came` before the first reading share that one.
        """
        came = self._begun if came is None else came
        key = listing.listed.operation, *listing.listed.parameters.items(), listing.sweep
        shared = self._by_listing.setdefault(key, _Shared())
        async with shared.lock:
            if shared.number <= came:
                self._begun += 1
                number, pages = self._begun, listing.pages()
                try:
                    shared.result = [record async for page in pages for record in page], pages.is_complete
                except FreightExchangeError as error:
                    shared.result = error
                shared.number = number
            if isinstance(shared.result, FreightExchangeError):
                # A copy: one exception raised in many tasks would collect the tracebacks of all.
                raise copy.copy(shared.result)
            return shared.result


async def reconcile(
    service: Service,
    readings: SharedReadings,
    write: Write,
    *,
    settle: timedelta,
    baseline: Sequence[object] | None,
    has_settled: bool | None = None,
) -> Reconciliation:
    """Find out whether the write happened, in about the settle time; no deadline of the client applies.

    A caller that waits on its own says whether the settle time `has_settled`: one complete reading decides then, which
    all such callers share. The service skips unreadable records. The `baseline` was listed before the write was sent.
    """
    if not isinstance(settle, timedelta) or settle < timedelta(0):
        raise ValidationError("settle must be a timedelta that is not negative", field="settle")
    if type(write) not in _KINDS:
        return StillUnknown()
    kind, listed, conclude = _KINDS[type(write)]
    # An iterator would be empty at the second reading.
    if baseline is not None and not (isinstance(baseline, Sequence) and all(isinstance(one, kind) for one in baseline)):
        raise ConfigurationError(f"the baseline of this write is a sequence of {kind.__name__}s, not of other records")
    before = None if baseline is None else [*baseline]
    views = [listed._replace(parameters=encode_list_parameters(type=view)) for view in _VIEWS]
    views = views if listed is BIDS else [listed]
    served: set[int] = set()

    async def read(complete: bool) -> _Conclusion:
        found, is_proof = _NOT_APPLIED, True
        for number, view in enumerate(views if complete else views[:1]):
            listing = service.listing(view, sweep=complete)
            try:
                records, is_complete = await readings.read(listing, None if has_settled is None else 0)
            except BadRequestError as error:
                # A service may refuse a type, but not the plain listing or a type that it has served before.
                if number == 0 or number in served or is_from_login(error):
                    raise
                continue
            served.add(number)
            conclusion = conclude(write, before, records, is_complete, number == 0)
            if not isinstance(conclusion, _Absence):
                return conclusion
            found, is_proof = conclusion, is_proof and is_complete
        return found if is_proof or not complete else StillUnknown()

    if has_settled is None:
        return await _settle(read, settle.total_seconds())
    found = await read(True)
    if isinstance(found, _Absence):
        return found.result if has_settled else StillUnknown()
    return found


async def _settle(read: Callable[[bool], Awaitable[_Conclusion]], settle: float) -> Reconciliation:
    """Read until the write is found, or until complete readings at the start and the end of the settle time agree.

    A result other than `Applied` must last for the settle time, since the service may still show the time before the
    write. Between the two complete readings there are single passes, from which absence does not follow.
    """
    agreed: type[_Conclusion] | None = None
    until, pause = 0.0, _FIRST_PAUSE
    doubt: Reconciliation = StillUnknown()
    with anyio.move_on_after(4 * settle + 60):
        while True:
            began, wait = anyio.current_time(), pause
            complete = agreed is None or began >= until
            try:
                found = await read(complete)
            except READ_ERRORS as error:
                if isinstance(error, LoginRejectedError):
                    raise
                _logger.info("a reading failed: %s; the settle time starts again", error)
                agreed = None
                wait = max(wait, retry_delay(error) or 0.0)
            else:
                if isinstance(found, Applied):
                    return found
                if isinstance(found, StillUnknown):
                    doubt = found
                if agreed is not type(found) and (complete or not isinstance(found, _Absence)):
                    agreed, until = type(found), began + settle
                elif complete:
                    return found.result if isinstance(found, _Absence) else found
                wait = min(wait, until - anyio.current_time())
            await anyio.sleep(max(wait, _MIN_PAUSE))
            pause = min(2 * pause, max(_MAX_PAUSE, _SHARE_OF_SETTLE * settle))
    return doubt


# Conclusions from the baseline and the records of one reading


_COARSEST_ROUNDING: Final = Decimal(1)
"""Largest change of an amount by a server that rounds."""


def _offer(
    write: SubmitOffer, baseline: list[Bid] | None, bids: list[Bid], is_complete: bool, is_plain: bool
) -> _Conclusion:
    """Look for a bid on the request with this price, and more often than in the baseline."""
    # A baseline is from the plain listing: a bid that only another view shows may be older.
    is_comparable = is_plain or baseline is None
    before = Counter((bid.amount, bid.currency) for bid in baseline or () if bid.index == write.request)
    here = [(bid, (bid.amount, bid.currency)) for bid in bids if bid.index == write.request]
    now = Counter(price for _, price in here)
    wanted = write.amount, write.currency
    # A row that moves appears twice in a reading that is not complete.
    if now[wanted] > before[wanted] and is_comparable and (is_complete or not before[wanted]):
        return Applied([bid for bid, price in here if price == wanted][-1])

    def may_be_it(amount: Decimal | None, currency: int | None) -> bool:
        is_near = amount is None or EXACT.subtract(amount, write.amount).copy_abs() <= _COARSEST_ROUNDING
        return is_near and currency in (None, write.currency)

    # The offer may have replaced an equal earlier bid.
    doubtful = [bid for bid, price in here if now[price] > before[price] or may_be_it(*price)]
    return StillUnknown(tuple(dict.fromkeys(doubtful))) if doubtful else _NOT_APPLIED


_COARSEST_VOLUME: Final = Decimal("0.15")
"""Largest relative change of a volume by a server that rounds dimensions."""


def _publication(write: Publish, known: list[Listing] | None, listings: list[Listing], *_: bool) -> _Conclusion:
    """Look for a new request with the same commodity, lane, quantity, volume and weight. Most may be missing."""
    draft = write.draft
    words = _words(draft.commodity, draft.origin, draft.destination)
    weights = draft.weight, EXACT.multiply(draft.weight, Decimal(draft.quantity))
    old, near = {one.index for one in known or ()}, list[Listing]()
    for one in (one for one in joined(listings) if one.index not in old):
        listed = _words(one.commodity, one.origin, one.destination)
        is_measured = one.quantity == draft.quantity and one.weight in weights
        if listed == words and is_measured and one.volume == draft.volume:
            return Applied(one)
        is_named = all(word in ("", ours) for word, ours in zip(listed, words, strict=True))
        is_sized = one.volume is None or abs(one.volume - draft.volume) <= draft.volume * _COARSEST_VOLUME
        near += [one] if is_sized and (is_named or is_measured) else []
    return StillUnknown(tuple(near)) if near else _NOT_APPLIED


def _words(*words: str | None) -> tuple[str, ...]:
    return tuple(" ".join((word or "").split()).casefold() for word in words)


def _answer(write: Respond, _: object, listings: list[Listing], *__: bool) -> _Conclusion:
    """Look at the state of the offer. The selection of another offer contradicts an approval."""
    listings = joined(listings)
    for listing in listings:
        for offer in listing.offers:
            if offer.id != write.offer:
                continue
            is_selected, is_pending = offer.status == OfferStatus.SELECTED, offer.status == OfferStatus.PENDING
            if is_selected or offer.status in DECLINED:
                return Applied(listing) if is_selected is write.approved else Conflict(listing)
            if listing.selected is not None and (write.approved or is_pending):
                return Conflict(listing)
            return NotApplied() if is_pending else StillUnknown((listing,))
    without = next((listing for listing in listings if listing.index == write.request), None)
    if without is None:
        return StillUnknown()
    # The offer was declined, or its forwarder has withdrawn it.
    if without.selected is None and not write.approved:
        return _Absence(Applied(without))
    # A selected offer may be listed alone, so beside one it may be missing without a decline.
    is_lost = write.approved and without.selected is not None and without.selected.id is not None
    return Conflict(without) if is_lost else StillUnknown((without,))


_VOYAGE: Final = ("origin", "destination", "carrier", "vessel", "voyage_id")
_TIMES: Final = ("cy_cutoff", "cfs_cutoff", "departure", "arrival")


def _created_route(write: CreateRoute, known: list[Route] | None, routes: list[Route], *_: bool) -> _Conclusion:
    old, wanted, near = {route.index for route in known or ()}, _facts(write.draft), list[Route]()
    for route in (route for route in routes if route.index not in old):
        listed = _facts(route)
        if listed == wanted:
            return Applied(route)
        # A service may spell one word differently, or hide fields.
        different = _differing(listed, wanted)
        is_respelt = len(different) == 1 and "carrier" not in different
        near += [route] if different.isdisjoint(_VOYAGE) or is_respelt else []
    return StillUnknown(tuple(near)) if near else _NOT_APPLIED


def _updated_route(write: UpdateRoute, known: list[Route] | None, routes: list[Route], *_: bool) -> _Conclusion:
    """Compare the route with what was sent, and with what it was before. If it is neither, another party wrote it."""
    new = write.route
    old = next((one for one in known or () if one.index == new.index), None)
    route = next((route for route in routes if route.index == new.index), None)
    if route is None:
        return StillUnknown()
    listed, wanted = _facts(route), _facts(new)
    if listed == wanted:
        return Applied(route)
    # If fields are missing, a route that another client wrote may look like the new one.
    if not _differing(listed, wanted) or old is None:
        return StillUnknown((route,))
    if _differing(listed, _facts(old)):
        return Conflict(route)
    # An old route with missing fields, which was never read completely, agrees with too much.
    return NotApplied() if listed == _facts(old) else StillUnknown((route,))


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


def _differing(listed: dict[str, object], sent: dict[str, object]) -> frozenset[str]:
    """Return the fields that both have and that differ."""
    return frozenset(name for name, fact in sent.items() if None not in (fact, listed[name]) and fact != listed[name])


_KINDS: Final[dict[type, tuple[type, Listed[Any], Callable[..., _Conclusion]]]] = {
    SubmitOffer: (Bid, BIDS, _offer),
    Publish: (Listing, OFFERS, _publication),
    Respond: (Listing, OFFERS, _answer),
    CreateRoute: (Route, ROUTES, _created_route),
    UpdateRoute: (Route, ROUTES, _updated_route),
}
"""Records and listings that show a write, and the function that draws a conclusion from a reading of them."""
