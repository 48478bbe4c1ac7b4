"""Tests of records in pydantic: validated, serialized and described; the page on interoperability shows FastAPI."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from pydantic import TypeAdapter
from pydantic import ValidationError as InputError
from tests.unit.serialization.strategies import SERIALIZABLE

from freight_exchange import Bid, Offer, Page, RateRequest, to_dict

BID = Bid(index=4, amount=Decimal("1840.50"), offer=Offer(id=31, rates={"Fuel": Decimal(100)}))


@pytest.mark.parametrize(
    ("kind", "value"), [(Bid, BID), (list[Bid], [BID]), (Page[Bid], Page((BID,), 0, 100))], ids=str
)
def test_adapter_takes_and_gives_records(kind: Any, value: object) -> None:
    adapter = TypeAdapter(kind)
    assert adapter.validate_python(value) == value
    assert adapter.validate_json(adapter.dump_json(value)) == value
    assert adapter.validate_python(adapter.dump_python(value)) == value


def test_dictionary_is_that_of_to_dict() -> None:
    assert TypeAdapter(Bid).dump_python(BID) == to_dict(BID)


@pytest.mark.parametrize("value", [{"index": "4"}, {"object": "rate_request", "index": 4}, RateRequest(index=4), 5])
def test_wrong_input_is_an_error_of_pydantic(value: object) -> None:
    with pytest.raises(InputError):
        TypeAdapter(Bid).validate_python(value)


@pytest.mark.parametrize("name", SERIALIZABLE)
def test_every_kind_has_a_schema(name: str) -> None:
    schema = TypeAdapter(SERIALIZABLE[name]).json_schema()
    assert schema["title"] == name
    assert "object" in schema["required"]


def test_schema_describes_fields() -> None:
    schema = TypeAdapter(Bid).json_schema()
    assert schema["required"] == ["object", "index"]
    assert schema["properties"]["amount"] == {"anyOf": [{"type": "string", "format": "decimal"}, {"type": "null"}]}
    assert schema["properties"]["packaging"]["anyOf"][0]["examples"] == ["pallet", "carton", "piece"]
    assert schema["properties"]["offer"]["anyOf"][0]["properties"]["rates"]["anyOf"][0] == {
        "type": "object",
        "additionalProperties": {"type": "string", "format": "decimal"},
    }
