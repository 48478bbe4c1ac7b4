"""Simulated freight exchange that follows the service's document, and fails on demand.

It knows nothing of the SDK, so that it can judge it. `service` is the exchange, without I/O; `quirks` has the points
that the document leaves open, `faults` the failures; `wire` is its HTTP, which `memory` plays in this process and
`server` over sockets.
"""

from __future__ import annotations

from freight_sandbox.audit import AuditLog
from freight_sandbox.faults import FAULTS, Fault, FaultFactory, FaultScript, Fired
from freight_sandbox.quirks import Knob, Profile
from freight_sandbox.records import Account, Cargo, Company
from freight_sandbox.service import Exchange
from freight_sandbox.wire import Call, Cut, Reply, WireFault

__all__ = [
    "FAULTS",
    "Account",
    "AuditLog",
    "Call",
    "Cargo",
    "Company",
    "Cut",
    "Exchange",
    "Fault",
    "FaultFactory",
    "FaultScript",
    "Fired",
    "Knob",
    "Profile",
    "Reply",
    "WireFault",
]
