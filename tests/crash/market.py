"""Market of a trial, as the sandbox's log shows it."""

from __future__ import annotations

from collections.abc import Mapping

from freight_sandbox import AuditLog
from freight_sandbox.records import Request

__all__ = ["final_states"]


def final_states(log: AuditLog) -> Mapping[int, Request]:
    """Return the last state of every request, withdrawn ones included."""
    return {change.request: change.state for change in log.changes}
