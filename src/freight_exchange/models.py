"""Frozen values, without I/O: records of the service, drafts to send, writes, and results of reconciliation.

Records have the service's fields by Python names. Fields that a reply lacks are `None`, and fields that are unknown to
this package are in `extra`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from functools import reduce
from typing import TYPE_CHECKING, Generic, TypeAlias

import attrs

from freight_exchange import validation
from freight_exchange.base import EXACT, NOTHING, Serializable, frozen, frozen_rates
from freight_exchange.words import (
    BidStatus,
    BidsType,
    OfferStatus,
    OffersType,
    Packaging,
    RequestStatus,
    RequestType,
    SearchType,
    UnknownWord,
    metres_per,
)

__all__ = [
    "Applied", "Bid", "BidStatus", "BidsType", "Carrier", "Company", "Conflict", "Contact", "CreateRoute", "Currency",
    "Listing", "NotApplied", "Offer", "OfferStatus", "OffersType", "Packaging", "Publish", "RateRequest",
    "RateRequestDraft", "RawWrite", "Reconciliation", "RequestStatus", "RequestType", "Respond", "Route", "RouteDraft",
    "SearchType", "StillUnknown", "SubmitOffer", "UnknownWord", "UpdateRoute", "User", "Write",
]  # fmt: skip


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Company(Serializable):
    """A company (service document, Company). `index` is in one form of the login reply only.

    `phone` is for the user's own company only, `fax` for the other party's. `postal` and `oti_license`, the number of
    the ocean transportation intermediary, are text, which keeps leading zeros.
    """

    index: int | None = None
    name: str | None = None
    address1: str | None = None
    city: str | None = None
    state: str | None = None
    postal: str | None = None
    country: str | None = None
    phone: str | None = None
    fax: str | None = None
    oti_license: str | None = None
    extra: Mapping[str, object] = attrs.field(default=NOTHING, converter=frozen)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Contact(Serializable):
    """The other party's contact person for a selected offer (service document, Offer listing record: `loadingPOC`)."""

    name: str | None = None
    email: str | None = None
    extra: Mapping[str, object] = attrs.field(default=NOTHING, converter=frozen)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class User(Serializable):
    """The account that is logged in, without its token (service document, User).

    `middle_name` may be empty, and `last_login` is naive, as the document does not name the zone.
    """

    first_name: str | None = None
    middle_name: str | None = None
    last_name: str | None = None
    email: str | None = None
    title: str | None = None
    enabled: bool | None = None
    last_login: datetime | None = None
    image_url: str | None = None
    company: Company | None = None
    extra: Mapping[str, object] = attrs.field(default=NOTHING, converter=frozen)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Carrier(Serializable):
    """A carrier, to which routes refer by index (service document, Carrier)."""

    index: int
    name: str | None = None
    extra: Mapping[str, object] = attrs.field(default=NOTHING, converter=frozen)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Currency(Serializable):
    """A currency, to which offers refer by index (service document, Currency).

    Published samples use ISO 4217's numeric codes as `index` (840 for USD, 978 for EUR), but the document does not
    promise that: `currencies.by_code("USD")` looks it up.
    """

    index: int
    name: str | None = None
    code: str | None = None
    extra: Mapping[str, object] = attrs.field(default=NOTHING, converter=frozen)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Offer(Serializable):
    """A price on a rate request (service document, Offer entry).

    Attributes:
        id: The offer's identifier, for approving or declining it.
        request: The index of its request, on which reconciliation looks for it.
        amount: The total, in `currency`.
        currency: The index of the currency.
        status: Pending, selected, or an undocumented word.
        rates: The itemised fees by name, in `currency`; a discount is negative. `None` if the reply has none. Fees
            without an amount are only in `extra`.
    """

    id: int | None = None
    request: int | None = None
    amount: Decimal | None = None
    currency: int | None = None
    status: OfferStatus | UnknownWord | None = None
    terms: str | None = None
    rates: Mapping[str, Decimal] | None = attrs.field(default=None, converter=frozen_rates)
    extra: Mapping[str, object] = attrs.field(default=NOTHING, converter=frozen)

    @property
    def rates_total(self) -> Decimal | None:
        """The exact sum of the itemised fees; `None` where there are none."""
        return reduce(EXACT.add, self.rates.values(), Decimal(0)) if self.rates else None

    @property
    def difference(self) -> Decimal | None:
        """The total minus the sum of the itemised fees. The service does not check that they are equal."""
        total = self.rates_total
        return None if total is None or self.amount is None else EXACT.subtract(self.amount, total)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Shipment(Serializable):
    """The freight of a rate request: base of `RateRequest`, `Listing` and `Bid`."""

    index: int
    ref_id: str | None = None
    commodity: str | None = None
    type: RequestType | UnknownWord | None = None
    origin: str | None = None
    destination: str | None = None
    need_date: datetime | None = None
    notes: str | None = None
    quantity: int | None = None
    packaging: Packaging | UnknownWord | None = None
    length: Decimal | None = None
    width: Decimal | None = None
    height: Decimal | None = None
    measure_unit: str | None = None
    weight: Decimal | None = None
    mass_unit: str | None = None
    incoterm: str | None = None
    hazardous: bool | None = None
    extra: Mapping[str, object] = attrs.field(default=NOTHING, converter=frozen)

    @property
    def volume(self) -> Decimal | None:
        """Cubic metres of all packaging units, exact.

        `None` if the quantity or a dimension is missing, or `measure_unit` is an unknown unit.
        """
        if self.quantity is None or self.length is None or self.width is None or self.height is None:
            return None
        if (metres := metres_per(self.measure_unit)) is None:
            return None
        unit = EXACT.multiply(EXACT.multiply(self.length, self.width), self.height)
        return EXACT.multiply(EXACT.multiply(unit, EXACT.power(metres, 3)), self.quantity)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class RateRequest(Shipment):
    """A shipper's request for offers (service document, Rate request). Fields that a reply lacks are `None`.

    Attributes:
        ref_id: The request's reference code.
        commodity: The goods.
        type: The mode of transport, or an undocumented word.
        origin, destination: Port or city.
        need_date: The required arrival, naive: the service names no zone. The service may alter it.
        notes: In results, a sentence composed by the service.
        quantity: Number of packaging units of the kind `packaging`.
        length, width, height: Lengths of one unit, in `measure_unit`. The service may return them in another order.
        weight: Weight in `mass_unit`: of one unit by the document, but samples also make sense as totals.
        measure_unit, mass_unit: `m` and `kg` in the document. `volume`, `cargo` and filters convert or refuse others.
        extra: Fields of the reply that are unknown to this package, and values that it could not read.
    """

    status: RequestStatus | UnknownWord | None = None


def _request_type(value: RequestType | str, field: str = "") -> RequestType:
    return validation.member(RequestType, value, field)


def _packaging(value: Packaging | str, field: str = "") -> Packaging:
    return validation.member(Packaging, value, field)


@attrs.frozen(kw_only=True, eq=False, repr=False, field_transformer=validation.named)
class RateRequestDraft(Serializable):
    """A rate request to publish (service document, 4.3).

    Args:
        type: A `RequestType` or its word in any case.
        origin, destination: Port or city.
        arrival: The estimated arrival, naive: the service has no zone for it. Fractions of a second are not sent. A
            past one is accepted; `cargo.arrival_warning` warns of it.
        packaging: A `Packaging` or its word in any case.
        quantity: Number of packaging units, a positive whole number.
        length, width, height: Metres per unit, positive.
        weight: Kilograms per unit, positive.
        incoterm: Three letters, kept in upper case.

    Raises:
        ValidationError: A value is invalid; `field` names it.
    """

    commodity: str = attrs.field(converter=validation.text)
    type: RequestType = attrs.field(converter=_request_type)
    origin: str = attrs.field(converter=validation.text)
    destination: str = attrs.field(converter=validation.text)
    arrival: datetime = attrs.field(converter=validation.naive_datetime)
    packaging: Packaging = attrs.field(converter=_packaging)
    quantity: int = attrs.field(converter=validation.identifier)
    length: Decimal = attrs.field(converter=validation.amount)
    width: Decimal = attrs.field(converter=validation.amount)
    height: Decimal = attrs.field(converter=validation.amount)
    weight: Decimal = attrs.field(converter=validation.amount)
    incoterm: str = attrs.field(converter=validation.incoterm)
    hazardous: bool = attrs.field(converter=validation.boolean)
    notes: str | None = attrs.field(default=None, converter=validation.notes)

    @property
    def volume(self) -> Decimal:
        """Exact cubic metres of all packaging units. It is the only measure that the service returns unchanged."""
        unit = EXACT.multiply(EXACT.multiply(self.length, self.width), self.height)
        return EXACT.multiply(unit, self.quantity)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Listing(Shipment):
    """A shipper's request with its offers (service document, Offer listing record).

    The fields of the freight are those of `RateRequest`; listings often lack `ref_id`, `type`, `incoterm` and
    `hazardous`. Once an offer is selected, `offers` may have only that one, and `contact` and `company` are the
    forwarder's.
    """

    status: RequestStatus | UnknownWord | None = None
    offers: tuple[Offer, ...] = ()
    contact: Contact | None = None
    company: Company | None = None

    @property
    def selected(self) -> Offer | None:
        """The offer that was approved, or `None`."""
        return next((offer for offer in self.offers if offer.status == OfferStatus.SELECTED), None)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Bid(Shipment):
    """One of your offers, with its request (service document, 4.9 and 4.10).

    The fields of the freight are those of `RateRequest`; `index` is the request's. A bid has no identifier of its own,
    and one request may have two equal bids.

    Attributes:
        amount: The offered price, in the currency with the index `currency`.
        offer: The offer with its terms and rates, which only a submission returns.
        contact, company: The shipper's, once the bid is selected.
    """

    status: BidStatus | UnknownWord | None = None
    amount: Decimal | None = None
    currency: int | None = None
    offer: Offer | None = None
    contact: Contact | None = None
    company: Company | None = None


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Route(Serializable):
    """A scheduled route (service document, Route). Fields that a reply lacks are `None`.

    Attributes:
        cy_cutoff, cfs_cutoff: Deadlines of container yard and container freight station, in the route's zone.
        departure: Estimated departure, in the route's zone.
        arrival: Estimated arrival, naive, as the route's zone does not apply and the service names no other.
        carrier: The index of the carrier.
        timezone: The zone's name. If it is missing or unknown, the times above are naive.
    """

    index: int
    origin: str | None = None
    destination: str | None = None
    cy_cutoff: datetime | None = None
    cfs_cutoff: datetime | None = None
    departure: datetime | None = None
    arrival: datetime | None = None
    carrier: int | None = None
    vessel: str | None = None
    voyage_id: str | None = None
    timezone: str | None = None
    extra: Mapping[str, object] = attrs.field(default=NOTHING, converter=frozen)


def _carrier(value: Carrier | int, field: str = "") -> int:
    return validation.identifier(value.index if isinstance(value, Carrier) else value, field)


@attrs.frozen(kw_only=True, eq=False, repr=False, field_transformer=validation.named)
class RouteDraft(Serializable):
    """A route to create (service document, 4.5).

    Args:
        cy_cutoff, cfs_cutoff, departure: A naive time is the wall time of the route's zone; an aware one is converted
            to it. An ambiguous wall time is the earlier one; a time that a clock change skips is kept.
        arrival: Estimated arrival. It must be naive, because the route's zone does not apply to it.
        carrier: A carrier or its index.
        timezone: The name of a zone, e.g. `Asia/Hong_Kong`, for the cut-offs and the departure. The draft keeps
            them as aware times, as a `Route` does.

    Raises:
        ValidationError: A value is invalid; `field` names it.
    """

    origin: str = attrs.field(converter=validation.text)
    destination: str = attrs.field(converter=validation.text)
    cy_cutoff: datetime
    cfs_cutoff: datetime
    departure: datetime
    arrival: datetime = attrs.field(converter=validation.naive_datetime)
    carrier: int = attrs.field(converter=_carrier)
    vessel: str = attrs.field(converter=validation.text)
    voyage_id: str = attrs.field(converter=validation.text)
    timezone: str

    def __attrs_post_init__(self) -> None:
        zone = validation.timezone(self.timezone)
        for name in ("cy_cutoff", "cfs_cutoff", "departure"):
            object.__setattr__(self, name, validation.zoned_datetime(getattr(self, name), zone, name))
        object.__setattr__(self, "timezone", zone.key)


WrittenRecord: TypeAlias = RateRequest | Listing | Bid | Route
"""A record that shows the effect of a write."""

if TYPE_CHECKING:
    # The typing module of Python 3.11 has no defaults; type checkers support them.
    from typing_extensions import TypeVar

    RecordT_co = TypeVar("RecordT_co", bound=WrittenRecord, default=WrittenRecord, covariant=True)
else:
    from typing import TypeVar

    RecordT_co = TypeVar("RecordT_co", bound=WrittenRecord, covariant=True)


@attrs.frozen(eq=False, repr=False)
class Applied(Serializable, Generic[RecordT_co]):
    """The write happened: `record` shows it."""

    record: RecordT_co


@attrs.frozen(eq=False, repr=False)
class NotApplied(Serializable):
    """The write did not happen: complete, agreeing readings over the settle time do not show it."""


@attrs.frozen(eq=False, repr=False)
class Conflict(Serializable, Generic[RecordT_co]):
    """`record` contradicts the write, which did not happen or was undone later."""

    record: RecordT_co


@attrs.frozen(eq=False, repr=False)
class StillUnknown(Serializable, Generic[RecordT_co]):
    """Nothing was proven; `candidates` are the records most like the write."""

    candidates: tuple[RecordT_co, ...] = ()


Reconciliation: TypeAlias = Applied[RecordT_co] | NotApplied | Conflict[RecordT_co] | StillUnknown[RecordT_co]
"""Result of reconciling a write."""


# Writes, as an `OutcomeUnknownError` has them


class WriteOf(Serializable, Generic[RecordT_co]):
    """Base of writes, with the type of the record that shows the effect."""

    __slots__ = ()


@attrs.frozen(eq=False, repr=False)
class Publish(WriteOf[RateRequest | Listing]):
    """Publication of a rate request (service document, 4.3)."""

    draft: RateRequestDraft


@attrs.frozen(eq=False, repr=False)
class SubmitOffer(WriteOf[Bid]):
    """Submission of an offer (service document, 4.10). `request` and `currency` are indexes, `amount` is the total."""

    request: int
    amount: Decimal
    currency: int
    rates: Mapping[str, Decimal] | None = attrs.field(default=None, converter=frozen_rates)
    terms: str | None = None


@attrs.frozen(eq=False, repr=False)
class Respond(WriteOf[Listing]):
    """Approval or decline of an offer by its identifier (service document, 4.8).

    `request` is the index of its request, if the client has read the offer: after an offer is selected, the service may
    list only that one.
    """

    offer: int
    approved: bool
    request: int | None = None


@attrs.frozen(eq=False, repr=False)
class CreateRoute(WriteOf[Route]):
    """Creation of a route (service document, 4.5)."""

    draft: RouteDraft


@attrs.frozen(eq=False, repr=False)
class UpdateRoute(WriteOf[Route]):
    """Replacement of the route that has this index (service document, 4.5)."""

    route: Route


@attrs.frozen(eq=False, repr=False)
class RawWrite(WriteOf[WrittenRecord]):
    """A write of `exchange.request(...)`, whose meaning is unknown."""

    method: str
    path: str


Write = Publish | SubmitOffer | Respond | CreateRoute | UpdateRoute | RawWrite
