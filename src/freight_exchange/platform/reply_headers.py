"""Headers of a reply in errors and hook records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

__all__ = ["NO_HEADERS", "REQUEST_ID_HEADERS", "ReplyHeaders"]

REQUEST_ID_HEADERS: Final = (
    "x-request-id",
    "x-correlation-id",
    "request-id",
    "x-amzn-requestid",
    "x-amzn-trace-id",
    "x-ms-request-id",
    "x-cloud-trace-context",
    "x-trace-id",
    "cf-ray",
)
"""Headers in which services and gateways identify a request, the most specific first."""


class ReplyHeaders(Mapping[str, str]):
    """Read-only, case-insensitive headers that pickle, copy and hash.

    They are ids of the request, `content-type`, `date`, `server`, `via`, `retry-after` and those of rate limits, with
    200 characters of each value. Secrets in values are masked.
    """

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[str, str] | None = None) -> None:
        self._items: Final = {name.lower(): value for name, value in (items or {}).items()}

    def __getitem__(self, name: str) -> str:
        return self._items[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __eq__(self, other: object) -> bool:
        return self._items == other._items if isinstance(other, ReplyHeaders) else NotImplemented

    def __hash__(self) -> int:
        return hash(frozenset(self._items.items()))

    def __repr__(self) -> str:
        return f"ReplyHeaders({self._items!r})"

    def __copy__(self) -> ReplyHeaders:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> ReplyHeaders:
        return self

    def __reduce__(self) -> tuple[type[ReplyHeaders], tuple[dict[str, str]]]:
        return type(self), (self._items,)

    @property
    def request_id(self) -> str | None:
        """Id of the request by the service or a gateway, or `None`."""
        for name in REQUEST_ID_HEADERS:
            if value := self._items.get(name):
                return value
        return None


NO_HEADERS: Final = ReplyHeaders()
