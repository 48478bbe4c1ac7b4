"""Parts that all records share: collections, broken records, missing fields, companies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from freight_exchange.sandbox.model.profile import Profile
from freight_exchange.sandbox.model.state import Company
from freight_exchange.sandbox.rendering.scalars import Scalars

__all__ = ["Json", "Shapes"]

Json = dict[str, Any]

_OPTIONAL_OF_COMPANY = ("address1", "state", "phone", "fax", "otilicense")


class Shapes:
    """Writer of the parts that do not depend on the kind of record."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.scalars = Scalars(profile)

    # Collections

    def collection(self, key: str, records: Sequence[Json]) -> Any:
        """Write a reply with one collection (service document, 1)."""
        profile = self.profile
        if not records:
            return self._empty_collection(key)
        values: list[Any] = list(records)
        if profile.poison != "none" and len(values) > 1:
            values[1] = self._poisoned(values[1])
        match profile.collection_shape:
            case "list":
                return {key: values}
            case "gaps":
                return {key: {str(3 * number + 2): value for number, value in enumerate(values)}}
            case "shuffled":
                numbered = [(str(number), value) for number, value in enumerate(values)]
                return {key: dict(numbered[1::2] + numbered[::2][::-1])}
            case _:
                return {key: {str(number): value for number, value in enumerate(values)}}

    def _empty_collection(self, key: str) -> Any:
        match self.profile.empty_collection:
            case "object":
                return {key: {}}
            case "list":
                return {key: []}
            case "null":
                return {key: None}
            case "bare_object":
                return {}
            case "bare_list":
                return []
            case _:
                return None

    def _poisoned(self, record: Json) -> Any:
        match self.profile.poison:
            case "string":
                return "Undefined index: refId"
            case "null":
                return None
            case "hollow":
                return {}
            case _:
                return {**record, "index": "n/a"}

    # Parts of every record

    def company(self, company: Company, *, own: bool) -> Json:
        record: Json = {
            "name": company.name,
            "address1": company.address1,
            "city": company.city,
            "state": company.state,
            "postal": company.postal,
            "country": company.country,
            "phone" if own else "fax": company.phone if own else company.fax,
            "otilicense": company.otilicense,
        }
        return self.finished(record, _OPTIONAL_OF_COMPANY)

    def finished(self, record: Json, optional: Sequence[str]) -> Json:
        profile = self.profile
        if profile.optional_fields == "absent":
            for key in optional:
                record.pop(key, None)
        elif profile.optional_fields == "null":
            for key in optional:
                if key in record:
                    record[key] = None
        if record.get("notes", "") is None and profile.published_notes == "absent":
            del record["notes"]
        if profile.extra_keys:
            record["xShard"] = 7
            record["xAudit"] = {"by": "system", "flags": [1, None]}
        return record
