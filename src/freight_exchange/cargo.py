"""Freight arithmetic: volume, gross and chargeable weight, revenue tons, loading metres, Incoterms. Exact, without I/O.

The functions take a `RateRequest`, `Listing`, `Bid`, `RateRequestDraft`, or any other `Cargo`. They return decimals,
which are rounded at most once: up, to a `step`. If a measure or its unit is missing or invalid, they raise a
`ValidationError` whose `field` names it. A doubtful measure causes a `CargoWarning` in the result.

The caller decides about the meaning of `weight`. `per="unit"`: of one packaging unit, as in the service document.
`per="total"`: of all units. Published samples make sense both ways: ask your exchange.

The examples use these pallets:

>>> from datetime import datetime
>>> from decimal import Decimal
>>> from freight_exchange import RateRequest, RequestType, cargo
>>> pallets = RateRequest(index=4, type=RequestType.AIR_FREIGHT, incoterm="FOB", quantity=24, weight=Decimal(3600),
...                       length=Decimal("1.2"), width=Decimal("0.8"), height=Decimal("1.1"))
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal
from fractions import Fraction
from functools import reduce
from typing import Final, Literal, Protocol, get_args

import attrs

from freight_exchange import validation
from freight_exchange.base import EXACT, Serializable
from freight_exchange.errors import ValidationError
from freight_exchange.validation import Number
from freight_exchange.words import RequestType, kilograms_per, metres_per

__all__ = [
    "ANY_MODE_INCOTERMS", "LOADING_WIDTH", "PLAUSIBLE_DENSITY", "SEA_INCOTERMS", "Basis", "Cargo", "CargoWarning",
    "ChargeableWeight", "GrossWeight", "Per", "RevenueTons", "air_chargeable_weight", "arrival_warning", "gross_weight",
    "incoterm_warning", "loading_metres", "revenue_tons", "road_chargeable_weight", "volume",
]  # fmt: skip

Per = Literal["unit", "total"]
"""Meaning of a record's `weight`: of one packaging unit, or of all units."""

Basis = Literal["weight", "volume", "loading metres", "minimum"]
"""The measure that a charge is based on: the highest one, the first of these if several are equal."""

PLAUSIBLE_DENSITY: Final = (Decimal(20), Decimal(3000))
"""Plausible kilograms per cubic metre, from insulating foam to stone. Solid metal is above, so it causes a warning."""

LOADING_WIDTH: Final = Decimal("2.4")
"""Width of a trailer floor in metres. A loading metre is one metre of its length."""

ANY_MODE_INCOTERMS: Final = frozenset({"EXW", "FCA", "CPT", "CIP", "DAP", "DPU", "DDP"})
"""The Incoterms 2020 for any mode or modes of transport."""

SEA_INCOTERMS: Final = frozenset({"FAS", "FOB", "CFR", "CIF"})
"""The Incoterms 2020 for sea and inland waterway transport only."""


class Cargo(Protocol):
    """Freight that can be measured: lengths of one packaging unit, and a weight. `None` is a missing measure.

    Lengths are metres and the weight is kilograms, unless the object has a `measure_unit` or `mass_unit`.
    """

    @property
    def quantity(self) -> int | None: ...
    @property
    def length(self) -> Number | None: ...
    @property
    def width(self) -> Number | None: ...
    @property
    def height(self) -> Number | None: ...
    @property
    def weight(self) -> Number | None: ...


@attrs.frozen(kw_only=True, eq=False, repr=False)
class CargoWarning(Serializable):
    """A doubt about the `field` of a record; `message` explains it."""

    field: str
    message: str


@attrs.frozen(kw_only=True, eq=False, repr=False)
class GrossWeight(Serializable):
    """The exact weight of all packaging units; `warning` is set if it is implausible for their volume."""

    kilograms: Decimal
    warning: CargoWarning | None = None


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ChargeableWeight(Serializable):
    """The weight that a carrier by air or road charges for, rounded up, and its basis."""

    kilograms: Decimal
    basis: Basis
    gross: GrossWeight


@attrs.frozen(kw_only=True, eq=False, repr=False)
class RevenueTons(Serializable):
    """The exact tons that a carrier by sea charges for ("W/M", weight or measurement), and their basis."""

    tons: Decimal
    basis: Basis
    gross: GrossWeight


def volume(cargo: Cargo) -> Decimal:
    """Return the exact cubic metres of all packaging units, like `RateRequest.volume`, or raise where that is `None`.

    >>> cargo.volume(pallets)
    Decimal('25.344')
    """
    return _product(cargo, "quantity", "length", "width", "height")


def gross_weight(cargo: Cargo, *, per: Per) -> GrossWeight:
    """Return the exact kilograms of all packaging units: quantity x weight if `per="unit"`, else the weight itself.

    >>> cargo.gross_weight(pallets, per="total")
    GrossWeight(kilograms=Decimal('3600'))
    >>> cargo.gross_weight(pallets, per="unit").warning.message
    'about 3410 kg/m3 with per="unit", where freight has 20 to 3000'
    """
    if per not in get_args(Per):
        raise ValidationError(f"per must be 'unit' or 'total', not {per!r}", field="per")
    kilograms = _product(cargo, "quantity", "weight") if per == "unit" else _product(cargo, "weight")
    return GrossWeight(kilograms=kilograms, warning=_density_warning(cargo, kilograms, per))


def air_chargeable_weight(
    cargo: Cargo, *, per: Per, divisor: Number = 6000, step: Number = Decimal("0.5")
) -> ChargeableWeight:
    """Return the chargeable weight by air: the greater of gross weight and cubic centimetres / divisor, rounded up.

    >>> charged = cargo.air_chargeable_weight(pallets, per="total", divisor=5000)  # 5068.8 kg by volume
    >>> charged.kilograms, charged.basis
    (Decimal('5069.0'), 'volume')

    `divisor` cubic centimetres count as a kilogram; couriers often use 5000. `step` is in kilograms.
    """
    gross = gross_weight(cargo, per=per)
    by_volume = 10**6 * Fraction(volume(cargo)) / Fraction(validation.amount(divisor, "divisor"))
    return _chargeable(gross, {"weight": Fraction(gross.kilograms), "volume": by_volume}, step)


def road_chargeable_weight(
    cargo: Cargo,
    *,
    per: Per,
    per_cubic_metre: Number = 333,
    per_loading_metre: Number | None = 1850,
    stacked: int = 1,
    step: Number = 1,
) -> ChargeableWeight:
    """Return the chargeable weight by road: the greatest of gross weight, volume and loading metres, rounded up.

    >>> charged = cargo.road_chargeable_weight(pallets, per="total")  # 9.6 loading metres
    >>> charged.kilograms, charged.basis
    (Decimal('17760'), 'loading metres')

    Args:
        per_cubic_metre: Kilograms as which a cubic metre counts.
        per_loading_metre: Kilograms as which a loading metre counts; `None` if the floor is not charged for.
        stacked: Number of units in a stack.
        step: Kilograms.
    """
    gross = gross_weight(cargo, per=per)
    measures: dict[Basis, Fraction] = {
        "weight": Fraction(gross.kilograms),
        "volume": Fraction(volume(cargo)) * Fraction(validation.amount(per_cubic_metre, "per_cubic_metre")),
    }
    if per_loading_metre is not None:
        kilograms = Fraction(validation.amount(per_loading_metre, "per_loading_metre"))
        measures["loading metres"] = _loading_metres(cargo, stacked) * kilograms
    return _chargeable(gross, measures, step)


def revenue_tons(cargo: Cargo, *, per: Per, minimum: Number | None = None) -> RevenueTons:
    """Return the exact tons charged by sea: the greatest of tonnes (1000 kg), cubic metres and the minimum, if any.

    >>> charged = cargo.revenue_tons(pallets, per="total", minimum=1)
    >>> charged.tons, charged.basis
    (Decimal('25.344'), 'volume')
    """
    gross = gross_weight(cargo, per=per)
    measures: dict[Basis, Decimal] = {"weight": EXACT.scaleb(gross.kilograms, -3), "volume": volume(cargo)}
    if minimum is not None:
        measures["minimum"] = validation.amount(minimum, "minimum")
    basis = max(measures, key=measures.__getitem__)
    return RevenueTons(tons=measures[basis], basis=basis, gross=gross)


def loading_metres(cargo: Cargo, *, stacked: int = 1, step: Number = Decimal("0.01")) -> Decimal:
    """Return the metres of trailer floor of all packaging units: stacks x length x width / 2.4 m, rounded up to a step.

    The service may return the dimensions in another order than they were sent: then the height counts here.

    >>> cargo.loading_metres(pallets), cargo.loading_metres(pallets, stacked=2)
    (Decimal('9.60'), Decimal('4.80'))
    """
    return _round_up(_loading_metres(cargo, stacked), step)


def arrival_warning(arrival: datetime, *, now: datetime | None = None) -> CargoWarning | None:
    """Warn of an arrival on a day that is over in every time zone, since the zone of an arrival is unknown.

    >>> cargo.arrival_warning(datetime(2020, 1, 1)).message
    'the arrival 2020-01-01 is in the past'
    """
    # A day ends last at UTC-12.
    today = ((now or datetime.now(UTC)).astimezone(UTC) - timedelta(hours=12)).date()
    if arrival.date() >= today:
        return None
    return CargoWarning(field="arrival", message=f"the arrival {arrival:%Y-%m-%d} is in the past")


def incoterm_warning(incoterm: str | None, type: RequestType | str | None) -> CargoWarning | None:
    """Warn of a term that is none of the Incoterms 2020, or of a sea term for freight by air or road.

    No term, an unknown type of request and warehousing give no warning.

    >>> cargo.incoterm_warning(pallets.incoterm, pallets.type).message
    'FOB is for sea and inland waterway transport only, not for Air Freight'
    """
    rule = (incoterm or "").strip().upper()
    if not rule or rule in ANY_MODE_INCOTERMS:
        return None
    if rule not in SEA_INCOTERMS:
        return CargoWarning(field="incoterm", message=f"{rule} is none of the Incoterms 2020")
    if type in (RequestType.AIR_FREIGHT, RequestType.TRUCKING):
        message = f"{rule} is for sea and inland waterway transport only, not for {type}"
        return CargoWarning(field="incoterm", message=message)
    return None


def _product(cargo: Cargo, *fields: str) -> Decimal:
    return reduce(EXACT.multiply, (_measure(cargo, field) for field in fields))


def _measure(cargo: Cargo, field: str) -> Decimal:
    value = getattr(cargo, field)
    if value is None:
        raise ValidationError(f"{field} is missing, and this cannot be computed without it", field=field)
    if field == "quantity":
        return Decimal(validation.identifier(value, field))
    of_unit, name = (kilograms_per, "mass_unit") if field == "weight" else (metres_per, "measure_unit")
    unit: str | None = getattr(cargo, name, None)
    if (factor := of_unit(unit)) is None:
        message = f"{name} is {unit!r}, which is unknown: convert the record's figures yourself"
        raise ValidationError(message, field=name)
    return EXACT.multiply(validation.amount(value, field), factor)


def _density_warning(cargo: Cargo, kilograms: Decimal, per: Per) -> CargoWarning | None:
    try:
        cubic_metres = volume(cargo)
    except ValidationError:
        return None  # The gross weight does not depend on it.
    least, most = PLAUSIBLE_DENSITY
    if EXACT.multiply(least, cubic_metres) <= kilograms <= EXACT.multiply(most, cubic_metres):
        return None
    density = Context(prec=3).divide(kilograms, cubic_metres)
    message = f'about {density:f} kg/m3 with per="{per}", where freight has {least} to {most}'
    return CargoWarning(field="weight", message=message)


def _loading_metres(cargo: Cargo, stacked: int) -> Fraction:
    stacks = math.ceil(Fraction(_measure(cargo, "quantity")) / validation.identifier(stacked, "stacked"))
    return stacks * Fraction(_product(cargo, "length", "width")) / Fraction(LOADING_WIDTH)


def _chargeable(gross: GrossWeight, measures: dict[Basis, Fraction], step: Number) -> ChargeableWeight:
    basis = max(measures, key=measures.__getitem__)
    return ChargeableWeight(kilograms=_round_up(measures[basis], step), basis=basis, gross=gross)


def _round_up(value: Fraction, step: Number) -> Decimal:
    # A fraction, because a quotient may have no finite decimal.
    multiple = validation.amount(step, "step")
    return EXACT.multiply(math.ceil(value / Fraction(multiple)), multiple)
