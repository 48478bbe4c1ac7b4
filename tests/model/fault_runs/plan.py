"""Plan of a run, drawn from its seed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from random import Random
from typing import Any, Literal

import attrs

from freight_exchange.testing import FAULTS, Profile

__all__ = ["CONTRADICTIONS", "KINDS", "Kind", "Plan", "Strike"]

Kind = Literal["submit", "publish", "approve", "decline", "create_route", "update_route"]
KINDS: tuple[Kind, ...] = ("submit", "publish", "approve", "decline", "create_route", "update_route")

GENERAL = tuple(name for name, factory in FAULTS.items() if factory.path is None)
CONTRADICTIONS: Mapping[str, tuple[Kind, ...]] = {
    "reply_of_another_request": KINDS,
    "reply_with_another_amount": ("submit",),
    "reply_with_another_currency": ("submit",),
    "approval_of_another_offer": ("approve",),
}
"""Faults that strike only writes: a listing that names other records is no evidence."""
LOGIN = (*GENERAL, *(name for name, factory in FAULTS.items() if factory.path == "login"))

# Where GETs lose their bodies, the listings' types are lost with the pages' numbers, and no reader of listings is proof
# against a default that leaves out what it looks for: such a service wants `get_parameters="query"`.
_BLIND = frozenset({"get_body"})
# These have a share of runs of their own.
_APART = frozenset({"late_visibility", "amount_rounding", "bid_default"})
KNOBS = tuple(knob for knob in Profile.knobs() if knob.name not in _BLIND | _APART)


@attrs.frozen(kw_only=True)
class Strike:
    """Fault, its calls, whether a call takes effect first, and its number of occurrences (`None`: unlimited)."""

    name: str
    place: Literal["write", "login", "reading"]
    processed: bool
    times: int | None = 1


@attrs.frozen(kw_only=True)
class Plan:
    """Plan of one run.

    Attributes:
        seed: Seed of all other values.
        backend: The event loop.
        kind: Kind of write.
        profile: The server's quirks.
        strikes: The faults that are armed.
        amount: The amount of an offer, and what distinguishes one run's records from another's.
        baseline: Whether the client keeps what was there before.
        known: Whether the client has read the record that it answers or updates.
        twin: Whether an equal record stands before.
        earlier: Whether the account already has a bid with another amount or currency.
        intervention: Time at which another account selects the other offer, or changes the route.
        deadline, settle: Of the call, in seconds, and of the reconciliation.
        cancelled_after: Number of turns of the event loop before the caller cancels the call.
        pickled: Whether the error is pickled and unpickled before it is reconciled.
    """

    seed: int
    backend: Literal["asyncio", "trio"]
    kind: Kind
    profile: Profile
    strikes: tuple[Strike, ...]
    amount: Decimal
    baseline: bool
    known: bool
    twin: bool
    earlier: bool
    intervention: Literal["none", "before", "after"]
    deadline: float
    settle: timedelta
    cancelled_after: int | None
    pickled: bool

    @classmethod
    def of(cls, seed: int) -> Plan:
        chance = Random(seed)
        kind = chance.choice(KINDS)
        return cls(
            seed=seed,
            backend="trio" if seed % 2 else "asyncio",
            kind=kind,
            profile=_profile(chance),
            strikes=tuple(_strikes(chance, kind)),
            amount=Decimal(chance.randrange(10_000, 900_000)) / chance.choice((1, 10, 100, 1000)),
            baseline=chance.random() < 0.6,
            known=chance.random() < 0.7,
            twin=chance.random() < 0.05,
            earlier=chance.random() < 0.1,
            intervention=chance.choice(("before", "after")) if chance.random() < 0.1 else "none",
            deadline=chance.choice((60.0, 60.0, 20.0, 5.0, 0.2)),
            settle=timedelta(seconds=chance.choice((30, 30, 60))),
            cancelled_after=chance.randrange(60) if chance.random() < 0.1 else None,
            pickled=chance.random() < 0.2,
        )

    def strike(self, place: str) -> Strike | None:
        return next((strike for strike in self.strikes if strike.place == place), None)


def _profile(chance: Random) -> Profile:
    quirks: dict[str, Any] = {
        knob.name: chance.choice(knob.values) for knob in chance.sample(KNOBS, chance.choice((0, 0, 1, 2, 4)))
    }
    if chance.random() < 0.3:
        quirks["late_visibility"] = chance.choice((1.0, 5.0, 5.0, 20.0, 29.0, 45.0))
    if chance.random() < 0.05:
        quirks["amount_rounding"] = chance.choice(("cents", "whole"))
    if chance.random() < 0.5:
        quirks["bid_default"] = "active"
    return Profile(**quirks)


def _strikes(chance: Random, kind: Kind) -> list[Strike]:
    place = chance.choices(("write", "login", "none"), (85, 10, 5))[0]
    strikes: list[Strike] = []
    if place == "write":
        name = chance.choice((*GENERAL, *(name for name, kinds in CONTRADICTIONS.items() if kind in kinds)))
        processed = chance.choice(FAULTS[name].phases)
        # A fault before processing may strike the retries too; one after it struck a write that is done by then.
        times = 1 if processed else chance.choice((1, 1, 2, 5))
        strikes.append(Strike(name=name, place="write", processed=processed, times=times))
    elif place == "login":
        name = chance.choice(LOGIN)
        processed = chance.choice(FAULTS[name].phases)
        strikes.append(Strike(name=name, place="login", processed=processed, times=chance.choice((1, 2, 5))))
    if chance.random() < 0.25:
        name = chance.choice(GENERAL)
        processed = chance.choice(FAULTS[name].phases)
        lasting = chance.random() < 0.05
        repeats = chance.choice((1, 1, 2, 3))
        strikes.append(Strike(name=name, place="reading", processed=processed, times=None if lasting else repeats))
    return strikes
