"""Tests of rate requests and their drafts; `test_validation` tests each check."""

from __future__ import annotations

import copy
import pickle
from datetime import UTC, datetime
from decimal import Decimal, localcontext
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from freight_exchange.errors import ValidationError
from freight_exchange.models import Packaging, RateRequest, RateRequestDraft, RequestType

DRAFT: dict[str, Any] = {
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
MEASURES = st.decimals(min_value=0, max_value=10**20, allow_nan=False, allow_infinity=False, places=30)


def test_draft_holds_exact_values() -> None:
    draft = RateRequestDraft(**DRAFT)
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
        ("commodity", "half \ud800"),
        ("type", "Rail"),
        ("origin", 3),
        ("destination", "\t"),
        ("arrival", "2025-03-01"),
        ("arrival", datetime(2025, 3, 1, tzinfo=UTC)),
        ("packaging", "crate"),
        ("quantity", 0),
        ("length", 0),
        ("width", float("nan")),
        ("height", "1_0"),
        ("weight", "1e99"),
        ("incoterm", "FOBX"),
        ("hazardous", 2),
        ("notes", "\udfff"),
    ],
)
def test_draft_names_the_invalid_field(field: str, value: object) -> None:
    with pytest.raises(ValidationError) as caught:
        RateRequestDraft(**{**DRAFT, field: value})
    assert caught.value.field == field
    assert field in str(caught.value)


@given(st.integers(1, 10**15), MEASURES, MEASURES, MEASURES)
def test_volume_is_exact(quantity: int, length: Decimal, width: Decimal, height: Decimal) -> None:
    with localcontext() as context:
        context.prec = 400
        expected = quantity * length * width * height
    assert RateRequest(index=1, quantity=quantity, length=length, width=width, height=height).volume == expected


@pytest.mark.parametrize("field", ["quantity", "length", "width", "height"])
def test_volume_is_none_without_a_measure(field: str) -> None:
    measures: dict[str, Any] = {"quantity": 1, "length": Decimal(1), "width": Decimal(1), "height": Decimal(1)}
    assert RateRequest(index=1, **measures).volume == 1
    assert RateRequest(index=1, **measures | {field: None}).volume is None
