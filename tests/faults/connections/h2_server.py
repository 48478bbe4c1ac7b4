"""HTTP/2 server of the sandbox exchange, which can also reset a connection."""

from __future__ import annotations

import logging
import socket
import ssl
import struct
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import anyio
import h2.config
import h2.connection
import h2.events
import h2.exceptions
import trustme
from anyio.abc import AnyByteStream, SocketAttribute
from anyio.streams.tls import TLSListener, TLSStream

from freight_sandbox import Exchange
from freight_sandbox.wire import End, parse_call, script

__all__ = ["serve_h2"]


@asynccontextmanager
async def serve_h2(exchange: Exchange) -> AsyncIterator[tuple[str, ssl.SSLContext]]:
    """Serve on a free loopback port; yield the API root and the TLS context of a client that trusts the server."""
    authority = trustme.CA()
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.set_alpn_protocols(["h2"])
    authority.issue_cert("127.0.0.1").configure_cert(server)
    client = ssl.create_default_context()
    authority.configure_trust(client)
    plain = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = plain.extra(SocketAttribute.local_port)

    async def converse(stream: TLSStream) -> None:
        async with stream:
            # The client may be gone.
            with suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, ssl.SSLError):
                await _Conversation(exchange, stream).run()

    async with TLSListener(plain, server, standard_compatible=False) as listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, converse)
        yield f"https://127.0.0.1:{port}/api", client
        tasks.cancel_scope.cancel()


class _Conversation:
    """Connection with any number of concurrent requests."""

    def __init__(self, exchange: Exchange, stream: AnyByteStream) -> None:
        self._exchange = exchange
        self._stream = stream
        self._h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding=None))
        self._heads: dict[int, list[tuple[bytes, bytes]]] = {}
        self._bodies: dict[int, bytes] = {}

    async def run(self) -> None:
        self._h2.initiate_connection()
        while True:
            await self._stream.send(self._h2.data_to_send())
            for event in self._received(await self._stream.receive()):
                if isinstance(event, h2.events.RequestReceived):
                    self._heads[event.stream_id] = [(bytes(name), bytes(value)) for name, value in event.headers]
                    self._bodies[event.stream_id] = b""
                elif isinstance(event, h2.events.DataReceived):
                    self._bodies[event.stream_id] += event.data
                    self._h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                elif isinstance(event, h2.events.StreamEnded) and not self._answer(event.stream_id):
                    return

    def _received(self, data: bytes) -> list[h2.events.Event]:
        # The client in this process has the same logger, and is not to answer for what this end of the wire logs.
        logger = logging.getLogger("hpack.hpack")
        logger.disabled = True
        try:
            return self._h2.receive_data(data)
        finally:
            logger.disabled = False

    def _answer(self, stream: int) -> bool:
        """Answer one request; return `False` if the connection was reset instead."""
        head = dict(self._heads.pop(stream))
        fields = [(name, value) for name, value in head.items() if not name.startswith(b":")]
        call = parse_call(head[b":method"], head[b":path"], fields, self._bodies.pop(stream))
        assert call is not None
        reply = self._exchange.handle(call, time.time())
        if reply.wire is not None:
            assert script(reply) == [End.RST], "this server knows no other cut"
            raw: socket.socket = self._stream.extra(SocketAttribute.raw_socket)
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            raw.shutdown(socket.SHUT_RDWR)
            return False
        headers = [(b":status", b"%d" % reply.status)]
        headers += [(name.encode(), value.encode()) for name, value in reply.headers]
        self._h2.send_headers(stream, headers)
        self._h2.send_data(stream, reply.body, end_stream=True)
        return True
