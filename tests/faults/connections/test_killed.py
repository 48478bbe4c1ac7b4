"""Tests that unsent bytes of a write are discarded when the process dies."""

from __future__ import annotations

import signal
import socket
import struct
import subprocess
import sys
import textwrap

import httpcore
import pytest
from anyio.abc import ByteStream
from tests.faults.connections.raw import Server, reply, serving

from freight_exchange.transport.http import own_pools
from freight_exchange.transport.http.backend import SEND_TIMEOUT

SETTLE = 30
"""Seconds; the default of `reconcile()`."""
BODY = 300_000
"""Bytes; more than the server reads, and fewer than the kernel buffers."""


async def test_sockets_have_the_options_that_bound_an_absence() -> None:
    """The kernel gives up before a proof of absence is possible.

    A write's socket is aborted unless its reply is complete.
    """
    seen: dict[str, tuple[int, tuple[int, int]]] = {}

    async def answer(_: Server, stream: ByteStream, request: bytes) -> bool:
        await stream.send(reply({}))
        return True

    def look(name: str, raw: socket.socket) -> None:
        linger = struct.unpack("ii", raw.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8))
        seen[name] = (raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT), linger)

    async with serving(answer) as server:
        pools = own_pools.own_pools(base_url=server.url, proxy=None, verify=True, keepalive=5)
        async with pools[0], pools[1]:
            for name, pool in zip(("read", "write"), pools, strict=True):
                got = await pool.handle_async_request(httpcore.Request("GET", f"{server.url}/x", headers={"Host": "x"}))
                pooled = got.stream._pooled
                assert pooled is not None
                raw = pooled.stream.get_extra_info("socket")
                look(f"{name} under way", raw)
                assert b"".join([chunk async for chunk in got.stream]) == b"{}"
                pooled.stream.finish()
                look(f"{name} whole", raw)
                await got.stream.aclose()
    limit = SEND_TIMEOUT * 1000
    assert seen == {
        "read under way": (limit, (0, 0)),
        "read whole": (limit, (0, 0)),
        "write under way": (limit, (1, 0)),
        "write whole": (limit, (0, 0)),
    }
    assert SEND_TIMEOUT * 2 <= SETTLE


PROGRAM = """
    import sys
    import anyio, httpcore
    from freight_exchange.transport.http import own_pools

    async def main(url, kind, body):
        reads, writes = own_pools.own_pools(base_url=url, proxy=None, verify=True, keepalive=5)
        pool = writes if kind == "write" else reads
        headers = {"Host": "x", "Content-Length": str(body)}

        async def trace(event, info):
            if event.endswith("send_request_body.complete"):
                print("sent", flush=True)

        extensions = {"trace": trace}
        request = httpcore.Request("POST", url, headers=headers, content=b"x" * body, extensions=extensions)
        await pool.handle_async_request(request)

    anyio.run(main, sys.argv[1], sys.argv[2], int(sys.argv[3]))
"""


@pytest.mark.parametrize("kind", ["write", pytest.param("read", marks=pytest.mark.long)])
def test_a_killed_process_leaves_nothing_to_be_delivered(kind: str) -> None:
    """Control: all bytes of a read that the kernel had buffered arrive, so the server's buffers do not cause the loss.

    On asyncio: trio's own sockets hand the kernel 16 KB at a time.
    """
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/api/x"
        command = [sys.executable, "-c", textwrap.dedent(PROGRAM), url, kind, str(BODY)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"sent\n"
            connection, _ = listener.accept()
            with connection:
                connection.settimeout(10)
                process.send_signal(signal.SIGKILL)
                process.wait()
                received = _drained(connection)
    if kind == "write":
        assert received < BODY / 2
    else:
        assert received > BODY


def _drained(connection: socket.socket) -> int:
    received = 0
    try:
        while chunk := connection.recv(1 << 16):
            received += len(chunk)
    except ConnectionResetError:
        pass
    return received
