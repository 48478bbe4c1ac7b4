"""The operator's port: what it answers, and over a socket."""

from __future__ import annotations

import contextlib
import errno
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import anyio
import attrs
import pytest
from anyio.abc import SocketAttribute, SocketListener, SocketStream
from hypothesis import example, given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from tests.unit.bot.rig import Shared
from tests.unit.bot.statuses import STATES, STATUS

from freight_exchange import Bot, BotStatus, ConfigurationError
from freight_exchange.bot.ops import probes
from freight_exchange.bot.ops.exposition import Expose
from freight_exchange.bot.ops.probes import answer, open_listener, serve
from freight_exchange.testing import Sandbox

PATHS = ["/livez", "/readyz", "/metrics"]
GET = b"GET /livez HTTP/1.1\r\nHost: bot\r\n\r\n"
HOST = "127.0.0.1"


@attrs.frozen
class Reply:
    code: int
    reason: str
    headers: dict[str, str]
    body: str


def read(raw: bytes) -> Reply:
    """The reply to one request on a connection that ends with it."""
    head, separator, body = raw.partition(b"\r\n\r\n")
    assert separator, raw
    status, *lines = head.decode("ascii").split("\r\n")
    version, code, reason = status.split(" ", 2)
    assert version == "HTTP/1.1"
    headers = dict(line.lower().split(": ", 1) for line in lines)
    assert len(headers) == len(lines)
    assert headers["connection"] == "close"
    assert headers["cache-control"] == "no-store"
    return Reply(int(code), reason, headers, body.decode())


def ask(line: str, status: BotStatus = STATUS, expose: Expose | None = None) -> Reply:
    head = f"{line}\r\nHost: bot\r\n\r\n".encode("latin-1")
    return read(answer(head, lambda: status, expose or fixed))


def fixed(accept: str) -> tuple[str, bytes]:
    """Metrics that do not change."""
    return "text/plain; version=0.0.4; charset=utf-8", f"# \N{DELIVERY TRUCK} {accept}\nup 1\n".encode()


class TestThePages:
    @pytest.mark.parametrize("state", STATES)
    @pytest.mark.parametrize("live", [True, False])
    def test_livez_is_whether_the_service_is_heard_of(self, state: Any, live: bool) -> None:
        status = attrs.evolve(STATUS, state=state, live=live)
        reply = ask("GET /livez HTTP/1.1", status)
        assert (reply.code, reply.reason) == ((200, "OK") if live else (503, "Service Unavailable"))
        assert reply.body == f"{state}, cover 12.5 s old\n"
        assert reply.headers["content-type"] == "text/plain; charset=utf-8"

    @pytest.mark.parametrize("state", STATES)
    @pytest.mark.parametrize("live", [True, False])
    def test_readyz_is_whether_it_works_besides(self, state: Any, live: bool) -> None:
        status = attrs.evolve(STATUS, state=state, live=live)
        assert ask("GET /readyz HTTP/1.1", status).code == (200 if live and state == "running" else 503)

    def test_metrics_are_in_the_format_that_is_accepted(self) -> None:
        reply = read(answer(b"GET /metrics HTTP/1.1\r\nACCEPT: text/x\r\n\r\n", lambda: STATUS, fixed))
        assert reply.code == 200
        assert reply.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert reply.body == "# \N{DELIVERY TRUCK} text/x\nup 1\n"

    def test_metrics_without_the_extra_name_it(self) -> None:
        reply = read(answer(b"GET /metrics HTTP/1.1\r\n\r\n", lambda: STATUS, None))
        assert (reply.code, reply.reason) == (501, "Not Implemented")
        assert reply.body == 'metrics need the extra "metrics": pip install "freight-exchange[metrics]"\n'

    @pytest.mark.parametrize("path", [*PATHS, "/", "/healthz"])
    @pytest.mark.parametrize("live", [True, False])
    def test_a_head_is_the_same_without_the_body(self, path: str, live: bool) -> None:
        status = attrs.evolve(STATUS, live=live)
        whole, bare = ask(f"GET {path} HTTP/1.1", status), ask(f"HEAD {path} HTTP/1.1", status)
        assert whole.body
        assert bare == attrs.evolve(whole, body="")

    @pytest.mark.parametrize("path", PATHS)
    @pytest.mark.parametrize("query", ["?", "?verbose", "?a=/livez&b=?"])
    def test_a_query_is_passed_over(self, path: str, query: str) -> None:
        assert ask(f"GET {path}{query} HTTP/1.1") == ask(f"GET {path} HTTP/1.1")

    @pytest.mark.parametrize("path", PATHS)
    def test_of_an_older_http_too(self, path: str) -> None:
        assert ask(f"GET {path} HTTP/1.0") == ask(f"GET {path} HTTP/1.1")

    @pytest.mark.parametrize(
        "path", ["/", "/livez/", "/LIVEZ", "/livezz", "//livez", "/metrics/x", "livez", "*", "/%6civez", "/../livez"]
    )
    def test_there_are_no_others(self, path: str) -> None:
        for method in ("GET", "POST"):
            reply = ask(f"{method} {path} HTTP/1.1")
            assert (reply.code, reply.reason) == (404, "Not Found")
            assert all(known in reply.body for known in PATHS)

    @pytest.mark.parametrize("path", PATHS)
    @pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "get", "BREW"])
    def test_nothing_is_done_here(self, method: str, path: str) -> None:
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
    def test_what_is_no_http_is_told_so(self, head: bytes) -> None:
        reply = read(answer(head, lambda: STATUS, fixed))
        assert (reply.code, reply.reason) == (400, "Bad Request")

    @given(st.binary(max_size=200))
    @example(b"")
    @example(b"GET \xc2\x85 HTTP/\n")
    def test_whatever_comes_is_answered(self, head: bytes) -> None:
        reply = read(answer(head, lambda: STATUS, fixed))
        assert reply.code in (200, 400, 404, 405)
        if reply.body:
            assert int(reply.headers["content-length"]) == len(reply.body.encode())

    @given(st.text(max_size=20))
    def test_what_is_asked_for_is_never_said_back(self, path: str) -> None:
        """Nothing that comes in reaches a reply's head, nor a page that a browser shows."""
        marked = f"/sentinel{path}"
        assert b"sentinel" not in answer(f"GET {marked} HTTP/1.1\r\n\r\n".encode(), lambda: STATUS, fixed)

    @given(st.sampled_from(PATHS), st.sampled_from(STATES))
    def test_the_length_is_that_of_the_body(self, path: str, state: Any) -> None:
        reply = ask(f"GET {path} HTTP/1.1", attrs.evolve(STATUS, state=state))
        assert int(reply.headers["content-length"]) == len(reply.body.encode())


async def does_nothing(request: Any, ctx: Any) -> None:
    """Does nothing."""


@asynccontextmanager
async def port(status: Any = None, timeout: float | None = None) -> AsyncIterator[int]:
    async with anyio.create_task_group() as tasks:
        listener, (host, number) = await open_listener(HOST, 0)
        assert host == HOST
        tasks.start_soon(serve, listener, status or (lambda: STATUS), fixed)
        yield number
        tasks.cancel_scope.cancel()


async def everything(stream: SocketStream) -> bytes:
    said = b""
    try:
        while True:
            said += await stream.receive()
    except (anyio.EndOfStream, anyio.BrokenResourceError):
        return said


async def said_to(number: int, *components: bytes) -> bytes:
    with anyio.fail_after(60):
        async with await anyio.connect_tcp(HOST, number) as stream:
            for part in components:
                await stream.send(part)
            return await everything(stream)


@pytest.fixture
def short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "_REQUEST_TIMEOUT", 0.2)


class TestOverASocket:
    async def test_each_page(self) -> None:
        async with port() as number:
            for path in PATHS:
                head = f"GET {path} HTTP/1.1\r\nHost: bot\r\n\r\n".encode()
                assert await said_to(number, head) == answer(head, lambda: STATUS, fixed)

    async def test_says_how_the_bot_is_now(self) -> None:
        now = [STATUS]
        async with port(lambda: now[0]) as number:
            assert read(await said_to(number, GET)).code == 200
            now[0] = attrs.evolve(STATUS, live=False)
            assert read(await said_to(number, GET)).code == 503

    async def test_a_head_that_comes_in_pieces(self) -> None:
        async with port() as number:
            pieces = [GET[start : start + 1] for start in range(len(GET))]
            assert read(await said_to(number, *pieces)).code == 200

    async def test_a_head_with_bare_line_ends(self) -> None:
        async with port() as number:
            assert read(await said_to(number, GET.replace(b"\r", b""))).code == 200

    async def test_garbage(self) -> None:
        async with port() as number:
            assert read(await said_to(number, b"\x16\x03\x01\x00\xff hello\r\n\r\n")).code == 400
            assert read(await said_to(number, GET)).code == 200

    async def test_whoever_leaves_early_leaves_no_trace(self) -> None:
        async with port() as number:
            for part in (b"", b"GET /liv", GET):
                async with await anyio.connect_tcp(HOST, number) as stream:
                    await stream.send(part)
                    await anyio.aclose_forcefully(stream)
            assert read(await said_to(number, GET)).code == 200

    async def test_whoever_says_nothing_more_is_hung_up_on(self) -> None:
        async with port() as number, await anyio.connect_tcp(HOST, number) as stream:
            await stream.send(b"GET /livez HTTP/1.1\r\n")
            await stream.send_eof()
            assert await everything(stream) == b""

    @pytest.mark.usefixtures("short_patience")
    async def test_whoever_is_slow_is_hung_up_on(self) -> None:
        async with port() as number, await anyio.connect_tcp(HOST, number) as stream:
            await stream.send(b"GET /livez HTTP/1.1\r\n")
            with anyio.fail_after(60):
                assert await everything(stream) == b""

    @pytest.mark.usefixtures("short_patience")
    async def test_more_slow_ones_than_there_are_places_do_not_shut_others_out(self) -> None:
        async with port() as number:
            slow = [await anyio.connect_tcp(HOST, number) for _ in range(40)]
            try:
                with anyio.fail_after(60):
                    while not (said := await said_to(number, GET)):
                        pass
                assert read(said).code == 200
            finally:
                for stream in slow:
                    await stream.aclose()

    async def test_who_holds_on_longest_makes_room(self) -> None:
        """However patient the port is: whoever asks something is answered at once."""
        async with port() as number, contextlib.AsyncExitStack() as held:
            idle = [await held.enter_async_context(await anyio.connect_tcp(HOST, number)) for _ in range(200)]
            assert read(await said_to(number, GET)).code == 200
            assert await everything(idle[0]) == b""

    @pytest.mark.parametrize("error", [OSError(errno.EMFILE, "no descriptors"), ConnectionAbortedError()], ids=repr)
    async def test_a_connection_that_cannot_be_taken_ends_nothing(
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
                assert read(await said_to(number, GET)).code == 200
            tasks.cancel_scope.cancel()
        told = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
        assert told == [f"the operator's port takes no connections for now: {error}"], "once, and not each time"

    async def test_many_at_once(self) -> None:
        codes: list[int] = []
        async with port() as number:

            async def visit() -> None:
                codes.append(read(await said_to(number, GET)).code)

            async with anyio.create_task_group() as tasks:
                for _ in range(100):
                    tasks.start_soon(visit)
        assert codes == [200] * 100

    @pytest.mark.parametrize("end", [b"\r\n\r\n", b""], ids=["ended", "endless"])
    async def test_a_head_that_is_too_long_is_not_read_to_its_end(self, end: bytes) -> None:
        async with port() as number:
            async with await anyio.connect_tcp(HOST, number) as stream:
                flood = b"GET /livez HTTP/1.1\r\nX: " + b"x" * 8192 + end
                await stream.send(flood)
                with anyio.fail_after(60):
                    said = await everything(stream)
            assert not said or read(said).code in (200, 400, 431)
            assert read(await said_to(number, GET)).code == 200

    async def test_a_bot_that_cannot_say_how_it_is_goes_on(self) -> None:
        """A probe's answer must never be what ends a bot."""
        broken = [True]

        def status() -> BotStatus:
            if broken[0]:
                raise RuntimeError("a bug")
            return STATUS

        async with port(status) as number:
            said = await said_to(number, GET)
            assert not said or read(said).code == 500
            broken[0] = False
            assert read(await said_to(number, GET)).code == 200

    async def test_a_port_that_is_taken_is_a_wrong_configuration(self) -> None:
        async with port() as number:
            with pytest.raises(ConfigurationError, match=f"port.*{number}"):
                await open_listener(HOST, number)

    async def test_an_address_that_is_not_this_machines_is_a_wrong_configuration(self) -> None:
        with pytest.raises(ConfigurationError, match=r"192\.0\.2\.1"):
            await open_listener("192.0.2.1", 0)

    @pytest.mark.parametrize("host", ["b\u00fccher_x", "\ud800", "a..b", "x" * 70 + ".\u00fc"], ids=ascii)
    async def test_a_host_that_is_no_name_is_a_wrong_configuration(self, host: str) -> None:
        with pytest.raises(ConfigurationError, match=r"the operator's port 0 of .* cannot be listened on: "):
            await open_listener(host, 0)

    async def test_nothing_listens_any_more_after_it(self) -> None:
        async with port() as number:
            assert read(await said_to(number, GET)).code == 200
        with pytest.raises(OSError, match="connect"):
            await anyio.connect_tcp(HOST, number)


class TestABotWithAPort:
    async def test_tells_where_it_is_and_answers_there(self) -> None:
        sandbox = Sandbox()
        sandbox.publish()
        bot = Bot(store=None, start="backfill", port=0)
        handled = anyio.Event()

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None:
            handled.set()

        assert bot.status().address is None
        async with sandbox.running(bot) as trial:
            await trial.idle()
            await handled.wait()
            assert trial.status.address is not None
            host, number = trial.status.address
            assert host == HOST
            assert read(await said_to(number, GET)).body.startswith("running, cover ")
            assert read(await said_to(number, b"GET /readyz HTTP/1.1\r\n\r\n")).code == 200
            page = read(await said_to(number, b"GET /metrics HTTP/1.1\r\n\r\n")).body
            samples = [sample for family in text_string_to_metric_families(page) for sample in family.samples]
            assert ("freight_exchange_bot_events_total", {"kind": "new"}, 1.0) in [sample[:3] for sample in samples]
        assert bot.status().address is None
        with pytest.raises(OSError, match="connect"):
            await anyio.connect_tcp(HOST, number)

    async def test_gives_the_port_back_when_it_cannot_begin(self) -> None:
        listener, (_, number) = await open_listener(HOST, 0)
        await listener.aclose()

        def lifespan() -> Any:
            raise LookupError("no database")

        bot = Bot(store=None, port=number, lifespan=lifespan)

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None: ...

        for _ in range(2):
            with pytest.raises(LookupError, match="no database"):
                await bot.serve(exchange=Sandbox().client())
        with pytest.raises(OSError, match="connect"):
            await anyio.connect_tcp(HOST, number)

    async def test_does_not_begin_where_the_port_is_taken(self) -> None:
        sandbox = Sandbox()
        async with port() as number:
            bot = Bot(store=None, port=number)
            bot.on_new(id="quote")(does_nothing)
            with pytest.raises(ConfigurationError, match=f"port {number}.* cannot be listened on"):
                await bot.serve(exchange=sandbox.client())
        assert not sandbox.audit_log.calls

    async def test_on_a_name_with_several_addresses_is_found_at_the_port_that_it_tells(self) -> None:
        listener, (host, number) = await open_listener("localhost", 0)
        async with listener:
            ports = {one.extra(SocketAttribute.local_port) for one in listener.listeners}
            assert ports == {number}
            assert host == "localhost"


def standing_by(store: Shared, number: int) -> Bot:
    bot = Bot(
        store=store,
        start="backfill",
        interval=timedelta(seconds=1),
        drain=timedelta(0),
        port=number,
        standby=True,
    )
    bot.on_new(id="quote")(does_nothing)
    return bot


async def until(true: Callable[[], object]) -> None:
    with anyio.fail_after(60):
        while not true():  # noqa: ASYNC110 - what is waited for has no event
            await anyio.sleep(0.01)


class TestABotThatStandsBy:
    async def test_answers_at_a_port_of_its_own(self) -> None:
        store = Shared()
        async with Sandbox().running(standing_by(store, 0)) as trial:
            await until(lambda: trial.status.state == "standby" and trial.status.address)
            await anyio.sleep(2)
            _, number = trial.status.address or (HOST, 0)
            assert read(await said_to(number, GET)).body.startswith("standby, ")
            assert read(await said_to(number, GET)).code == 200
            assert read(await said_to(number, b"GET /readyz HTTP/1.1\r\n\r\n")).code == 503
            store.is_held = False
            await trial.idle()
            assert read(await said_to(number, b"GET /readyz HTTP/1.1\r\n\r\n")).code == 200

    async def test_has_the_port_once_the_one_before_it_has_ended(self, caplog: pytest.LogCaptureFixture) -> None:
        """Which gives its store back first: what its handlers share is closed after that."""
        store, sandbox = Shared(), Sandbox()
        listener, (_, number) = await open_listener(HOST, 0)
        async with sandbox.running(standing_by(store, number)) as trial:
            await until(lambda: trial.status.state == "standby")
            await anyio.sleep(1)
            store.is_held = False
            await trial.idle()
            assert trial.status.address is None
            await listener.aclose()
            await until(lambda: trial.status.address)
            assert read(await said_to(number, GET)).body.startswith("running, ")
        (line,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
        assert line.startswith(f"the operator's port {number} of '127.0.0.1' cannot be listened on: ")
        assert line.endswith("; it is waited for")

    @pytest.mark.parametrize("held", [True, False])
    async def test_ends_where_the_port_is_somebody_elses(self, held: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("freight_exchange.bot.runtime.operator_port.CLOSE_TIMEOUT", 1.0)
        store = Shared()
        store.is_held = held
        async with port() as number:
            bot = standing_by(store, number)
            async with anyio.create_task_group() as tasks:

                async def free() -> None:
                    await until(lambda: bot.status().state == "standby")
                    # It may be the port of whoever has the store, for as long as that takes.
                    await anyio.sleep(2)
                    assert bot.status().state == "standby"
                    store.is_held = False

                if held:
                    tasks.start_soon(free)
                with pytest.raises(ConfigurationError, match=f"port {number}.* cannot be listened on"):
                    await bot.serve(exchange=Sandbox().client())
        assert (store.is_held, bot.status().state) == (False, "stopped")

    @pytest.mark.parametrize("host", ["192.0.2.1", "b\u00fccher_x"])
    async def test_ends_at_once_where_no_wait_would_help(self, host: str) -> None:
        bot = Bot(store=Shared(), port=0, host=host, standby=True)
        bot.on_new(id="quote")(does_nothing)
        with anyio.fail_after(60), pytest.raises(ConfigurationError, match="cannot be listened on"):
            await bot.serve(exchange=Sandbox().client())
