"""Conventions of a client and descriptions of listings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from freight_exchange import wire
from freight_exchange.base import NOTHING

if TYPE_CHECKING:
    from freight_exchange.options import CarrierField, CurrencyField, GetParameters, IndexType

__all__ = ["Conventions", "Listed"]


class Conventions(NamedTuple):
    """Choices for which the service document leaves several possibilities, made once for a client."""

    get_parameters: GetParameters
    addresses: Mapping[str, str]
    currency_field: CurrencyField
    carrier_field: CarrierField
    index_type: IndexType
    missing_list_is_empty: bool

    def index_value(self, index: int) -> int | str:
        """Return the `index` of a look-up in the JSON type that the service accepts (service document, 4)."""
        return index if self.index_type == "integer" else str(index)

    def place(self, method: str, parameters: Mapping[str, Any]) -> tuple[bytes | None, tuple[tuple[str, str], ...]]:
        """Return the body and the query pairs with the parameters of a listing."""
        if method != "GET":
            return wire.dump(parameters), ()
        if not parameters:
            return None, ()
        if self.get_parameters == "query":
            return None, tuple((name, str(value)) for name, value in parameters.items())
        return wire.dump(parameters), ()


class Listed(NamedTuple):
    """Request for a listing.

    Attributes:
        operation: The name in messages.
        method, path: The call.
        parameters: Parameters in addition to `offset` and `rowsperpage`.
        documented_size: Rows of a page that the service gives by default (service document, 8); `None` if not stated.
        paged: Whether the operation has pages.
    """

    operation: str
    method: str
    path: str
    parameters: Mapping[str, Any] = NOTHING
    documented_size: int | None = None
    paged: bool = True
