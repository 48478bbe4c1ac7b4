"""The operator's port: what it answers, read back by parsers of this file's own, and over a socket."""

from __future__ import annotations

import contextlib
import errno
import logging
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, get_args, get_type_hints

import anyio
import attrs
import pytest
from anyio.abc import SocketAttribute, SocketListener, SocketStream
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.unit.bot.rig import Shared

from freight_exchange import Bot, BotStatus, ConfigurationError, FeedStatus, Gap
from freight_exchange.bot.delivery.retry_policy import Decision
from freight_exchange.bot.metrics import ENDINGS, OUTCOMES, Metrics
from freight_exchange.bot.ops import probes
from freight_exchange.bot.ops.probes import answer, exposition, open_listener, serve
from freight_exchange.testing import Sandbox

NOW = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
FEED = FeedStatus(
    state="live",
    cover_age=timedelta(seconds=12.5),
    last_success=NOW,
    window=timedelta(minutes=2),
    pages=1,
    clamp=None,
    allowance=timedelta(minutes=1),
    late=3,
    unacknowledged=7,
    gaps=(Gap(since=NOW, until=NOW),),
)
STATUS = BotStatus(
    state="running",
    live=True,
    age=timedelta(seconds=12.5),
    feed=FEED,
    in_flight=5,
    waiting=6,
    waited=timedelta(seconds=7.5),
    handled=0,
    retried=0,
    dead=0,
    offers={},
    in_doubt=2,
    parked=1,
    address=None,
)
PATHS = ["/livez", "/readyz", "/metrics"]
STATES = ["starting", "standby", "running", "draining", "login-rejected", "stopped"]
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


def ask(line: str, status: BotStatus = STATUS, tally: Metrics | None = None) -> Reply:
    head = f"{line}\r\nHost: bot\r\n\r\n".encode("latin-1")
    return read(answer(head, status, Metrics() if tally is None else tally))


Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]

_NAME: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL: Final = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(,|$)')
_ESCAPES: Final = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


def exposed(text: str) -> tuple[Samples, dict[str, str]]:
    """The samples and the types of a page in Prometheus' text format, or an `AssertionError`."""
    samples: Samples = {}
    types: dict[str, str] = {}
    helps: set[str] = set()
    assert text.endswith("\n")
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            name, said = line[7:].split(" ", 1)
            assert said.strip(), line
            assert name not in helps, "one HELP for each"
            helps.add(name)
        elif line.startswith("# TYPE "):
            name, kind = line[7:].split(" ")
            assert name not in types, "one TYPE for each, before its samples"
            assert kind in ("gauge", "counter")
            assert (kind == "counter") == name.endswith("_total")
            types[name] = kind
        else:
            matched = _NAME.match(line)
            assert matched, line
            name, rest = matched.group(), line[matched.end() :]
            assert name == [*types][-1], "the samples of a metric follow its TYPE"
            labels: list[tuple[str, str]] = []
            if rest.startswith("{"):
                inside, rest = rest[1:].rsplit("} ", 1)
                rest = f" {rest}"
                while inside:
                    label = _LABEL.match(inside)
                    assert label, line
                    value = re.sub(r'\\[\\"n]', lambda escape: _ESCAPES[escape.group()], label.group(2))
                    labels.append((label.group(1), value))
                    inside = inside[label.end() :]
            assert re.fullmatch(r" [-+]?\d+(\.\d+)?(e[-+]\d+)?", rest), line
            assert (name, tuple(labels)) not in samples, "each once"
            samples[name, tuple(labels)] = float(rest)
    assert types.keys() == helps
    return samples, types


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

    @pytest.mark.parametrize("live", [True, False])
    def test_metrics_are_told_however_the_bot_is(self, live: bool) -> None:
        status = attrs.evolve(STATUS, state="stopped", live=live, feed=None)
        reply = ask("GET /metrics HTTP/1.1", status)
        assert reply.code == 200
        assert reply.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert reply.body == exposition(status, Metrics())

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
        reply = read(answer(head, STATUS, Metrics()))
        assert (reply.code, reply.reason) == (400, "Bad Request")

    @given(st.binary(max_size=200))
    @example(b"")
    @example(b"GET \xc2\x85 HTTP/\n")
    def test_whatever_comes_is_answered(self, head: bytes) -> None:
        reply = read(answer(head, STATUS, Metrics()))
        assert reply.code in (200, 400, 404, 405)
        if reply.body:
            assert int(reply.headers["content-length"]) == len(reply.body.encode())

    @given(st.text(max_size=20))
    def test_what_is_asked_for_is_never_said_back(self, path: str) -> None:
        """Nothing that comes in reaches a reply's head, nor a page that a browser shows."""
        marked = f"/sentinel{path}"
        assert b"sentinel" not in answer(f"GET {marked} HTTP/1.1\r\n\r\n".encode(), STATUS, Metrics())

    @given(st.sampled_from(PATHS), st.sampled_from(STATES))
    def test_the_length_is_that_of_the_body(self, path: str, state: Any) -> None:
        tally = Metrics(events=Counter({"Ünïcode \N{DELIVERY TRUCK}": 1}))
        reply = ask(f"GET {path} HTTP/1.1", attrs.evolve(STATUS, state=state), tally)
        assert int(reply.headers["content-length"]) == len(reply.body.encode())


NAMES = st.text(max_size=12) | st.sampled_from(['"', "\\", "\n", "\\n", '}",x="', "} 5", "a,b", "Desk.quote", "\r"])
COUNTS = st.integers(0, 10**15)
tallies = st.builds(
    Metrics,
    events=st.dictionaries(NAMES, COUNTS, max_size=3).map(Counter),
    deliveries=st.dictionaries(st.tuples(NAMES, NAMES), COUNTS, max_size=3).map(Counter),
    offers=st.dictionaries(NAMES, COUNTS, max_size=3).map(Counter),
)
statuses = st.builds(
    attrs.evolve,
    st.just(STATUS),
    state=st.sampled_from(STATES),
    live=st.booleans(),
    age=st.timedeltas(timedelta(0), timedelta(days=10**6)),
    feed=st.sampled_from([None, FEED]),
    in_flight=st.integers(0, 1000),
    waiting=st.integers(0, 10**6),
    waited=st.timedeltas(timedelta(0), timedelta(days=30)),
    in_doubt=COUNTS,
    parked=COUNTS,
)


class TestTheMetrics:
    @given(statuses, tallies)
    @settings(report_multiple_bugs=False)  # one wrong line is many errors of the parser, and each takes a minute
    def test_are_read_back_as_they_were(self, status: BotStatus, tally: Metrics) -> None:
        samples, types = exposed(exposition(status, tally, handlers=["Desk.quote"]))
        named: dict[str, dict[tuple[str, ...], float]] = {name: {} for name in types}
        for (name, labels), value in samples.items():
            named[name][tuple(value for _, value in labels)] = value
        prefix = "freight_exchange_bot_"
        assert all(name.startswith(prefix) for name in named)
        plain = {name.removeprefix(prefix): values for name, values in named.items()}
        expected: dict[str, dict[Any, float]] = {
            "up": {(): float(status.state == "running")},
            "live": {(): float(status.live)},
            "cover_age_seconds": {(): status.age.total_seconds() if status.feed is None else 12.5},
            "in_flight": {(): status.in_flight},
            "waiting": {(): status.waiting},
            "waited_seconds": {(): status.waited.total_seconds()},
            "offers_in_doubt": {(): status.in_doubt},
            "offers_parked": {(): status.parked},
            "events_total": {(kind,): count for kind, count in tally.events.items()},
            "deliveries_total": {**{("Desk.quote", how): 0 for how in ENDINGS}, **tally.deliveries},
            "offers_total": {(how,): tally.offers[how] for how in {*OUTCOMES, *tally.offers}},
        }
        if status.feed is not None:
            expected |= {"unacknowledged": {(): 7}, "gaps": {(): 1}, "found_late_total": {(): 3}}
        assert plain == expected

    def test_have_labels(self) -> None:
        tally = Metrics(
            events=Counter(new=2),
            deliveries=Counter({("quote", "done"): 3, ("quote", "failed"): 1}),
            offers=Counter(confirmed=4),
        )
        samples, _ = exposed(exposition(STATUS, tally))
        labelled = {key: value for key, value in samples.items() if key[1] and value}
        assert labelled == {
            ("freight_exchange_bot_events_total", (("kind", "new"),)): 2,
            ("freight_exchange_bot_deliveries_total", (("handler", "quote"), ("ending", "done"))): 3,
            ("freight_exchange_bot_deliveries_total", (("handler", "quote"), ("ending", "failed"))): 1,
            ("freight_exchange_bot_offers_total", (("outcome", "confirmed"),)): 4,
        }

    def test_say_what_has_not_come_yet(self) -> None:
        """A series that first appears as 1 has not grown: an alert would miss the first dead letter."""
        samples, _ = exposed(exposition(STATUS, Metrics(), handlers=["quote", "log"]))
        labelled = {key: value for key, value in samples.items() if key[1]}
        name = "freight_exchange_bot_deliveries_total"
        expected: dict[Any, float] = {
            (name, (("handler", handler), ("ending", ending))): 0
            for handler in ("quote", "log")
            for ending in get_args(get_type_hints(Decision)["ending"])
        }
        expected |= {("freight_exchange_bot_offers_total", (("outcome", outcome),)): 0 for outcome in OUTCOMES}
        assert labelled == expected
        first = Metrics(deliveries=Counter({("quote", "dead"): 1}), offers=Counter({"not taken": 1}))
        grown, _ = exposed(exposition(STATUS, first, handlers=["quote", "log"]))
        assert grown.keys() == samples.keys()
        assert {key[1][-1][1] for key in grown if grown[key] != samples[key]} == {"dead", "not taken"}

    def test_know_every_word_that_offers_are_counted_by(self) -> None:
        package = Path(probes.__file__).parent.parent
        places = [re.findall(r"_metrics\.offers\[(.*?)\] \+= 1", file.read_text()) for file in package.rglob("*.py")]
        assert {word for place in places for one in place for word in re.findall(r'"(.*?)"', one)} == {*OUTCOMES}

    def test_of_a_bot_that_was_down_for_days_the_cover_is_that_old(self) -> None:
        """Though it is live: it has only just begun."""
        days = attrs.evolve(STATUS, age=timedelta(seconds=5), feed=attrs.evolve(FEED, cover_age=timedelta(days=3)))
        begins = attrs.evolve(days, feed=attrs.evolve(FEED, cover_age=None))
        for status, seconds in ((days, 3 * 86400), (begins, 5)):
            samples, _ = exposed(exposition(status, Metrics()))
            assert samples["freight_exchange_bot_cover_age_seconds", ()] == seconds
            assert samples["freight_exchange_bot_live", ()] == 1

    def test_are_spelt_so(self) -> None:
        """As they stand on dashboards, and by hand."""
        text = exposition(STATUS, Metrics(deliveries=Counter({('a"b\\c\nd', "done"): 3})))
        assert (
            "# HELP freight_exchange_bot_deliveries_total Deliveries by handler and how they or their attempts ended.\n"
            "# TYPE freight_exchange_bot_deliveries_total counter\n"
            'freight_exchange_bot_deliveries_total{handler="a\\"b\\\\c\\nd",ending="done"} 3\n'
        ) in text
        assert "\nfreight_exchange_bot_cover_age_seconds 12.5\n" in text
        assert "\nfreight_exchange_bot_up 1\n" in text

    def test_the_parser_of_this_file_refuses_what_is_wrong(self) -> None:
        good = "# HELP a_total b\n# TYPE a_total counter\na_total 1\n"
        assert exposed(good) == ({("a_total", ()): 1.0}, {"a_total": "counter"})
        for old, new in [
            ("a_total 1", "a_total True"), ("a_total 1", 'a_total{b="c} 1'), ("a_total 1", 'a_total{b="c""} 1'),
            ("a_total 1", "b_total 1"), ("a_total 1\n", "a_total 1\na_total 2\n"), ("counter", "gauge"),
            ("# HELP a_total b\n", ""), ("a_total 1\n", "a_total 1"), ("a_total 1", 'a_total{b="\\x"} 1'),
        ]:  # fmt: skip
            with pytest.raises((AssertionError, ValueError)):
                exposed(good.replace(old, new))

    def test_metrics_count_by_ending(self) -> None:
        tally = Metrics(deliveries=Counter({("quote", "done"): 3, ("log", "done"): 2, ("log", "dead"): 1}))
        assert (tally.count_ended("done"), tally.count_ended("dead"), tally.count_ended("failed")) == (5, 1, 0)


async def does_nothing(request: Any, ctx: Any) -> None:
    """Does nothing."""


@asynccontextmanager
async def port(status: Any = None, timeout: float | None = None) -> AsyncIterator[int]:
    async with anyio.create_task_group() as tasks:
        listener, (host, number) = await open_listener(HOST, 0)
        assert host == HOST
        tasks.start_soon(serve, listener, status or (lambda: STATUS), Metrics())
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
                assert await said_to(number, head) == answer(head, STATUS, Metrics())

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
            tasks.start_soon(serve, listener, lambda: STATUS, Metrics())
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
            samples, _ = exposed(read(await said_to(number, b"GET /metrics HTTP/1.1\r\n\r\n")).body)
            assert samples["freight_exchange_bot_events_total", (("kind", "new"),)] == 1
            ended = (("handler", quote.__qualname__), ("ending", "done"))
            assert samples["freight_exchange_bot_deliveries_total", ended] == 1
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
