"""Player of scripts within the process: a network of httpcore that ends at the exchange.

There are no sockets and no tasks. It runs on asyncio and trio, and follows a virtual clock. The HTTP library above it
is the real one, so its connections, traces, timeouts and errors are those of production.
"""

from __future__ import annotations

import math
import socket
import ssl
import sys
import time
from collections import deque
from collections.abc import Callable, Collection
from contextvars import ContextVar
from types import ModuleType
from typing import Any, Self

import anyio
import anyio.lowlevel
import httpcore
import httpx

from freight_sandbox.wire import CONNECTING, NOT_FOUND, Answering, Call, Conversation, Cut, End, parse_call

_DISTRUSTED = "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed"
_ERRORS = {
    Cut.REFUSED: ConnectionRefusedError("All connection attempts failed"),
    Cut.DNS: socket.gaierror(socket.EAI_NONAME, "Name or service not known"),
    Cut.BAD_CERTIFICATE: ssl.SSLCertVerificationError(1, f"{_DISTRUSTED}: self-signed certificate"),
}
"""Causes of the cuts that fail at once."""
_call: ContextVar[Call | None] = ContextVar("_call", default=None)


def announce(call: Call | None) -> None:
    """Note the call that this task sends next. A fault that strikes connections may be for this call alone."""
    _call.set(call)


class Network(httpcore.AsyncNetworkBackend):
    """Network that ends at the exchange, for the argument `network_backend` of a pool of httpcore.

    Faults before a connection are raised here. A TLS fault strikes plain addresses too, so that no fault needs `https`.

    `core` is `httpcore` or `httpcore2`, whose errors are raised.
    """

    def __init__(
        self, exchange: Answering, clock: Callable[[], float] = time.time, core: ModuleType = httpcore
    ) -> None:
        self.exchange = exchange
        self.clock = clock
        self.core = core

    async def connect_tcp(self, host: str, port: int, timeout: float | None = None, *_: object, **__: object) -> Stream:
        await anyio.lowlevel.checkpoint()
        cut = self.strike(CONNECTING)
        if cut in _ERRORS:
            raise self.core.ConnectError(str(_ERRORS[cut])) from _ERRORS[cut]
        if cut is not None:
            is_pool = cut is Cut.POOL_EXHAUSTED
            await _pause(math.inf, timeout, self.core.PoolTimeout if is_pool else self.core.ConnectTimeout)
        return Stream(self)

    def strike(self, cuts: Collection[Cut]) -> Cut | None:
        """Record the announced call as struck if one of these cuts is due for it."""
        call = _call.get()
        if call is None or (fault := self.exchange.faults.peek(call)) is None or fault.cut not in cuts:
            return None
        self.exchange.handle(call, self.clock())
        cut: Cut = fault.cut
        return cut


class Stream(httpcore.AsyncNetworkStream):
    """Connection to the exchange."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._conversation = Conversation(network.exchange, network.clock)
        # What arrives, and when by the clock of the loop.
        self._arriving: deque[tuple[float, bytes | End]] = deque()
        self._is_closed = False
        self._wake = anyio.Event()

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        if not buffer:
            return
        await anyio.lowlevel.checkpoint()
        ended = self._arriving[0][1] if self._is_due() else None
        if self._is_closed or ended is End.RST:
            raise self._network.core.WriteError
        if ended is End.FIN:
            return  # accepted by the system, and never read
        if len(self._arriving) == 1 and self._arriving[0][1] is End.FIN:
            self._arriving.clear()
        due = self._conversation.feed(bytes(buffer))
        while due is not None:
            at = max(anyio.current_time(), self._arriving[-1][0] if self._arriving else 0.0)
            for part in self._conversation.say(NOT_FOUND) if isinstance(due, Call) else due:
                if isinstance(part, bytes | End):
                    self._arriving.append((at, part))
                else:
                    at += part
            due = self._conversation.feed(b"")

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        await anyio.lowlevel.checkpoint()
        at, part = self._arriving[0] if self._arriving else (math.inf, b"")
        if (wait := at - anyio.current_time()) > 0:
            await _pause(wait, timeout, self._network.core.ReadTimeout, self._wake)
        if self._is_closed or part is End.RST:
            raise self._network.core.ReadError
        if part is End.FIN:
            return b""
        assert isinstance(part, bytes)
        self._arriving.popleft()
        if part[max_bytes:]:
            self._arriving.appendleft((at, part[max_bytes:]))
        return part[:max_bytes]

    async def start_tls(self, *_: object, **__: object) -> Self:
        await anyio.lowlevel.checkpoint()
        return self

    async def aclose(self) -> None:
        self._is_closed = True
        self._wake.set()

    def get_extra_info(self, info: str) -> Any:
        if info != "is_readable":
            return None
        # If a fault that strikes new connections waits, its server closes the others when they are idle.
        is_idle_closed = any(fault.cut in CONNECTING for fault in self._network.exchange.faults.waiting)
        return self._is_closed or self._is_due() or is_idle_closed

    def _is_due(self) -> bool:
        return bool(self._arriving) and self._arriving[0][0] <= anyio.current_time()


async def _pause(
    seconds: float, timeout: float | None, error: type[Exception], wake: anyio.Event | None = None
) -> None:
    """Wait for `seconds`, or until `wake` is set; at the timeout, raise the library's error instead."""
    is_late = timeout is not None and timeout <= seconds
    with anyio.move_on_after(timeout if is_late else seconds) as scope:
        await (anyio.sleep_forever() if wake is None else wake.wait())
    if is_late and scope.cancelled_caught:
        raise error("")


def transport(
    exchange: Answering, *, library: ModuleType = httpx, clock: Callable[[], float] = time.time, **options: Any
) -> httpx.AsyncBaseTransport:
    """Make a transport that carries the requests of an HTTP client to `exchange` within the process.

    `library` is the client's, `httpx` or `httpx2`; `options` are those of its own `AsyncHTTPTransport`, such as
    `limits`. `clock` is the exchange's time in seconds since the epoch.
    """
    core = httpcore if library is httpx else sys.modules["httpcore2"]
    network = Network(exchange, clock, core)
    base: Any = library.AsyncHTTPTransport

    class Transport(base):  # type: ignore[misc]  # of either library
        async def handle_async_request(self, request: Any) -> Any:
            announce(parse_call(request.method.encode(), request.url.raw_path, request.headers.raw))
            if network.strike([Cut.POOL_EXHAUSTED]):
                await _pause(math.inf, request.extensions.get("timeout", {}).get("pool"), library.PoolTimeout)
            return await super().handle_async_request(request)

    # Without certificates, whose loading takes longer than most tests.
    made: httpx.AsyncBaseTransport = Transport(**{"verify": False, "trust_env": False, **options})
    made._pool._network_backend = network  # type: ignore[attr-defined]  # of both libraries
    return made
