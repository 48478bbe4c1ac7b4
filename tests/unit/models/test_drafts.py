"""Drafts: what cannot be right is refused before anything is sent, and the error names the field."""

from __future__ import annotations

import copy
import pickle
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import attrs
import pytest

from freight_exchange.errors import ValidationError
from freight_exchange.models import (
    Applied,
    Carrier,
    Conflict,
    CreateRoute,
    NotApplied,
    Packaging,
    Publish,
    RateRequestDraft,
    RawWrite,
    RequestType,
    Respond,
    RouteDraft,
    StillUnknown,
    SubmitOffer,
    UpdateRoute,
)

REQUEST: dict[str, Any] = {
    "commodity": "Widgets",
    "type": "shipping",
    "origin": "Hong Kong",
    "destination": "Los Angeles",
    "arrival": datetime(2025, 3, 1),
    "packaging": "Pallet",
    "quantity": 10,
    "length": "1.20",
    "width": 0.8,
    "height": 1,
    "weight": Decimal("450.5"),
    "incoterm": "fob",
    "hazardous": 0,
}
ROUTE: dict[str, Any] = {
    "origin": "Hong Kong",
    "destination": "Los Angeles",
    "cy_cutoff": datetime(2025, 3, 1, 12),
    "cfs_cutoff": datetime(2025, 3, 1, 4, tzinfo=UTC),
    "departure": datetime(2025, 3, 2),
    "arrival": datetime(2025, 3, 20),
    "carrier": 3,
    "vessel": "Ever Forward",
    "voyage_id": "E12",
    "timezone": "Asia/Hong_Kong",
}


def test_a_request_draft_holds_exact_values() -> None:
    draft = RateRequestDraft(**REQUEST)
    assert draft.type is RequestType.SHIPPING
    assert draft.packaging is Packaging.PALLET
    assert (draft.length, draft.width, draft.height) == (Decimal("1.20"), Decimal("0.8"), Decimal(1))
    assert draft.incoterm == "FOB"
    assert draft.hazardous is False
    assert draft.notes is None
    assert draft.volume == Decimal("9.6")
    assert attrs.evolve(draft, quantity=20).quantity == 20
    assert pickle.loads(pickle.dumps(draft)) == copy.deepcopy(draft) == draft
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        draft.quantity = 1  # type: ignore[misc]  # that it cannot be set is the test


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("commodity", ""),
        ("commodity", " "),
        ("commodity", None),
        ("commodity", "half \ud800"),
        ("type", "Rail"),
        ("type", Packaging.PALLET),
        ("origin", 3),
        ("destination", "\t"),
        ("arrival", "2025-03-01"),
        ("arrival", date(2025, 3, 1)),
        ("arrival", datetime(2025, 3, 1, tzinfo=UTC)),
        ("packaging", "crate"),
        ("quantity", 0),
        ("quantity", -1),
        ("quantity", True),
        ("quantity", 1.0),
        ("quantity", "10"),
        ("length", 0),
        ("length", "-1"),
        ("width", float("nan")),
        ("width", True),
        ("height", "Infinity"),
        ("height", "1_0"),
        ("weight", Decimal("NaN")),
        ("weight", "1e99"),
        ("incoterm", "FO"),
        ("incoterm", "FOBX"),
        ("incoterm", "F0B"),
        ("incoterm", "ÄBC"),
        ("incoterm", None),
        ("hazardous", 2),
        ("hazardous", "yes"),
        ("notes", 3),
        ("notes", "\udfff"),
    ],
)
def test_a_request_draft_names_the_field_at_fault(field: str, value: object) -> None:
    with pytest.raises(ValidationError) as caught:
        RateRequestDraft(**{**REQUEST, field: value})
    assert caught.value.field == field
    assert field in str(caught.value)


def test_an_aware_arrival_has_no_zone_to_go_to() -> None:
    aware = datetime(2025, 3, 1, tzinfo=UTC)
    with pytest.raises(ValidationError, match="must have no zone"):
        RateRequestDraft(**{**REQUEST, "arrival": aware})
    with pytest.raises(ValidationError, match="must have no zone"):
        RouteDraft(**{**ROUTE, "arrival": aware})


def test_a_route_draft_takes_wall_times_and_moments() -> None:
    draft = RouteDraft(**ROUTE)
    zone = ZoneInfo("Asia/Hong_Kong")
    assert draft.cy_cutoff == datetime(2025, 3, 1, 12, tzinfo=zone)
    assert draft.cy_cutoff.tzinfo is zone
    assert draft.cfs_cutoff.replace(tzinfo=None) == datetime(2025, 3, 1, 12)
    assert draft.arrival.tzinfo is None
    assert attrs.evolve(draft, vessel="Other").cy_cutoff == draft.cy_cutoff
    assert pickle.loads(pickle.dumps(draft)) == copy.deepcopy(draft) == draft
    assert RouteDraft(**{**ROUTE, "carrier": Carrier(index=3)}) == draft


def test_an_ambiguous_wall_time_is_the_first_reading() -> None:
    twice = datetime(2025, 11, 2, 1, 30, fold=1)
    draft = RouteDraft(**{**ROUTE, "departure": twice, "timezone": "America/New_York"})
    assert draft.departure.utcoffset() == timedelta(hours=-4)


def test_a_skipped_wall_time_is_kept_as_written() -> None:
    skipped = datetime(2025, 3, 9, 2, 30)
    draft = RouteDraft(**{**ROUTE, "departure": skipped, "timezone": "America/New_York"})
    assert draft.departure.replace(tzinfo=None) == skipped


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("origin", ""),
        ("destination", None),
        ("cy_cutoff", "2025-03-01"),
        ("cfs_cutoff", None),
        ("departure", 5),
        ("departure", datetime.max.replace(tzinfo=UTC)),
        ("arrival", None),
        ("carrier", 0),
        ("carrier", "3"),
        ("carrier", True),
        ("vessel", ""),
        ("voyage_id", 12),
        ("timezone", "Mars/Olympus"),
        ("timezone", "Asia"),
        ("timezone", "/etc/passwd"),
        ("timezone", "../etc/passwd"),
        ("timezone", "a\0b"),
        ("timezone", ""),
        ("timezone", None),
    ],
)
def test_a_route_draft_names_the_field_at_fault(field: str, value: object) -> None:
    with pytest.raises(ValidationError) as caught:
        RouteDraft(**{**ROUTE, field: value})
    assert caught.value.field == field


def test_writes_and_verdicts_are_values() -> None:
    draft = RateRequestDraft(**REQUEST)
    route = RouteDraft(**ROUTE)
    offer = SubmitOffer(request=4, amount=Decimal(5), currency=840, rates={"Fee": Decimal(5)}, terms="now")
    record = Carrier(index=1)
    values = [
        Publish(draft),
        offer,
        Respond(7, approved=True),
        CreateRoute(route),
        UpdateRoute(record),  # type: ignore[arg-type]  # any record will do here
        RawWrite("POST", "quote/new"),
        Applied(record),  # type: ignore[arg-type]  # any record will do here
        NotApplied(),
        Conflict(record),  # type: ignore[arg-type]  # any record will do here
        StillUnknown((record,)),  # type: ignore[arg-type]  # any record will do here
    ]
    for value in values:
        twin = pickle.loads(pickle.dumps(value))
        assert twin == copy.deepcopy(value) == value
        assert hash(twin) == hash(value)
    assert SubmitOffer(4, Decimal(5), 840) != offer
