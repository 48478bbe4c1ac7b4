"""Scripted faults: which call is struck, whether it takes effect all the same, what the client sees."""

from __future__ import annotations

import enum
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import attrs

if TYPE_CHECKING:
    from freight_exchange.sandbox.core.exchange import Exchange
    from freight_exchange.sandbox.core.messages import Call, Reply

__all__ = ["Cut", "Fault", "FaultScript", "Fired", "WireFault"]


class Cut(enum.Enum):
    """What happens to the connection. The first group strikes before the server has the whole request."""

    REFUSED = "refused"  # nothing listens
    DNS = "dns"  # the name does not resolve
    CONNECT_STALL = "connect_stall"  # the handshake of TCP never ends
    TLS_STALL = "tls_stall"  # connected, the TLS hello is never answered
    BAD_CERTIFICATE = "bad_certificate"  # the certificate is not trusted
    POOL_EXHAUSTED = "pool_exhausted"  # the client's own pool has no free connection
    RESET_BEFORE_HEADERS = "reset_before_headers"  # RST before the head of the request was read
    RESET_MID_BODY = "reset_mid_body"  # RST when the head, but not the whole body of the request was read

    RESET_AFTER_SEND = "reset_after_send"  # request received whole, not processed, then RST
    RESET_AFTER_PROCESSING = "reset_after_processing"  # processed, then RST instead of the reply
    RESET_MID_REPLY = "reset_mid_reply"  # head and half of the reply's body, then RST
    FIN_NO_BYTES = "fin_no_bytes"  # the connection closed in order, without one byte of a reply
    STALL = "stall"  # no reply, ever; the connection stays open
    STALL_MID_REPLY = "stall_mid_reply"  # head and half of the body, then silence
    DRIP = "drip"  # the whole reply, byte by byte, `seconds` between two bytes
    TRUNCATED_LENGTH = "truncated_length"  # Content-Length says more than what comes before FIN
    TRUNCATED_CHUNKS = "truncated_chunks"  # chunked, FIN before the last chunk
    GARBAGE_STATUS = "garbage_status"  # a status line that is not HTTP
    HEADER_FLOOD = "header_flood"  # headers without end
    BYTES_AFTER_REPLY = "bytes_after_reply"  # a good reply, then its bytes again, which no request asked for
    IDLE_FIN = "idle_fin"  # a good reply that promises to keep the connection, then FIN `seconds` later

    @property
    def early(self) -> bool:
        """Whether it strikes before the server has the whole request: nothing can have taken effect."""
        return self in _EARLY

    @property
    def answers(self) -> bool:
        """Whether the reply reaches the client whole in the end."""
        return self in _ANSWERING


_EARLY = frozenset(
    {
        Cut.REFUSED,
        Cut.DNS,
        Cut.CONNECT_STALL,
        Cut.TLS_STALL,
        Cut.BAD_CERTIFICATE,
        Cut.POOL_EXHAUSTED,
        Cut.RESET_BEFORE_HEADERS,
        Cut.RESET_MID_BODY,
    }
)
_ANSWERING = frozenset({Cut.DRIP, Cut.BYTES_AFTER_REPLY, Cut.IDLE_FIN})


@attrs.frozen
class WireFault:
    """One cut. `seconds` is the pause of a drip or an idle FIN; `size` the least bytes that a flood sends."""

    cut: Cut
    seconds: float = 0.0
    size: int = 0


@attrs.frozen(kw_only=True)
class Fault:
    """A rule that strikes calls.

    A call matches by `method` and `path` (`None` matches all) and `when`, which an early cut asks before the body
    has come. The first `skip` matching calls go through, the next `times` are struck (`None`: all of them).

    `processed` says whether a struck call is handled, and so may take effect, before the fault shows. `change`
    alters the exchange's state just before the struck call is handled. `mutate` alters the reply, or makes the
    whole of it for a call that was not processed. `wire` tells the face what to do to the connection. `delay` is
    how many seconds late the reply is.
    """

    name: str
    method: str | None = None
    path: str | None = None
    when: Callable[[Call], bool] | None = None
    processed: bool = True
    times: int | None = 1
    skip: int = 0
    wire: WireFault | None = None
    mutate: Callable[[Reply, float, Random], Reply] | None = None
    change: Callable[[Exchange, float], None] | None = None
    delay: float = 0.0

    def __attrs_post_init__(self) -> None:
        if not self.processed and self.wire is None and self.mutate is None:
            raise ValueError(f"the fault {self.name} leaves a call without reply and without a cut")

    @property
    def early(self) -> bool:
        """Whether it strikes before the server has the whole request."""
        return self.wire is not None and self.wire.cut.early

    def matches(self, call: Call) -> bool:
        return (
            (self.method is None or self.method == call.method)
            and (self.path is None or self.path == call.path)
            and (self.when is None or self.when(call))
        )


class Fired(NamedTuple):
    """One strike: the fault's name, the call's number in the truth, and whether the call took effect."""

    name: str
    call: int
    processed: bool


class _Armed:
    """A fault with its counters."""

    __slots__ = ("fault", "left", "skip")

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        self.skip = fault.skip
        self.left = fault.times


class FaultScript:
    """The faults that wait for their calls, in the order of their arming: the first that is due strikes."""

    def __init__(self) -> None:
        self._armed: list[_Armed] = []
        self.fired: list[Fired] = []

    def add(self, *faults: Fault) -> None:
        """Arms the faults, behind those that wait already."""
        self._armed.extend(_Armed(fault) for fault in faults)

    def clear(self) -> None:
        """Disarms every fault. What has fired stays on record."""
        self._armed.clear()

    def disarm(self, *faults: Fault) -> None:
        """Disarms these faults, the very ones that were added."""
        self._armed = [armed for armed in self._armed if not any(armed.fault is fault for fault in faults)]

    @property
    def waiting(self) -> tuple[Fault, ...]:
        """The faults that can still strike."""
        return tuple(armed.fault for armed in self._armed)

    def peek(self, call: Call) -> Fault | None:
        """The fault that would strike this call. Nothing is counted."""
        for armed in self._armed:
            if armed.skip == 0 and armed.fault.matches(call):
                return armed.fault
        return None

    def take(self, call: Call) -> Fault | None:
        """The fault that strikes this call, counted. Whoever takes it puts it on record with `note`."""
        for armed in self._armed:
            if not armed.fault.matches(call):
                continue
            if armed.skip:
                armed.skip -= 1
                continue
            if armed.left is not None:
                armed.left -= 1
                if armed.left == 0:
                    self._armed.remove(armed)
            return armed.fault
        return None

    def note(self, fault: Fault, call: int, processed: bool) -> None:
        """Puts a strike on record: `processed` says whether the call really took effect."""
        self.fired.append(Fired(fault.name, call, processed))
