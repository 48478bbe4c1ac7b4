"""Sources of feeds: what a page of a listing shows, and which events its changes make. No I/O but requests."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

import attrs

from freight_exchange import wire
from freight_exchange.base import EXACT
from freight_exchange.endpoints.resources import SEARCH, SEARCH_ALL
from freight_exchange.endpoints.service import joined
from freight_exchange.errors import BadRequestError, DecodeError, NotFoundError, is_from_login
from freight_exchange.feed.events import Answer, BidSelected, OfferEvent, RequestEvent, StoredEvent, load_record
from freight_exchange.feed.state import WIDEST, Tier
from freight_exchange.models import Bid, BidStatus, BidsType, Listing, Offer, OfferStatus, RateRequest, SearchType
from freight_exchange.paging import Listed, Reported
from freight_exchange.serialization import to_dict, to_json
from freight_exchange.store import feeds
from freight_exchange.words import DECLINED, UnknownWord

if TYPE_CHECKING:
    from freight_exchange.endpoints.service import Service
    from freight_exchange.store.database import Database
    from freight_exchange.store.feeds import Item

Between = tuple[datetime | None, datetime]
"""Earliest and latest time of a change."""

Kind = Literal["first", "new", "changed", "gone"]
"""Finding of a scan about an item: `first` if it was there before the feed, and is told anyway."""

FIELDS: Final = tuple(field.name for field in attrs.fields(RateRequest) if field.name != "extra")
"""The fields of a request that the service document names."""

_OFFER_FIELDS: Final = ("amount", "currency", "status", "terms", "rates")
_HOUR: Final = 3600.0
_READINGS_WITHOUT_CONTACT: Final = 3
_PLAIN: Final = frozenset({str, int, bool, type(None)})
_values = attrgetter(*FIELDS)


@attrs.frozen(eq=False)
class Sighting:
    """Item as a page shows it. The digest is of the documented fields; `dump` returns the record as bytes."""

    key: str
    subject: int
    digest: bytes
    dump: Callable[[], bytes]


class Source:
    """Listing of the service, as one feed reads it, with a single attempt for each call.

    Attributes:
        name: Name of the feed in the store of a bot.
        safe: Rows of a page that no service cuts.
        windowed: Whether the listing has a window. If not, each scan reads all of it, in one pass.
        tells_absence: Whether an item that is not listed any more makes an event.
        is_partial: Whether a listed item is still left out, so that the first reading has to be repeated.
        ladder: The deep tiers, the deepest first.
    """

    name: ClassVar[str]
    safe: ClassVar[int] = 10
    windowed: ClassVar[bool] = False
    tells_absence: ClassVar[bool] = True
    is_partial: bool = False
    ladder: ClassVar[Sequence[Tier]] = (Tier("hourly", _HOUR, 0, 100), Tier("often", 300.0, 0, 20))

    def __init__(self, service: Service, listed: Listed[Any]) -> None:
        self._service = service
        self._listed = listed
        self._reported = Reported()

    async def prepare(self) -> None:
        """Look up what the filter of the events needs."""

    async def page(self, number: int, size: int, window: int) -> wire.Rows[Any]:
        """Fetch a page of what was updated in the last `window` seconds."""
        listed = self._listed
        if self.windowed:
            parameters = wire.encode_list_parameters(type=SearchType.ALL, seconds=window)
            listed = listed._replace(operation="feed", parameters=parameters)
        return await self._service.page(listed, number, size, self._reported)

    async def find(self, subject: int) -> Sequence[Any] | None:
        """Return the records with an index, an empty list if the service denies it, or `None` if it cannot say.

        All rows with the index count: a listing may have one row for each offer.
        """
        try:
            is_text = self._service.config.index_type == "string"
            index = wire.encode_list_parameters(index=str(subject) if is_text else subject)
            listed = self._listed._replace(parameters={**self._listed.parameters, **index}, paged=False)
            found = await self._service.page(listed, 0, 0, self._reported)
        except NotFoundError as error:
            if is_from_login(error):
                raise
            return []
        except BadRequestError:
            return None
        records = [record for record in found.records if record.index == subject]
        if self.unreadable(found) or len(records) < len(found.records):
            return None
        return self.merged(records)

    def row_key(self, record: Any) -> Hashable:
        return int(record.index)

    def merged(self, records: Sequence[Any]) -> Sequence[Any]:
        """Join rows of a page that are about one record."""
        return records

    def unreadable(self, page: wire.Rows[Any]) -> list[DecodeError]:
        """Return the errors of a page that hide an item."""
        return [*page.broken]

    def sightings(self, record: Any) -> Iterable[Sighting]:
        raise NotImplementedError

    def expected(self, items: Sequence[Item]) -> set[str]:
        """Return the keys of those among the known items of a request whose absence is news."""
        return {item.key for item in items}

    def event(
        self, db: Database, kind: Kind, now: bytes, before: bytes | None, between: Between, *, returned: bool
    ) -> StoredEvent | None:
        """Return the event of a change, if it makes one. `returned` says that the item was reported as gone."""
        raise NotImplementedError


class Requests(Source):
    """Requests of others that were updated in a window: `new`, `updated`, `withdrawn` (service document, 4.4).

    Requests of all types are read, since one that changes its type is not withdrawn.
    """

    name = "requests"
    safe = 20
    windowed = True
    ladder = (
        Tier("five days", 86_400.0, WIDEST, 100),
        Tier("six hours", _HOUR, 6 * 3600, 100),
        Tier("half an hour", 300.0, 1800, 40),
    )
    _KINDS: Final[Mapping[Kind, Literal["new", "updated", "withdrawn"]]] = {
        "first": "new", "new": "new", "changed": "updated", "gone": "withdrawn"
    }  # fmt: skip

    def __init__(self, service: Service) -> None:
        super().__init__(service, SEARCH)

    def sightings(self, record: RateRequest) -> Iterable[Sighting]:
        digest = _digest([value if value.__class__ in _PLAIN else _canonical(value) for value in _values(record)])
        yield Sighting(str(record.index), record.index, digest, lambda: to_json(record).encode())

    def event(
        self, db: Database, kind: Kind, now: bytes, before: bytes | None, between: Between, *, returned: bool
    ) -> RequestEvent:
        request = load_record(now, RateRequest)
        previous = None if before is None else load_record(before, RateRequest)
        return RequestEvent(
            kind=self._KINDS[kind],
            request=request,
            previous=previous,
            changed=() if previous is None else _differences(previous, request),
            returned=returned,
            observed_between=between,
        )


class Offers(Source):
    """Offers on the account's own requests: `new`, `changed`, `answered`, `gone` (service document, 4.7).

    `prepare` looks up the codes of the filter.
    """

    name = "offers"

    def __init__(self, service: Service, prepare: Callable[[], Awaitable[None]] | None = None) -> None:
        super().__init__(service, SEARCH_ALL)
        self._prepare = prepare

    async def prepare(self) -> None:
        if self._prepare is not None:
            await self._prepare()

    def row_key(self, record: Listing) -> Hashable:
        return record.index, *(offer.id for offer in record.offers)

    def merged(self, records: Sequence[Listing]) -> Sequence[Listing]:
        return joined(records)

    def unreadable(self, page: wire.Rows[Listing]) -> list[DecodeError]:
        flaws = (flaw for flaw in page.flaws if ".offer" in flaw.path)
        return [*page.broken, *flaws, *(error for listing in self.merged(page.records) for error in _nameless(listing))]

    def sightings(self, record: Listing) -> Iterable[Sighting]:
        # The first of several offers with one identifier counts.
        for offer in {one.id: one for one in reversed(record.offers)}.values():
            if offer.id is not None:
                values = [_canonical(getattr(offer, name) or None) for name in _OFFER_FIELDS]
                yield Sighting(
                    f"{record.index}:{offer.id}",
                    record.index,
                    _digest([*values, _answer(offer, record)]),
                    lambda number=offer.id: json.dumps({"offer": number, "listing": to_dict(record)}).encode(),  # type: ignore[misc]
                )

    def expected(self, items: Sequence[Item]) -> set[str]:
        """After a selection the service may list the selected offer alone; so only that one can vanish."""
        living = {item.key: item.record for item in items if item.digest and item.record is not None}
        selected = {key for key, record in living.items() if _answer(*load_offer(record)) == "approved"}
        return selected or {*living}

    def event(
        self, db: Database, kind: Kind, now: bytes, before: bytes | None, between: Between, *, returned: bool
    ) -> OfferEvent | None:
        offer, listing = load_offer(now)
        previous, listed = (None, None) if before is None else load_offer(before)
        answer = _answer(offer, listing)
        if previous is not None and listed is not None and answer == _answer(previous, listed):
            answer = None
        if kind == "first" and answer:
            return None
        return OfferEvent(
            kind="answered" if answer else "new" if kind == "first" else kind,
            offer=offer,
            listing=listing,
            previous=previous,
            changed=tuple(
                name
                for name in _OFFER_FIELDS
                if previous is not None and (getattr(offer, name) or None) != (getattr(previous, name) or None)
            ),
            returned=returned,
            answer=answer,
            observed_between=between,
        )


class SelectedBids(Source):
    """The account's selected bids: `selected`, once for each request (service document, 4.9).

    Records of the feed `requests` complete the bids, if there is one.
    """

    name = "selected"
    tells_absence = False
    ladder = (Tier("hourly", _HOUR, 0, 20), Tier("often", 300.0, 0, 20))

    def __init__(self, service: Service, requests: int | None = None) -> None:
        parameters = wire.encode_list_parameters(type=BidsType.SELECTED)
        super().__init__(service, Listed("bids.list", "GET", "quote/bid", wire.BIDS, parameters))
        self._requests = requests
        self._without_contact: defaultdict[int, set[int]] = defaultdict(set)
        self._reading = self._first_size = 0

    async def page(self, number: int, size: int, window: int) -> wire.Rows[Any]:
        # Within a reading, the first page comes again in larger sizes alone.
        if number == 0 and size <= self._first_size:
            self.is_partial = False
            self._reading += 1
        if number == 0:
            self._first_size = size
        return await super().page(number, size, window)

    def row_key(self, record: Bid) -> Hashable:
        return record

    def sightings(self, record: Bid) -> Iterable[Sighting]:
        """Yield a bid that is selected. The filter of the listing is no proof: a service may ignore it."""
        if record.contact is None and record.company is None:
            if record.status != BidStatus.SELECTED:
                return
            # Its contact may come with a later reading.
            readings = self._without_contact[record.index]
            readings.add(self._reading)
            if len(readings) < _READINGS_WITHOUT_CONTACT:
                self.is_partial = True
                return
        yield Sighting(str(record.index), record.index, b"selected", lambda: to_json(record).encode())

    def event(
        self, db: Database, kind: Kind, now: bytes, before: bytes | None, between: Between, *, returned: bool
    ) -> BidSelected | None:
        if kind not in ("first", "new"):
            return None
        bid = load_record(now, Bid)
        key = str(bid.index)
        known = None if self._requests is None else feeds.items(db, self._requests, [key]).get(key)
        if known is not None and known.record is not None:
            # The listing of bids lacks some fields of the freight.
            request = load_record(known.record, RateRequest)
            names = (name for name in FIELDS if name != "status" and hasattr(bid, name) and getattr(bid, name) is None)
            bid = attrs.evolve(bid, **{name: getattr(request, name) for name in names})
        return BidSelected(bid=bid, observed=between[1])


def hash_of(raw: object) -> str:
    """Return a short hash of a row that cannot be read, by its documented fields: others may change with each scan."""
    if isinstance(raw, Mapping):
        raw = {key: value for key, value in raw.items() if key in wire.names()} or raw
    return _digest(json.dumps(raw, sort_keys=True, default=str)).hex()


def _digest(values: object) -> bytes:
    # `repr` is the fastest text that differs for unequal values.
    text = values if isinstance(values, str) else repr(values)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()


def _canonical(value: object) -> object:
    """Return a form of a value that is the same for all equal values, however the service writes it."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Decimal | int):
        number = Decimal(value)
        return str(number.normalize(EXACT) if number.is_finite() else number)
    if isinstance(value, UnknownWord):
        return str(value).casefold()
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {key: _canonical(value[key]) for key in sorted(value)}
    raise TypeError(f"no field of a record holds a {type(value).__name__}")


def _differences(previous: RateRequest, request: RateRequest) -> tuple[str, ...]:
    """Return the names of the fields that differ: in the document's order, and then the undocumented ones."""
    fields = (name for name in FIELDS if getattr(previous, name) != getattr(request, name))
    unknown = sorted(
        key
        for key in previous.extra.keys() | request.extra.keys()
        if previous.extra.get(key, ...) != request.extra.get(key, ...)
    )
    return (*fields, *unknown)


def _answer(offer: Offer, listing: Listing) -> Answer | None:
    """Return the answer that a listing shows to one of its offers; `None` for a pending one."""
    if offer.status == OfferStatus.SELECTED or (listing.selected is not None and listing.selected.id == offer.id):
        return "approved"
    return "declined" if offer.status in DECLINED else None


def load_offer(record: bytes) -> tuple[Offer, Listing]:
    """Return an offer and its request from a stored record."""
    stored = json.loads(record)
    listing = load_record(json.dumps(stored["listing"]).encode(), Listing)
    return next(offer for offer in listing.offers if offer.id == stored["offer"]), listing


def _nameless(listing: Listing) -> Iterable[DecodeError]:
    """Yield an error for each offer without an identifier, or with the identifier of a different offer before it."""
    seen: dict[int, Offer] = {}
    for offer in listing.offers:
        if offer.id is None:
            problem = "an offer without an identifier"
        elif seen.setdefault(offer.id, offer) != offer:
            problem = f"another offer with the identifier {offer.id}"
        else:
            continue
        # Without undocumented fields: they may change with each scan, and would make another event each time.
        raw = {"index": listing.index, "offer": to_dict(attrs.evolve(offer, extra={}))}
        yield DecodeError(f"{problem} on request {listing.index}", path="offers.offer", raw=raw)
