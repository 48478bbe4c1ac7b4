"""Tests of the replies of the operator's port, without and with a socket."""

from __future__ import annotations

import contextlib
import errno
import logging
from typing import Any

import anyio
import attrs
import pytest
from anyio.abc import SocketListener, SocketStream
from hypothesis import example, given
from hypothesis import strategies as st
from tests.old.ops.replies import GET, HOST, Reply, everything, fixed, port, read, reply_to
from tests.old.ops.statuses import STATES, STATUS

from freight_exchange import BotStatus, ConfigurationError
from freight_exchange.bot.ops import probes
from freight_exchange.bot.ops.exposition import Expose
from freight_exchange.bot.ops.probes import answer, open_listener, serve

PATHS = ["/livez", "/readyz", "/metrics"]


def ask(line: str, status: BotStatus = STATUS, expose: Expose | None = None) -> Reply:
    head = f"{line}\r\nHost: bot\r\n\r\n".encode("latin-1")
    return read(answer(head, lambda: status, expose or fixed))


class TestPages:
    @pytest.mark.parametrize("state", STATES)
    @pytest.mark.parametrize("live", [True, False])
    def test_livez_is_ok_while_the_bot_is_live(self, state: Any, live: bool) -> None:
        status = attrs.evolve(STATUS, state=state, live=live)
        reply = ask("GET /livez HTTP/1.1", status)
        assert (reply.code, reply.reason) == ((200, "OK") if live else (503, "Service Unavailable"))
        assert reply.body == f"{state}, watermark 12.5 s old\n"
        assert reply.headers["content-type"] == "text/plain; charset=utf-8"

    def test_livez_of_a_replica_that_does_not_scan_has_no_age(self) -> None:
        status = attrs.evolve(STATUS, scans=False)
        assert ask("GET /livez HTTP/1.1", status).body == "running, another replica scans\n"

    @pytest.mark.parametrize("state", STATES)
    @pytest.mark.parametrize("live", [True, False])
    def test_readyz_is_ok_while_the_bot_is_live_and_running(self, state: Any, live: bool) -> None:
        status = attrs.evolve(STATUS, state=state, live=live)
        assert ask("GET /readyz HTTP/1.1", status).code == (200 if live and state == "running" else 503)

    def test_metrics_are_in_accepted_format(self) -> None:
        reply = read(answer(b"GET /metrics HTTP/1.1\r\nACCEPT: text/x\r\n\r\n", lambda: STATUS, fixed))
        assert reply.code == 200
        assert reply.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert reply.body == "# \N{DELIVERY TRUCK} text/x\nup 1\n"

    def test_metrics_need_extra(self) -> None:
        reply = read(answer(b"GET /metrics HTTP/1.1\r\n\r\n", lambda: STATUS, None))
        assert (reply.code, reply.reason) == (501, "Not Implemented")
        assert reply.body == 'metrics need the extra "metrics": pip install "freight-exchange[metrics]"\n'

    @pytest.mark.parametrize("path", [*PATHS, "/", "/healthz"])
    @pytest.mark.parametrize("live", [True, False])
    def test_head_has_no_body(self, path: str, live: bool) -> None:
        status = attrs.evolve(STATUS, live=live)
        whole, bare = ask(f"GET {path} HTTP/1.1", status), ask(f"HEAD {path} HTTP/1.1", status)
        assert whole.body
        assert bare == attrs.evolve(whole, body="")

    @pytest.mark.parametrize("path", PATHS)
    @pytest.mark.parametrize("query", ["?", "?verbose", "?a=/livez&b=?"])
    def test_query_is_ignored(self, path: str, query: str) -> None:
        assert ask(f"GET {path}{query} HTTP/1.1") == ask(f"GET {path} HTTP/1.1")

    @pytest.mark.parametrize(
        "path", ["/", "/livez/", "/LIVEZ", "/livezz", "//livez", "/metrics/x", "livez", "*", "/%6civez", "/../livez"]
    )
    def test_other_paths_get_404(self, path: str) -> None:
        for method in ("GET", "POST"):
            reply = ask(f"{method} {path} HTTP/1.1")
            assert (reply.code, reply.reason) == (404, "Not Found")
            assert all(known in reply.body for known in PATHS)

    @pytest.mark.parametrize("path", PATHS)
    @pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "get", "BREW"])
    def test_other_methods_get_405(self, method: str, path: str) -> None:
        reply = ask(f"{method} {path} HTTP/1.1")
        assert (reply.code, reply.reason) == (405, "Method Not Allowed")
        assert reply.headers["allow"].split(", ") == ["get", "head"]

    @pytest.mark.parametrize(
        "head",
        [
            b"\r\n\r\n", b"\n\n", b"   \r\n\r\n", b"GET\r\n\r\n", b"GET /livez\r\n\r\n",
            b"GET /livez HTTP/1.1 x\r\n\r\n", b"GET /livez FTP/1.1\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n\n", b"\x00\xff\xfe\n\n",
        ],
        ids=repr,
    )  # fmt: skip
    def test_request_that_is_no_http_gets_400(self, head: bytes) -> None:
        reply = read(answer(head, lambda: STATUS, fixed))
        assert (reply.code, reply.reason) == (400, "Bad Request")

    @given(st.binary(max_size=200))
    @example(b"")
    @example(b"GET \xc2\x85 HTTP/\n")
    def test_any_request_is_answered(self, head: bytes) -> None:
        reply = read(answer(head, lambda: STATUS, fixed))
        assert reply.code in (200, 400, 404, 405)
        if reply.body:
            assert int(reply.headers["content-length"]) == len(reply.body.encode())

    @given(st.text(max_size=20))
    def test_path_is_never_echoed(self, path: str) -> None:
        """No part of a request reaches the reply."""
        marked = f"/sentinel{path}"
        assert b"sentinel" not in answer(f"GET {marked} HTTP/1.1\r\n\r\n".encode(), lambda: STATUS, fixed)

    @given(st.sampled_from(PATHS), st.sampled_from(STATES))
    def test_content_length_counts_the_bytes_of_the_body(self, path: str, state: Any) -> None:
        reply = ask(f"GET {path} HTTP/1.1", attrs.evolve(STATUS, state=state))
        assert int(reply.headers["content-length"]) == len(reply.body.encode())


@pytest.fixture
def short_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "_REQUEST_TIMEOUT", 0.2)


class TestSocket:
    async def test_serves_each_page(self) -> None:
        async with port() as number:
            for path in PATHS:
                head = f"GET {path} HTTP/1.1\r\nHost: bot\r\n\r\n".encode()
                assert await reply_to(number, head) == answer(head, lambda: STATUS, fixed)

    async def test_request_in_pieces(self) -> None:
        async with port() as number:
            pieces = [GET[start : start + 1] for start in range(len(GET))]
            assert read(await reply_to(number, *pieces)).code == 200

    async def test_early_disconnect(self) -> None:
        async with port() as number:
            for part in (b"", b"GET /liv", GET):
                async with await anyio.connect_tcp(HOST, number) as stream:
                    await stream.send(part)
                    await anyio.aclose_forcefully(stream)
            assert read(await reply_to(number, GET)).code == 200

    async def test_incomplete_request_is_closed(self) -> None:
        async with port() as number, await anyio.connect_tcp(HOST, number) as stream:
            await stream.send(b"GET /livez HTTP/1.1\r\n")
            await stream.send_eof()
            assert await everything(stream) == b""

    @pytest.mark.usefixtures("short_timeout")
    async def test_slow_request_is_closed(self) -> None:
        async with port() as number, await anyio.connect_tcp(HOST, number) as stream:
            await stream.send(b"GET /livez HTTP/1.1\r\n")
            with anyio.fail_after(60):
                assert await everything(stream) == b""

    async def test_oldest_connection_makes_room(self) -> None:
        """The port closes its oldest connection, and answers a probe at once."""
        async with port() as number, contextlib.AsyncExitStack() as held:
            idle = [await held.enter_async_context(await anyio.connect_tcp(HOST, number)) for _ in range(200)]
            assert read(await reply_to(number, GET)).code == 200
            assert await everything(idle[0]) == b""

    @pytest.mark.parametrize("error", [OSError(errno.EMFILE, "no descriptors"), ConnectionAbortedError()], ids=repr)
    async def test_error_of_accept_ends_nothing(
        self, error: OSError, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr(probes, "_RETRY_INTERVAL", 0.0)
        listener, (_, number) = await open_listener(HOST, 0)
        (one,) = listener.listeners
        assert isinstance(one, SocketListener)
        accept, refused = one.accept, [error] * 3

        async def reluctant() -> SocketStream:
            if refused:
                raise refused.pop()
            return await accept()

        monkeypatch.setattr(one, "accept", reluctant)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(serve, listener, lambda: STATUS, fixed)
            for _ in range(2):
                assert read(await reply_to(number, GET)).code == 200
            tasks.cancel_scope.cancel()
        logged = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
        assert logged == [f"the operator's port cannot accept connections: {error}; retrying"], (
            "once, and not each time"
        )

    @pytest.mark.parametrize("end", [b"\r\n\r\n", b""], ids=["ended", "endless"])
    async def test_long_request_is_not_read_to_its_end(self, end: bytes) -> None:
        async with port() as number:
            async with await anyio.connect_tcp(HOST, number) as stream:
                flood = b"GET /livez HTTP/1.1\r\nX: " + b"x" * 8192 + end
                await stream.send(flood)
                with anyio.fail_after(60):
                    reply = await everything(stream)
            assert not reply or read(reply).code in (200, 400, 431)
            assert read(await reply_to(number, GET)).code == 200

    async def test_error_of_status_ends_nothing(self) -> None:
        broken = [True]

        def status() -> BotStatus:
            if broken[0]:
                raise RuntimeError("a bug")
            return STATUS

        async with port(status) as number:
            reply = await reply_to(number, GET)
            assert not reply or read(reply).code == 500
            broken[0] = False
            assert read(await reply_to(number, GET)).code == 200

    async def test_taken_port_raises(self) -> None:
        async with port() as number:
            with pytest.raises(ConfigurationError, match=f"port.*{number}"):
                await open_listener(HOST, number)

    async def test_foreign_address_raises(self) -> None:
        with pytest.raises(ConfigurationError, match=r"192\.0\.2\.1"):
            await open_listener("192.0.2.1", 0)

    @pytest.mark.parametrize("host", ["b\u00fccher_x", "\ud800", "a..b", "x" * 70 + ".\u00fc"], ids=ascii)
    async def test_invalid_host_raises(self, host: str) -> None:
        with pytest.raises(ConfigurationError, match=r"cannot listen on the operator's port 0 of "):
            await open_listener(host, 0)

    async def test_port_is_closed_afterwards(self) -> None:
        async with port() as number:
            assert read(await reply_to(number, GET)).code == 200
        with pytest.raises(OSError, match="connect"):
            await anyio.connect_tcp(HOST, number)
