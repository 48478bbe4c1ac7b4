"""Seeded runs over real sockets, judged by a service of their own, through each HTTP transport."""

from __future__ import annotations

from tests.model.socket_runs.many import backend_of, repeat, tally
from tests.model.socket_runs.plan import TRANSPORTS, Transport
from tests.model.socket_runs.tally import Tally

__all__ = ["TRANSPORTS", "Tally", "Transport", "backend_of", "repeat", "tally"]
