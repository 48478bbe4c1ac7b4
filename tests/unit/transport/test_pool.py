"""The pool of connections for reads: one request at a time on each, the last used first, and none that is in doubt."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress

import anyio
import anyio.lowlevel
import attrs
import pytest

from freight_exchange.transport.pool import KEPT, Pool


@attrs.define
class Reply:
    stream: Stream


class Stream:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b"{}"

    async def aclose(self) -> None:
        await anyio.lowlevel.checkpoint()
        if self._transport.breaks == "closing":
            raise OSError("closing")
        self._transport.busy = False


class Transport:
    """Holds one connection, and breaks where it is told to."""

    def __init__(self) -> None:
        self.busy = False
        self.closed = 0
        self.sent = 0
        self.breaks = ""

    async def handle_async_request(self, native: object) -> Reply:
        assert not self.busy, "two requests on one connection"
        assert not self.closed
        self.busy = True
        self.sent += 1
        await anyio.lowlevel.checkpoint()
        if self.breaks == "sending":
            raise OSError("sending")
        if self.breaks == "hanging":
            await anyio.sleep_forever()
        return Reply(Stream(self))

    async def aclose(self) -> None:
        await anyio.lowlevel.checkpoint()
        self.closed += 1


class Made:
    """The transports that a pool has made."""

    def __init__(self) -> None:
        self.transports: list[Transport] = []
        self.pool = Pool(self._make)

    def _make(self) -> Transport:
        self.transports.append(Transport())
        return self.transports[-1]

    async def send(self) -> Reply:
        reply: Reply = await self.pool.handle_async_request(object())
        return reply

    async def call(self) -> None:
        reply = await self.send()
        assert [chunk async for chunk in reply.stream] == [b"{}"]
        await reply.stream.aclose()


@pytest.fixture
def made() -> Made:
    return Made()


async def test_one_caller_has_one_connection(made: Made) -> None:
    for _ in range(5):
        await made.call()
    assert [transport.sent for transport in made.transports] == [5]


async def test_as_many_connections_as_callers_and_the_last_used_is_lent_first(made: Made) -> None:
    replies = [await made.send() for _ in range(3)]
    for reply in replies:
        await reply.stream.aclose()
    await made.call()
    assert [transport.sent for transport in made.transports] == [1, 1, 2]


async def test_a_stream_that_is_closed_twice_gives_its_connection_back_once(made: Made) -> None:
    reply = await made.send()
    await reply.stream.aclose()
    await reply.stream.aclose()
    first, second = await made.send(), await made.send()
    assert [transport.sent for transport in made.transports] == [2, 1]
    await first.stream.aclose()
    await second.stream.aclose()


@pytest.mark.parametrize("where", ["sending", "closing"])
async def test_a_connection_that_broke_is_closed_and_never_lent_again(made: Made, where: str) -> None:
    await made.call()
    made.transports[0].breaks = where
    with pytest.raises(OSError, match=where):
        await made.call()
    await made.call()
    assert [(transport.sent, transport.closed) for transport in made.transports] == [(2, 1), (1, 0)]


async def test_a_cancelled_request_takes_its_connection_along(made: Made) -> None:
    await made.call()
    made.transports[0].breaks = "hanging"
    with anyio.move_on_after(0.01) as scope:
        await made.call()
    assert scope.cancelled_caught
    assert made.transports[0].closed == 1
    await made.call()
    assert [transport.sent for transport in made.transports] == [2, 1]


async def test_what_is_idle_for_long_is_closed_as_others_come_back(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("freight_exchange.transport.pool.time.monotonic", lambda: now)
    replies = [await made.send() for _ in range(3)]
    for reply in replies:
        await reply.stream.aclose()
    now += KEPT
    await made.call()
    assert [transport.closed for transport in made.transports] == [0, 0, 0]
    now += 1
    await made.call()
    await made.call()
    assert [transport.closed for transport in made.transports] == [1, 1, 0]
    assert made.transports[2].sent == 4


async def test_closing_closes_what_is_idle_now_and_what_is_lent_later(made: Made) -> None:
    async with made.pool:
        lent, idle = await made.send(), await made.send()
        await idle.stream.aclose()
    assert [transport.closed for transport in made.transports] == [0, 1]
    await lent.stream.aclose()
    assert [transport.closed for transport in made.transports] == [1, 1]


async def test_a_connection_whose_closing_fails_is_forgotten(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(_: Transport) -> None:
        raise anyio.BrokenResourceError

    await made.call()
    monkeypatch.setattr(Transport, "aclose", fails)
    await made.pool.aclose()
    made.transports[0].breaks = "sending"
    with suppress(OSError):
        await made.call()
    assert [transport.sent for transport in made.transports] == [1, 1]
