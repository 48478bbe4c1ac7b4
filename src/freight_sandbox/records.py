"""Records of the exchange, with the service's names, and tables of their versions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Generic, Literal, TypeVar

import attrs

Number = int | Decimal
Role = Literal["shipper", "forwarder", "both"]
_T = TypeVar("_T")
_EVER = float("inf")


@attrs.frozen(kw_only=True)
class Company:
    """Company of an account."""

    index: int
    name: str
    address1: str = "1 Harbour Road"
    city: str = "Hong Kong"
    state: str = ""
    postal: str = "00852"
    country: str = "Hong Kong"
    phone: str = "+852 5550 0100"
    fax: str = "+852 5550 0101"
    otilicense: str = "012345F"


@attrs.define
class Account:
    """Registered user. Only `lastlogin` ever changes."""

    index: int
    email: str
    password: str = attrs.field(repr=False)
    role: Role
    firstname: str
    middlename: str
    lastname: str
    title: str
    image_url: str
    company: Company
    lastlogin: str = ""

    @property
    def name(self) -> str:
        """Full name."""
        return " ".join(part for part in (self.firstname, self.middlename, self.lastname) if part)


@attrs.frozen
class Token:
    """Access token with its account, and the time at which it expires."""

    value: str = attrs.field(repr=False)
    account: int
    expires: float


@attrs.frozen(kw_only=True)
class Cargo:
    """Cargo that a shipper publishes. `arrival` is text; sizes are in metres, the weight in kilograms."""

    commodityname: str = "Electronics"
    requesttype: str = "Shipping"
    origin: str = "Hong Kong"
    destination: str = "Los Angeles"
    arrival: str = "2030-01-15 09:30:00"
    notes: str | None = ""
    quantity: int = 10
    packaging: str = "carton"
    length: Number = Decimal("1.2")
    width: Number = Decimal("0.8")
    height: Number = Decimal("0.5")
    weight: Number = 40
    incoterm: str = "FOB"
    hazardous: int = 0


@attrs.frozen
class Request:
    """One version of a rate request. Times are seconds since the epoch."""

    index: int
    owner: int
    refid: str
    cargo: Cargo
    created: float
    updated: float
    state: Literal["open", "selected", "withdrawn"] = "open"
    selected: int | None = None


@attrs.frozen
class Offer:
    """One version of an offer. `status` is pending, selected, or the profile's status of a declined offer."""

    index: int
    request: int
    account: int
    amount: Number
    currency: int
    rates: Mapping[str, Number]
    terms: str | None
    status: str
    created: float


@attrs.frozen
class Route:
    """One version of a route."""

    index: int
    origin: str
    destination: str
    cycutoff: str
    cfscutoff: str
    departure: str
    arrival: str
    carrier: int
    vessel: str
    voyageId: str  # noqa: N815  # the name of the service
    timezone: str


class Table(Generic[_T]):
    """Records by index, with all versions, in the order of their last change."""

    __slots__ = ("_last", "_ordered", "_versions")

    def __init__(self) -> None:
        self._versions: dict[int, list[tuple[float, _T]]] = {}
        self._last = float("-inf")
        self._ordered = True

    def __len__(self) -> int:
        return len(self._versions)

    def __iter__(self) -> Iterator[_T]:
        """Yield the current versions, last change first."""
        return self.recent()

    def __getitem__(self, index: int) -> _T:
        return self._versions[index][-1][1]

    def put(self, index: int, time: float, record: _T) -> None:
        """Add a version that is current from `time` on."""
        versions = self._versions.pop(index, None) or []
        versions.append((time, record))
        self._versions[index] = versions
        # After the clock has gone back, `recent` reads all records, so its result is still right.
        self._ordered = self._ordered and time >= self._last
        self._last = max(time, self._last)

    def get(self, index: int, at: float = _EVER) -> _T | None:
        """Return the version that was current at a time, by default the last one."""
        for time, record in reversed(self._versions.get(index, ())):
            if time <= at:
                return record
        return None

    def recent(self, at: float = _EVER, since: float = -_EVER) -> Iterator[_T]:
        """Yield the versions current at `at` of records changed since `since`, last change first."""
        for versions in reversed(self._versions.values()):
            if versions[-1][0] < since:
                if self._ordered:
                    return
                continue
            for time, record in reversed(versions):
                if time <= at:
                    yield record
                    break
