"""The sandbox exchange as an ASGI application, and under uvicorn. Needs the extra `sandbox`.

A server is between an ASGI application and the socket, so only some faults below HTTP are possible. For the others the
reply is a 500 with the name of the fault; the TCP face performs them.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

import anyio
import attrs

try:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import ClientDisconnect, Request
    from starlette.routing import Route
    from starlette.types import ASGIApp, Receive, Scope, Send
except ModuleNotFoundError as error:
    if error.name not in ("starlette", "uvicorn"):
        raise
    raise ModuleNotFoundError(
        'the sandbox under uvicorn needs the extra "sandbox": pip install "freight-exchange[sandbox]"', name=error.name
    ) from None

from freight_exchange.sandbox.core.exchange import Exchange
from freight_exchange.sandbox.faces.http_framing import (
    HALVED,
    NOT_FOUND,
    frame_headers,
    half,
    parse_call,
    unsupported_cut,
)
from freight_exchange.sandbox.model.messages import Cut, Reply, WireFault

__all__ = ["app", "serve"]

_TRUNCATED = frozenset({Cut.RESET_AFTER_SEND, Cut.RESET_AFTER_PROCESSING, Cut.FIN_NO_BYTES})
_ANSWERED = frozenset({Cut.DRIP, Cut.IDLE_FIN})


def app(exchange: Exchange, *, clock: Callable[[], float] = time.time) -> ASGIApp:
    """Make an ASGI application that answers all calls under `/api/` by `exchange`. It reads the bodies of GETs too.

    Stalls work as over TCP, and a drip slows the body only. A reset, a FIN or a truncation becomes a reply with an
    incomplete body: the application raises `ConnectionResetError`, and its server closes the connection. An idle FIN
    becomes the header `connection: close`. For other faults below HTTP the reply is a 500 with the name of the fault.
    """
    return Starlette(routes=[Route("/{path:path}", _Endpoint(exchange, clock))])


class _Server(uvicorn.Server):
    """Uvicorn server that shares its loop: it installs no signal handlers and signals when it has started."""

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
    """Serve `exchange` with uvicorn in the running asyncio loop, and yield the API root `http://HOST:PORT/api`.

    Port 0, the default, takes a free port. No signal handlers are installed. At the end of the context
    the server closes; replies in flight have one second to finish.
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
    # A task of the loop, not of a task group around the yield, since a fixture may be left from another task.
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
    """Endpoint for every address of the service."""

    exchange: Exchange
    clock: Callable[[], float]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        query = request.url.query
        try:
            body = await request.body()
        except ClientDisconnect:
            # The client has disconnected, for example because its program was killed.
            return
        call = parse_call(request.method, scope["path"], query, scope["headers"], body)
        reply = NOT_FOUND if call is None else self.exchange.handle(call, self.clock())
        await anyio.sleep(reply.delay)
        await _deliver(reply, receive, send)


async def _deliver(reply: Reply, receive: Receive, send: Send) -> None:
    wire = reply.wire
    if wire is None or wire.cut in _ANSWERED:
        await _answer(reply, send, wire)
    elif wire.cut in _TRUNCATED or wire.cut in HALVED:
        await _break_off(reply, wire, receive, send)
    elif wire.cut is Cut.STALL:
        await _wait_for_disconnect(receive)
    else:
        await _answer(unsupported_cut("ASGI", wire.cut), send, None)


async def _answer(reply: Reply, send: Send, wire: WireFault | None) -> None:
    headers = frame_headers(reply)
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
    """Send a reply that is shorter than its announced length, and end the connection."""
    started = attrs.evolve(reply, status=reply.status or 200, wire=WireFault(Cut.TRUNCATED_LENGTH))
    await send({"type": "http.response.start", "status": started.status, "headers": frame_headers(started)})
    part = half(reply) if wire.cut in HALVED else b""
    await send({"type": "http.response.body", "body": part, "more_body": True})
    if wire.cut is Cut.STALL_MID_REPLY:
        await _wait_for_disconnect(receive)
        return
    raise ConnectionResetError(f"the sandbox performs the fault {wire.cut.value}")


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
