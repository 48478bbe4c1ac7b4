"""Tests of the connection pool."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import anyio
import anyio.lowlevel
import attrs
import pytest

from freight_exchange.transport.http.pool import REPEATABLE, Pool

pytestmark = pytest.mark.both_backends

KEPT = 5.0


class Stream:
    """Network stream of a connection."""

    def __init__(self) -> None:
        self.received = True
        self.is_quiet = True
        self.finished = 0

    def finish(self) -> None:
        self.finished += 1


class Body:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b"{}"

    async def aclose(self) -> None:
        await anyio.lowlevel.checkpoint()
        if self._connection.breaks == "closing":
            raise OSError("closing")
        self._connection.busy = False


@attrs.define
class Response:
    stream: Body
    extensions: dict[str, object]
    status: int = 200
    headers: list[tuple[bytes, bytes]] = attrs.field(factory=list)


@attrs.define
class Parser:
    trailing_data: tuple[bytes, bool] = (b"", False)


class ReadError(Exception):
    """Error of httpcore, which the pool recognises by its name."""


class Connection:
    """Connection of httpcore, which breaks at the given place."""

    def __init__(self) -> None:
        self.busy = False
        self.closed = 0
        self.sent = 0
        self.breaks = ""
        self.expired = False
        self.network = Stream()
        self._h11_state = Parser()

    async def handle_async_request(self, request: object) -> Response:
        assert not self.busy, "two requests on one connection"
        assert not self.closed
        self.busy = True
        self.sent += 1
        await anyio.lowlevel.checkpoint()
        if self.breaks == "sending":
            raise OSError("sending")
        if self.breaks == "stale":
            raise ReadError
        if self.breaks == "late":
            self.network.received = True
            raise ReadError
        if self.breaks == "hanging":
            await anyio.sleep_forever()
        return Response(Body(self), {"network_stream": self.network})

    def is_idle(self) -> bool:
        return not self.busy

    def has_expired(self) -> bool:
        return self.expired

    async def aclose(self) -> None:
        await anyio.lowlevel.checkpoint()
        self.closed += 1


@attrs.define
class Request:
    extensions: dict[str, object] = attrs.field(factory=dict)


class Made:
    """Connections that a pool has made."""

    def __init__(self, keepalive: float = KEPT) -> None:
        self.transports: list[Connection] = []
        self.pool = Pool(self._make, keepalive=keepalive)

    def _make(self) -> Connection:
        self.transports.append(Connection())
        return self.transports[-1]

    async def send(self, *, repeatable: bool = False) -> Any:
        return await self.pool.handle_async_request(Request({REPEATABLE: True} if repeatable else {}))

    async def call(self, *, repeatable: bool = False) -> None:
        reply = await self.send(repeatable=repeatable)
        assert [chunk async for chunk in reply.stream] == [b"{}"]
        await reply.stream.aclose()

    @property
    def story(self) -> list[tuple[int, int]]:
        """Return for each connection the number of its requests, and how often it was closed."""
        return [(transport.sent, transport.closed) for transport in self.transports]


@pytest.fixture
def made() -> Made:
    return Made()


async def test_single_caller_reuses_one_connection(made: Made) -> None:
    for _ in range(5):
        await made.call()
    assert [transport.sent for transport in made.transports] == [5]


async def test_pool_has_as_many_connections_as_callers_and_lends_the_last_used_first(made: Made) -> None:
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


@pytest.mark.virtual_time
async def test_a_cancelled_request_takes_its_connection_along(made: Made) -> None:
    await made.call()
    made.transports[0].breaks = "hanging"
    with anyio.move_on_after(0.01) as scope:
        await made.call()
    assert scope.cancelled_caught
    assert made.transports[0].closed == 1
    await made.call()
    assert [transport.sent for transport in made.transports] == [2, 1]


async def test_expired_connections_are_closed_when_others_return(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("freight_exchange.transport.http.pool.time.monotonic", lambda: now)
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


async def test_closing_closes_idle_connections_now_and_lent_ones_later(made: Made) -> None:
    async with made.pool:
        lent, idle = await made.send(), await made.send()
        await idle.stream.aclose()
    assert [transport.closed for transport in made.transports] == [0, 1]
    await lent.stream.aclose()
    assert [transport.closed for transport in made.transports] == [1, 1]


async def test_a_connection_whose_closing_fails_is_forgotten(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(_: Connection) -> None:
        raise anyio.BrokenResourceError

    await made.call()
    monkeypatch.setattr(Connection, "aclose", fails)
    await made.pool.aclose()
    made.transports[0].breaks = "sending"
    with suppress(OSError):
        await made.call()
    assert [transport.sent for transport in made.transports] == [1, 1]


@pytest.mark.parametrize("spoiled", ["trailing", "ended", "noise", "expired", "busy"])
async def test_a_connection_with_anything_left_over_is_closed_and_never_lent_again(made: Made, spoiled: str) -> None:
    reply = await made.send()
    connection = made.transports[0]
    if spoiled == "trailing":
        connection._h11_state.trailing_data = (b"H", False)
    if spoiled == "ended":
        connection._h11_state.trailing_data = (b"", True)
    await reply.stream.aclose()
    connection.network.is_quiet = spoiled != "noise"
    connection.expired = spoiled == "expired"
    connection.busy = spoiled == "busy"
    await made.call()
    assert made.story == [(1, 1), (1, 0)]


async def test_the_parser_is_found_behind_the_connections_of_proxies(made: Made) -> None:
    class Tunnel(Connection):
        def __init__(self) -> None:
            super().__init__()
            self._connection = Connection()
            del self._h11_state

    made.pool = Pool(lambda: made.transports.append(Tunnel()) or made.transports[-1], keepalive=KEPT)  # type: ignore[func-returns-value]
    await made.call()
    made.transports[0]._connection._h11_state.trailing_data = (b"H", False)  # type: ignore[attr-defined]  # a Tunnel's
    await made.call()
    await made.call()
    assert made.story == [(2, 1), (1, 0)]


@pytest.mark.parametrize(
    ("breaks", "repeatable", "expected"),
    [
        ("stale", True, [(2, 1), (1, 0)]),
        ("stale", False, [(2, 1)]),
        ("late", True, [(2, 1)]),
        ("sending", True, [(2, 1)]),
    ],
)
async def test_a_read_on_a_stale_connection_is_repeated_once_on_a_fresh_one(
    made: Made, breaks: str, repeatable: bool, expected: list[tuple[int, int]]
) -> None:
    await made.call()
    made.transports[0].breaks = breaks
    with suppress(ReadError, OSError):
        await made.call(repeatable=repeatable)
    assert made.story == expected


async def test_a_fresh_connection_that_breaks_is_not_repeated(made: Made) -> None:
    await made.call()
    made.transports[0].breaks = "stale"
    fresh = Connection()
    fresh.breaks = "stale"
    made.pool._connect = lambda: fresh
    with pytest.raises(ReadError):
        await made.call(repeatable=True)
    assert (made.story, fresh.sent, fresh.closed) == ([(2, 1)], 1, 1)


async def test_no_connection_is_kept_without_keepalive() -> None:
    made = Made(keepalive=0)
    for _ in range(2):
        await made.call()
    assert made.story == [(1, 1), (1, 1)]


async def test_a_connection_is_closed_in_order_only_after_a_whole_reply(made: Made) -> None:
    reply = await made.send()
    await reply.stream.aclose()
    assert made.transports[0].network.finished == 0
    await made.call()
    assert made.transports[0].network.finished == 1
