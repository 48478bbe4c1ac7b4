"""Checks of the arguments of endpoint methods."""

from __future__ import annotations

from freight_exchange import validation
from freight_exchange.errors import ValidationError

__all__ = ["expect", "index_of"]


def expect(value: object, kind: type, field: str) -> None:
    """Raise `ValidationError` unless the value is of this kind."""
    if not isinstance(value, kind):
        raise ValidationError(f"{field} must be a {kind.__name__}, not {type(value).__name__}", field=field)


def index_of(value: object, field: str, *kinds: type) -> int:
    """Return the index of a record argument: the record itself or its index."""
    if isinstance(value, kinds):
        value = getattr(value, "id", None) if hasattr(value, "id") else getattr(value, "index", None)
        if value is None:
            raise ValidationError(f"{field} is a record without an identifier; give the identifier", field=field)
    return validation.identifier(value, field)
