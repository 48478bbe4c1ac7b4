"""Simulated freight exchange, for tests, demonstrations and people.

`model` has its values, `core` its behaviour, `rendering` its JSON and `faults` its failures on demand. `faces` connects
it to clients: in process, as an ASGI application and over TCP. `board` is a web page for people.
"""

from __future__ import annotations

from freight_exchange.sandbox.core.audit_log import AuditLog
from freight_exchange.sandbox.core.exchange import Exchange
from freight_exchange.sandbox.faults.catalogue import FAULTS
from freight_exchange.sandbox.faults.fault_factory import FaultFactory
from freight_exchange.sandbox.faults.script import Fault, FaultScript, Fired
from freight_exchange.sandbox.model.messages import Call, Cut, Reply, WireFault
from freight_exchange.sandbox.model.profile import Knob, Profile
from freight_exchange.sandbox.model.state import Account, Cargo, Company

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
