"""Statuses that end a listing."""

from __future__ import annotations

from typing import Final

__all__ = ["REFUSALS"]

REFUSALS: Final = frozenset({400, 404, 416, 422})
"""Statuses with which a service refuses a page beyond the end."""
