"""Tests of route drafts."""

from __future__ import annotations

import copy
import pickle
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import attrs
import pytest

from freight_exchange.errors import ValidationError
from freight_exchange.models import Carrier, RouteDraft

DRAFT: dict[str, Any] = {
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


def test_draft_takes_naive_and_aware_times() -> None:
    draft = RouteDraft(**DRAFT)
    zone = ZoneInfo("Asia/Hong_Kong")
    assert draft.cy_cutoff == datetime(2025, 3, 1, 12, tzinfo=zone)
    assert draft.cy_cutoff.tzinfo is zone
    assert draft.cfs_cutoff.replace(tzinfo=None) == datetime(2025, 3, 1, 12)
    assert draft.arrival.tzinfo is None
    assert attrs.evolve(draft, vessel="Other").cy_cutoff == draft.cy_cutoff
    assert pickle.loads(pickle.dumps(draft)) == copy.deepcopy(draft) == draft
    assert RouteDraft(**{**DRAFT, "carrier": Carrier(index=3)}) == draft


def test_ambiguous_wall_time_is_the_first_of_the_two() -> None:
    twice = datetime(2025, 11, 2, 1, 30, fold=1)
    draft = RouteDraft(**{**DRAFT, "departure": twice, "timezone": "America/New_York"})
    assert draft.departure.utcoffset() == timedelta(hours=-4)


def test_skipped_wall_time_is_kept() -> None:
    skipped = datetime(2025, 3, 9, 2, 30)
    draft = RouteDraft(**{**DRAFT, "departure": skipped, "timezone": "America/New_York"})
    assert draft.departure.replace(tzinfo=None) == skipped


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("origin", ""),
        ("destination", None),
        ("cy_cutoff", "2025-03-01"),
        ("cfs_cutoff", None),
        ("departure", datetime.max.replace(tzinfo=UTC)),
        ("arrival", datetime(2025, 3, 1, tzinfo=UTC)),
        ("carrier", "3"),
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
def test_draft_names_the_invalid_field(field: str, value: object) -> None:
    with pytest.raises(ValidationError) as caught:
        RouteDraft(**{**DRAFT, field: value})
    assert caught.value.field == field
