"""Scenarios by topic."""

from __future__ import annotations

from . import deploys, ends, handlers, listings, people, service, stores

__all__ = ["deploys", "ends", "handlers", "listings", "people", "service", "stores"]
