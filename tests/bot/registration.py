"""Handlers and decorators for tests of registration."""

from __future__ import annotations

from typing import Any

from freight_exchange import (
    Router,
)

KINDS = ["new", "updated", "withdrawn", "selected", "gap", "unreadable"]
FILTERED = KINDS[:4]


async def quote(request: Any, ctx: Any) -> int:
    return 1


def on(router: Router, kind: str) -> Any:
    return getattr(router, f"on_{kind}")
