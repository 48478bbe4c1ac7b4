"""Reference lists: carriers and currencies (service document, 4.11 and 4.12). The profile may give them pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from freight_exchange.sandbox.core.paging import page, refuse_missing
from freight_exchange.sandbox.core.request_context import Answer, RequestContext
from freight_exchange.sandbox.rendering.shapes import Json

__all__ = ["carriers", "currencies"]

_T = TypeVar("_T")


def carriers(context: RequestContext) -> Answer:
    return _listing(context, "carriers", context.database.carriers, context.renderer.carrier)


def currencies(context: RequestContext) -> Answer:
    return _listing(context, "currencies", context.database.currencies, context.renderer.currency)


def _listing(context: RequestContext, key: str, table: Mapping[int, _T], render: Callable[[_T], Json]) -> Answer:
    rows = list(table.values())
    if "index" in context.fields:
        found = table.get(context.fields.identifier("index"))
        rows = [found] if found is not None else []
        if not rows:
            refuse_missing(context.profile)
    elif context.profile.reference_rows is not None:
        rows = list(page(context, rows, context.profile.reference_rows, lambda row: True))
    return Answer(context.renderer.collection(key, [render(row) for row in rows]))
