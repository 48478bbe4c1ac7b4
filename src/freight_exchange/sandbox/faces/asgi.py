"""The sandbox exchange as an ASGI application, and under uvicorn, for people and their other programs.

Needs the extra `sandbox`. A server stands between an ASGI application and the wire, so that of the faults
below HTTP only some can be shown. In place of the others comes a 500 that names them; the TCP face performs
them.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

import anyio
import attrs
import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from freight_exchange.sandbox.faces.http_framing import HALVED, NOT_FOUND, call_of, cannot, framed, half
from freight_exchange.sandbox.model.messages import Cut, Reply, WireFault

if TYPE_CHECKING:
    from freight_exchange.sandbox.core.exchange import Exchange

__all__ = ["app", "serve"]

_BROKEN_OFF = frozenset({Cut.RESET_AFTER_SEND, Cut.RESET_AFTER_PROCESSING, Cut.FIN_NO_BYTES})
_GOOD = frozenset({Cut.DRIP, Cut.IDLE_FIN})


def app(exchange: Exchange, *, clock: Callable[[], float] = time.time) -> ASGIApp:
    """An ASGI application that answers everything under `/api/` from `exchange`, bodies of GETs included.

    Of the faults below HTTP, stalls are stalls, and a drip drips its body only. A reset or FIN in place of
    an answer, which ASGI does not offer, becomes a head whose body breaks off, as do truncations: the
    application raises `ConnectionResetError`, at which its server closes the connection. An idle FIN closes
    its connection openly. The others are answered by a 500 that names the fault.
    """
    return Starlette(routes=[Route("/{path:path}", _Endpoint(exchange, clock))])


class _Server(uvicorn.Server):
    """Uvicorn beside other work in one loop: it leaves signals to the program, and says when it is ready."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.settled = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().startup(sockets)
        finally:
            self.settled.set()


@asynccontextmanager
async def serve(
    exchange: Exchange,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    clock: Callable[[], float] = time.time,
) -> AsyncIterator[str]:
    """Serves `exchange` by uvicorn in the running asyncio loop, and gives the API root,
    `http://HOST:PORT/api`.

    `port` is a free one unless told. No signal handlers are installed. Leaving the context closes the server;
    replies still under way (a stall, say) have one second.
    """
    listener = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    config = uvicorn.Config(
        app(exchange, clock=clock),
        http="h11",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=1,
    )
    server = _Server(config)
    # A task of the loop, not of a group held open over the yield: fixtures may be left from another task.
    running = asyncio.get_running_loop().create_task(server.serve(sockets=[listener]))
    try:
        await server.settled.wait()
        if running.done():
            await running
        name = f"[{host}]" if ":" in host else host
        yield f"http://{name}:{listener.getsockname()[1]}/api"
    finally:
        server.should_exit = True
        await running


@attrs.frozen
class _Endpoint:
    """All addresses of the service."""

    exchange: Exchange
    clock: Callable[[], float]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        query = request.url.query
        try:
            body = await request.body()
        except ClientDisconnect:
            # Whoever is killed while he asks is gone, which is his right.
            return
        call = call_of(request.method, scope["path"], query, scope["headers"], body)
        reply = NOT_FOUND if call is None else self.exchange.handle(call, self.clock())
        await anyio.sleep(reply.delay)
        await _deliver(reply, receive, send)


async def _deliver(reply: Reply, receive: Receive, send: Send) -> None:
    wire = reply.wire
    if wire is None or wire.cut in _GOOD:
        await _answer(reply, send, wire)
    elif wire.cut in _BROKEN_OFF or wire.cut in HALVED:
        await _break_off(reply, wire, receive, send)
    elif wire.cut is Cut.STALL:
        await _until_left(receive)
    else:
        await _answer(cannot("ASGI", wire.cut), send, None)


async def _answer(reply: Reply, send: Send, wire: WireFault | None) -> None:
    headers = framed(reply)
    if wire is not None and wire.cut is Cut.IDLE_FIN:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    if wire is not None and wire.cut is Cut.DRIP:
        for byte in reply.body:
            await send({"type": "http.response.body", "body": bytes((byte,)), "more_body": True})
            await anyio.sleep(wire.seconds)
        await send({"type": "http.response.body", "body": b""})
    else:
        await send({"type": "http.response.body", "body": reply.body})


async def _break_off(reply: Reply, wire: WireFault, receive: Receive, send: Send) -> None:
    """Begins a reply that promises more than comes, and ends the connection there."""
    started = attrs.evolve(reply, status=reply.status or 200, wire=WireFault(Cut.TRUNCATED_LENGTH))
    await send({"type": "http.response.start", "status": started.status, "headers": framed(started)})
    part = half(reply) if wire.cut in HALVED else b""
    await send({"type": "http.response.body", "body": part, "more_body": True})
    if wire.cut is Cut.STALL_MID_REPLY:
        await _until_left(receive)
        return
    raise ConnectionResetError(f"the sandbox performs the fault {wire.cut.value}")


async def _until_left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
