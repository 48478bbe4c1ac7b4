"""Reference lists: carriers and currencies (service document, 4.11 and 4.12). They page where the profile says so."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from freight_exchange.sandbox.core.paging import missing, page
from freight_exchange.sandbox.core.request_context import Answer, RequestContext
from freight_exchange.sandbox.rendering.shapes import Json

__all__ = ["carriers", "currencies"]

_T = TypeVar("_T")


def carriers(visit: RequestContext) -> Answer:
    return _listing(visit, "carriers", visit.books.carriers, visit.renderer.carrier)


def currencies(visit: RequestContext) -> Answer:
    return _listing(visit, "currencies", visit.books.currencies, visit.renderer.currency)


def _listing(visit: RequestContext, key: str, table: Mapping[int, _T], render: Callable[[_T], Json]) -> Answer:
    rows = list(table.values())
    if "index" in visit.fields:
        found = table.get(visit.fields.identifier("index"))
        rows = [found] if found is not None else []
        if not rows:
            missing(visit.profile)
    elif visit.profile.reference_rows is not None:
        rows = list(page(visit, rows, visit.profile.reference_rows, lambda row: True))
    return Answer(visit.renderer.collection(key, [render(row) for row in rows]))
