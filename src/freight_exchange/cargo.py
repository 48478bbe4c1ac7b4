"""Freight arithmetic: volume, gross and chargeable weight, revenue tons, loading metres, Incoterms. Pure and exact.

Metres and kilograms come from a `RateRequest`, `Listing`, `Bid` or `RateRequestDraft`, or whatever else is a `Cargo`.
Decimals go out, rounded at most once: up, to a `step`. A measure that is needed and missing, or that is not greater
than zero, is a `ValidationError` whose `field` names it; what is only doubtful is a `CargoWarning` in the result.

The caller says how to read `weight`: `per="unit"`, that of one packaging unit, as the service document has it, or
`per="total"`, that of all units. Published samples make sense either way. A record whose `measure_unit` or `mass_unit`
names another unit than metres or kilograms is converted; an unknown unit is a `ValidationError`.

The examples are about these pallets:

>>> from decimal import Decimal
>>> from freight_exchange import RateRequest, RequestType, cargo
>>> pallets = RateRequest(
...     index=4, type=RequestType.AIR_FREIGHT, incoterm="FOB", quantity=24, weight=Decimal(3600),
...     length=Decimal("1.2"), width=Decimal("0.8"), height=Decimal("1.1"),
... )
"""

from __future__ import annotations

import math
from decimal import Context, Decimal
from fractions import Fraction
from functools import reduce
from typing import Final, Literal, Protocol, get_args

import attrs

from freight_exchange.errors import ValidationError
from freight_exchange.models import units, validation
from freight_exchange.models._base import EXACT, Frozen
from freight_exchange.models.enums import RequestType
from freight_exchange.models.validation import Number

__all__ = [
    "ANY_MODE_INCOTERMS",
    "LOADING_WIDTH",
    "PLAUSIBLE_DENSITY",
    "SEA_INCOTERMS",
    "Basis",
    "Cargo",
    "CargoWarning",
    "ChargeableWeight",
    "GrossWeight",
    "Per",
    "RevenueTons",
    "air_chargeable_weight",
    "gross_weight",
    "incoterm_warning",
    "loading_metres",
    "revenue_tons",
    "road_chargeable_weight",
    "volume",
]

Per = Literal["unit", "total"]
"""How to read a record's `weight`: as that of one packaging unit, or of all together."""

Basis = Literal["weight", "volume", "loading metres", "minimum"]
"""What a charge goes by: the claim that came out highest, the first of these where claims are equal."""

PLAUSIBLE_DENSITY: Final = (Decimal(20), Decimal(3000))
"""Kilograms per cubic metre, from insulating foam to slabs of stone. Solid metal is above: worth a second look too."""

LOADING_WIDTH: Final = Decimal("2.4")
"""Metres: the width of the trailer floor of which a loading metre is one metre in length."""

ANY_MODE_INCOTERMS: Final = frozenset({"EXW", "FCA", "CPT", "CIP", "DAP", "DPU", "DDP"})
"""The Incoterms 2020 for any mode or modes of transport."""

SEA_INCOTERMS: Final = frozenset({"FAS", "FOB", "CFR", "CIF"})
"""The Incoterms 2020 for sea and inland waterway transport only."""


class Cargo(Protocol):
    """Freight that can be measured: lengths per packaging unit, and a weight. `None` is a measure that is missing.

    Lengths are metres and the weight is kilograms, except where a `measure_unit` or `mass_unit` beside them says
    otherwise.
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
class CargoWarning(Frozen):
    """A doubt about the `field` of a record, and in `message` what is odd about it. It refuses nothing."""

    field: str
    message: str


@attrs.frozen(kw_only=True, eq=False, repr=False)
class GrossWeight(Frozen):
    """What all packaging units weigh together, exact; the `warning` is that it is implausible for their volume."""

    kilograms: Decimal
    warning: CargoWarning | None = None


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ChargeableWeight(Frozen):
    """The weight that a carrier by air or road charges for, rounded up, and what that goes by."""

    kilograms: Decimal
    basis: Basis
    gross: GrossWeight


@attrs.frozen(kw_only=True, eq=False, repr=False)
class RevenueTons(Frozen):
    """The tons that a carrier by sea charges for ("W/M", weight or measurement), exact, and what that goes by."""

    tons: Decimal
    basis: Basis
    gross: GrossWeight


def volume(cargo: Cargo) -> Decimal:
    """Cubic metres of all packaging units: quantity x length x width x height, exact.

    As `RateRequest.volume`, for those who cannot go on without it: what is missing is an error here, and not `None`.

    >>> cargo.volume(pallets)
    Decimal('25.344')

    Raises:
        ValidationError: The quantity or a dimension is missing or not greater than zero.
    """
    return _product(cargo, "quantity", "length", "width", "height")


def gross_weight(cargo: Cargo, *, per: Per) -> GrossWeight:
    """Kilograms of all packaging units: quantity x weight when that is `per="unit"`, else the weight itself. Exact.

    >>> cargo.gross_weight(pallets, per="total")
    GrossWeight(kilograms=Decimal('3600'))
    >>> cargo.gross_weight(pallets, per="unit").warning.message
    'about 3410 kg/m3 with per="unit", where freight has 20 to 3000'

    Raises:
        ValidationError: The weight, or a quantity that it needs, is missing or not above zero; `per` is neither word.
    """
    if per not in get_args(Per):
        raise ValidationError(f"per must be 'unit' or 'total', not {per!r}", field="per")
    kilograms = _product(cargo, "quantity", "weight") if per == "unit" else _product(cargo, "weight")
    return GrossWeight(kilograms=kilograms, warning=_density_warning(cargo, kilograms, per))


def air_chargeable_weight(
    cargo: Cargo, *, per: Per, divisor: Number = 6000, step: Number = Decimal("0.5")
) -> ChargeableWeight:
    """Chargeable weight by air: the greater of gross weight and cubic centimetres / divisor, rounded up.

    Dimensions count as they are stated, and not in whole centimetres.

    >>> charged = cargo.air_chargeable_weight(pallets, per="total", divisor=5000)  # 5068.8 kg by volume
    >>> charged.kilograms, charged.basis
    (Decimal('5069.0'), 'volume')

    Args:
        cargo: The freight.
        per: How to read its weight.
        divisor: Cubic centimetres that are taken to weigh a kilogram; couriers often have 5000.
        step: Kilograms, to a multiple of which the result is rounded up.

    Raises:
        ValidationError: A measure is missing, or it or an argument is not greater than zero; `per` is neither word.
    """
    gross = gross_weight(cargo, per=per)
    by_volume = 10**6 * Fraction(volume(cargo)) / Fraction(validation.amount(divisor, "divisor"))
    return _charged(gross, {"weight": Fraction(gross.kilograms), "volume": by_volume}, step)


def road_chargeable_weight(
    cargo: Cargo,
    *,
    per: Per,
    per_cubic_metre: Number = 333,
    per_loading_metre: Number | None = 1850,
    stacked: int = 1,
    step: Number = 1,
) -> ChargeableWeight:
    """Chargeable weight by road: the greatest of gross weight, volume and loading metres in kilograms, rounded up.

    >>> charged = cargo.road_chargeable_weight(pallets, per="total")  # 9.6 loading metres
    >>> charged.kilograms, charged.basis
    (Decimal('17760'), 'loading metres')

    Args:
        cargo: The freight.
        per: How to read its weight.
        per_cubic_metre: Kilograms that a cubic metre is taken to weigh.
        per_loading_metre: Kilograms that a loading metre is taken to weigh; `None` where the floor is not charged for.
        stacked: How many units stand on one another, as for `loading_metres`, which count here before any rounding.
        step: Kilograms, to a multiple of which the result is rounded up.

    Raises:
        ValidationError: A measure is missing, or it or an argument is not greater than zero; `per` is neither word.
    """
    gross = gross_weight(cargo, per=per)
    claims: dict[Basis, Fraction] = {
        "weight": Fraction(gross.kilograms),
        "volume": Fraction(volume(cargo)) * Fraction(validation.amount(per_cubic_metre, "per_cubic_metre")),
    }
    if per_loading_metre is not None:
        kilograms = Fraction(validation.amount(per_loading_metre, "per_loading_metre"))
        claims["loading metres"] = _loading_metres(cargo, stacked) * kilograms
    return _charged(gross, claims, step)


def revenue_tons(cargo: Cargo, *, per: Per, minimum: Number | None = None) -> RevenueTons:
    """What is charged by sea: the greatest of tonnes (1000 kg), cubic metres and, where given, the minimum. Exact.

    >>> charged = cargo.revenue_tons(pallets, per="total", minimum=1)
    >>> charged.tons, charged.basis
    (Decimal('25.344'), 'volume')

    Raises:
        ValidationError: A measure is missing, or it or the minimum is not greater than zero; `per` is neither word.
    """
    gross = gross_weight(cargo, per=per)
    claims: dict[Basis, Decimal] = {"weight": EXACT.scaleb(gross.kilograms, -3), "volume": volume(cargo)}
    if minimum is not None:
        claims["minimum"] = validation.amount(minimum, "minimum")
    basis = max(claims, key=claims.__getitem__)
    return RevenueTons(tons=claims[basis], basis=basis, gross=gross)


def loading_metres(cargo: Cargo, *, stacked: int = 1, step: Number = Decimal("0.01")) -> Decimal:
    """Metres of trailer floor under all packaging units: stacks x length x width / 2.4 m, rounded up to a step.

    Stacks are of `stacked` units each; those left over make one more. The service may return the dimensions in another
    order than they were sent in: then a height is among the two that count here.

    >>> cargo.loading_metres(pallets), cargo.loading_metres(pallets, stacked=2)
    (Decimal('9.60'), Decimal('4.80'))

    Raises:
        ValidationError: The quantity, length or width is missing, or it or an argument is not greater than zero.
    """
    return _up(_loading_metres(cargo, stacked), step)


def incoterm_warning(incoterm: str | None, type: RequestType | str | None) -> CargoWarning | None:
    """A doubt about an Incoterm that is none of the Incoterms 2020, or a sea rule on freight by air or road.

    `None` raises no doubt, nor does a type of request that is unknown or, as warehousing, no way to travel.

    >>> cargo.incoterm_warning(pallets.incoterm, pallets.type).message
    'FOB is for sea and inland waterway transport only, not for Air Freight'
    """
    rule = (incoterm or "").strip().upper()
    if not rule or rule in ANY_MODE_INCOTERMS:
        return None
    if rule not in SEA_INCOTERMS:
        return CargoWarning(field="incoterm", message=f"{rule} is none of the Incoterms 2020")
    if type in (RequestType.AIR_FREIGHT, RequestType.TRUCKING):
        only = f"{rule} is for sea and inland waterway transport only, not for {type}"
        return CargoWarning(field="incoterm", message=only)
    return None


def _product(cargo: Cargo, *fields: str) -> Decimal:
    return reduce(EXACT.multiply, (_stated(cargo, field) for field in fields))


def _stated(cargo: Cargo, field: str) -> Decimal:
    value = getattr(cargo, field)
    if value is None:
        raise ValidationError(f"{field} is missing, and this cannot be computed without it", field=field)
    if field == "quantity":
        return Decimal(validation.count(value, field))
    return EXACT.multiply(validation.amount(value, field), _factor(cargo, field))


def _factor(cargo: Cargo, field: str) -> Decimal:
    """Return what turns the figure into metres or kilograms; drafts, which have no unit, are in these already."""
    name = "mass_unit" if field == "weight" else "measure_unit"
    unit: str | None = getattr(cargo, name, None)
    factor = units.kilograms_per(unit) if field == "weight" else units.metres_per(unit)
    if factor is None:
        raise ValidationError(
            f"{name} is {unit!r}, which cannot be converted: convert the record's figures yourself", field=name
        )
    return factor


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
    stacks = math.ceil(Fraction(_stated(cargo, "quantity")) / validation.count(stacked, "stacked"))
    return stacks * Fraction(_product(cargo, "length", "width")) / Fraction(LOADING_WIDTH)


def _charged(gross: GrossWeight, claims: dict[Basis, Fraction], step: Number) -> ChargeableWeight:
    basis = max(claims, key=claims.__getitem__)
    return ChargeableWeight(kilograms=_up(claims[basis], step), basis=basis, gross=gross)


def _up(value: Fraction, step: Number) -> Decimal:
    # A quotient may never end as a decimal: it stays a fraction until it is a whole number of steps.
    multiple = validation.amount(step, "step")
    return EXACT.multiply(math.ceil(value / Fraction(multiple)), multiple)
