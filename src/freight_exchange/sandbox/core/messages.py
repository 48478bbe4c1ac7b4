"""What goes in and out of the simulated exchange: one call, one reply, nothing of HTTP libraries."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from freight_exchange.sandbox.faults.script import WireFault

__all__ = ["Call", "Reply"]


@attrs.frozen
class Call:
    """One HTTP request as the server has received it.

    `path` is relative to the API root and has no leading slash (`quote/getrequests`); the names of `headers`
    are lower case.
    """

    method: str
    path: str
    query: Mapping[str, str] = attrs.field(factory=dict)
    headers: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    body: bytes = attrs.field(default=b"", repr=False)


@attrs.frozen
class Reply:
    """The answer, and what the face must do to the connection instead of, or while, delivering it.

    `delay` is the server's thinking time in seconds before the first byte. Where a cut leaves no answer at
    all, `status` is 0 and `body` is empty.
    """

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = attrs.field(default=b"", repr=False)
    wire: WireFault | None = None
    delay: float = 0.0
