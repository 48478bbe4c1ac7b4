"""The freight exchange itself, simulated: a pure core, its faults, and the faces that put it on a wire."""

from __future__ import annotations

from .catalogue import FAULTS
from .core import Exchange
from .faults import Cut, Fault, FaultScript, Fired, WireFault
from .messages import Call, Reply
from .profile import Knob, Profile
from .recipe import Recipe
from .state import Account, Cargo, Company
from .truth import Truth

__all__ = [
    "FAULTS",
    "Account",
    "Call",
    "Cargo",
    "Company",
    "Cut",
    "Exchange",
    "Fault",
    "FaultScript",
    "Fired",
    "Knob",
    "Profile",
    "Recipe",
    "Reply",
    "Truth",
    "WireFault",
]
