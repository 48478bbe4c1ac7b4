"""Plan of a run, drawn from its seed."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Literal, get_args

import attrs
from tests.model.socket_runs.replies import CONTENTS
from tests.model.socket_runs.service import Target
from tests.model.socket_runs.wire1 import GREETINGS, WIRE1, Wire
from tests.model.socket_runs.wire2 import GREETINGS2, WIRE2, Wire2

__all__ = ["TRANSPORTS", "WRITES", "Kind", "Plan", "Step", "Strike", "Transport"]

Transport = Literal["own", "httpx", "httpx2", "aiohttp", "http2"]
TRANSPORTS: tuple[Transport, ...] = get_args(Transport)

Kind = Literal[
    "submit", "publish", "approve", "decline", "create_route", "update_route", "bids", "offers", "get", "currencies"
]
KINDS: tuple[Kind, ...] = get_args(Kind)
WRITES = KINDS[:6]


@attrs.frozen(kw_only=True)
class Strike:
    """Fault, the calls that it strikes, whether a write is committed first, and how often it strikes."""

    name: str
    target: Target | Literal["connect"]
    after: bool
    times: int = 1
    echo: Literal["nothing", "token", "password"] = "nothing"


@attrs.frozen(kw_only=True)
class Step:
    """Call of the SDK.

    Attributes:
        kind: Kind of call.
        strikes: The faults that it meets.
        expired: Whether the service has forgotten the client's token.
        deadline: Of the call, in seconds.
        cancelled_after: Seconds after which its caller leaves.
        reconciled: Whether a doubt is looked into, and with which faults.
    """

    kind: Kind
    strikes: tuple[Strike, ...]
    expired: bool
    deadline: float
    cancelled_after: float | None
    reconciled: bool
    reading: tuple[Strike, ...]


@attrs.frozen(kw_only=True)
class Plan:
    """Calls of one client.

    Attributes:
        seed: Seed of all other values, together with the transport.
        tls: Whether the service is reached by HTTPS.
        clamp: Maximum rows in the pages of the service.
        together: Whether the calls are made at the same time.
        trusts: The client's `trust_refusals`.
    """

    seed: int
    transport: Transport
    tls: bool
    clamp: int
    together: bool
    trusts: bool
    steps: tuple[Step, ...]

    @classmethod
    def of(cls, seed: int, transport: Transport) -> Plan:
        chance = Random(f"{transport} {seed}")
        together = chance.random() < 0.15
        steps = tuple(_step(chance, transport, together) for _ in range(chance.choice((1, 2, 2, 3, 4))))
        misled = any(_misleads(strike) for step in steps for strike in step.strikes)
        return cls(
            seed=seed,
            transport=transport,
            tls=chance.random() < (0.25 if transport == "http2" else 0.1),
            clamp=chance.choice((100, 100, 3)),
            together=together,
            trusts=not misled and chance.random() < 0.8,
            steps=steps,
        )


def wires_of(transport: Transport) -> Mapping[str, Wire] | Mapping[str, Wire2]:
    """Return the faults of sending that a transport can meet."""
    return WIRE2 if transport == "http2" else WIRE1


def _misleads(strike: Strike) -> bool:
    return strike.after and strike.name in CONTENTS and CONTENTS[strike.name].distrusts


def _step(chance: Random, transport: Transport, together: bool) -> Step:
    kind = chance.choice(WRITES) if chance.random() < 0.65 else chance.choice(KINDS[6:])
    strikes: list[Strike] = []
    if chance.random() < 0.8:
        strikes.append(_strike(chance, transport, "write" if kind in WRITES else "read"))
    expired = not together and chance.random() < 0.1
    if chance.random() < (0.5 if expired else 0.1):
        strikes.append(_strike(chance, transport, "login"))
    if chance.random() < 0.06:
        strikes.append(
            Strike(
                name=chance.choice([*(GREETINGS2 if transport == "http2" else GREETINGS)]),
                target="connect",
                after=False,
                times=chance.choice((1, 2, 4)),
            )
        )
    return Step(
        kind=kind,
        strikes=tuple(strikes),
        expired=expired,
        deadline=chance.choice((0.6, 0.6, 0.6, 1.0, 0.15)),
        cancelled_after=chance.choice((0.0, 0.002, 0.01, 0.1)) if chance.random() < 0.06 else None,
        reconciled=chance.random() < 0.15,
        # Once: after each failure the reconciliation waits twice as long, in real time.
        reading=(attrs.evolve(_strike(chance, transport, "read"), times=1),) if chance.random() < 0.3 else (),
    )


def _strike(chance: Random, transport: Transport, target: Target) -> Strike:
    after = chance.random() < 0.6
    wires = wires_of(transport)
    names = [name for name, fault in wires.items() if target in fault.targets and after in fault.after]
    if chance.random() < 0.5:
        names = [name for name, fault in CONTENTS.items() if target in fault.targets and after in fault.after]
    return Strike(
        name=chance.choice(names),
        target=target,
        after=after,
        # A write that was committed must not come again; one that was not may, and may meet the same.
        times=1 if target == "write" and after else chance.choice((1, 1, 1, 2, 5)),
        echo=chance.choice(("nothing", "nothing", "token", "password")),
    )
