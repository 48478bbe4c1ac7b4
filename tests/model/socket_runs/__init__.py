"""Seeded runs over real sockets, checked against a service of their own, through each HTTP transport."""

from __future__ import annotations

from tests.model.socket_runs.many import backend_of, repeat, summarize
from tests.model.socket_runs.plan import TRANSPORTS, Transport
from tests.model.socket_runs.summary import RunSummary

__all__ = ["TRANSPORTS", "RunSummary", "Transport", "backend_of", "repeat", "summarize"]
