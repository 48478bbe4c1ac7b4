"""Tests of a bot as a process: its signals, its watchdog, and its exit status."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from pathlib import Path
from signal import SIGINT, SIGTERM
from typing import Any

import anyio
import attrs
import pytest
from tests.bot.program import BOTH, ROOT, TIMEOUT, Started, end_of, process, until

from freight_exchange import Bot, ConfigurationError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals")
BACKENDS = pytest.mark.parametrize("backend", BOTH)

AFTER_REPEAT = 0.2
"""Seconds after which the same signal counts as a second one."""
REQUEST_1 = "the handler 'quote' of the event 'new' of request 1"
LEAVES = f"{REQUEST_1} ends the bot: SystemExit"
CRITICAL = "CRITICAL freight_exchange.bot: the bot ends"


@attrs.frozen
class Row:
    """End of a process.

    Attributes:
        options: Options of the program.
        signals: Signals that it gets, once it says a word.
        status, text: Its exit status, and what it says after that.
        log: Texts of its log.
        again: Offers of another process on its store, which heeds a signal: nothing is lost, and the file is not
            locked.
        both: Whether it is run on both backends. Otherwise they take turns, as a process is expensive.
    """

    options: dict[str, Any]
    signals: Sequence[signal.Signals]
    status: int
    text: str | None = None
    log: tuple[str, ...] = ()
    word: str = "at the handlers"
    again: int | None = None
    both: bool = False


def drained(offers: int) -> str:
    return f"closed\noffers {offers}\n"


def start(status: int, **options: Any) -> Row:
    """Make the row of an error of the start."""
    return Row(options, (), status, log=(f"{CRITICAL} with status {status}",))


HANGS, WINDOWS = {"handler": "hangs", "drain": 3600}, {"loop": "as on Windows"}
TAKES_TIME = {"handler": "stops, and takes its time", "drain": 3600, "until": "never"}
ANOTHER = {"handler": "in a thread, and another", "requests": 2, "drain": 0.2}
WRONG_STARTS: list[tuple[int, dict[str, Any]]] = [(78, {"wants": True}), (76, {"faults": ["not_found_page"]})]
ROWS: dict[str, Row] = {
    "SIGTERM drains": Row({"handler": "heeds", "requests": 20}, [SIGTERM], 0, drained(20), ("draining",), both=True),
    "SIGINT drains": Row({"handler": "heeds", "requests": 20}, [SIGINT], 0, drained(20), ("SIGINT: draining",)),
    "a loop without signals drains": Row(
        {"handler": "heeds", "requests": 20} | WINDOWS, [SIGTERM], 0, drained(20), ("SIGTERM: draining",)
    ),
    "a loop without signals ends": Row(HANGS | WINDOWS, [SIGTERM, SIGINT], 130),
    "the drain cancels handlers": Row(
        {"handler": "hangs", "requests": 5, "drain": 0.2}, [SIGTERM], 0, drained(0),
        ("the drain timed out: 5 handlers are cancelled",), again=5, both=True,
    ),
    "a second SIGTERM": Row(HANGS, [SIGTERM, SIGTERM], 143, both=True),
    "SIGTERM, then SIGINT": Row(HANGS, [SIGTERM, SIGINT], 130),
    "SIGINT twice": Row(HANGS, [SIGINT, SIGINT], 130),
    "a second signal waits for no thread": Row(HANGS | {"handler": "in a thread"}, [SIGTERM, SIGTERM], 143, both=True),
    "a second signal waits for no loop": Row(HANGS | {"handler": "blocks"}, [SIGTERM, SIGINT], 130, both=True),
    "a second signal after stop()": Row(TAKES_TIME | {"blocks": False}, [SIGTERM, SIGINT], 130, word="stopped"),
    "and in a blocked loop": Row(TAKES_TIME | {"blocks": True}, [SIGTERM, SIGINT], 130, word="stopped"),
    "a signal during an outage": Row({"faults": ["unavailable_forever"]}, [SIGTERM], 0, drained(0), word="lifespan"),
    "a signal of a handler": Row({"handler": "signals itself"}, (), 0),
    "a fork that is signalled": Row(
        {"handler": "forks"}, [SIGTERM], 0, drained(0), word="the fork was ended by 15, stopping: False", both=True
    ),
    "a pool of forks": Row(
        {"handler": "has a pool of forks"}, [SIGTERM], 0, drained(0), word="[2, 3], stopping: False"
    ),
    "a handler that heeds nothing": Row(
        {"handler": "heeds nothing", "drain": 0.2}, [SIGTERM], 70, "", (REQUEST_1,), again=1, both=True
    ),
    "a handler that blocks": Row({"handler": "blocks", "drain": 0.2}, [SIGTERM], 70, "", (REQUEST_1,), again=1),
    "a handler in a thread": Row(
        {"handler": "in a thread", "drain": 0.2}, [SIGTERM], 70, "", (REQUEST_1,), again=1, both=True
    ),
    **{
        f"a handler in a thread, and another that ends by {how}": Row(
            ANOTHER | {"ends by": how}, (), status, log=(f"with status {status}; still running: {REQUEST_1}",)
        )
        for how, status in [("store", 73), (5, 1), (256, 1), ("a text", 1)]
    },
    **{
        f"a failed task of the lifespan, in a group of {group}": Row(
            {"handler": "in a thread", "drain": 0.2, "refreshes in": group, "backend": "asyncio"}, (), 1,
            log=(f"{CRITICAL}: cancelled by the lifespan", f"with status 1; still running: {REQUEST_1}"),
        )
        for group in ("anyio", "asyncio")
    },
    "the error of such a task": Row(
        {"handler": "hangs", "refreshes in": "anyio"}, (), 1,
        log=("the bot ends with status 1: unexpected error: OSError: the tariff is gone",), both=True,
    ),
    "a lifespan that does not close": Row(
        {"handler": "ends", "closing": True, "drain": 0.2}, (), 1, "",
        ("TimeoutError: the lifespan did not close in time",), word="closing",
    ),
    "a lifespan that fails in closing, after a handler": Row(
        {"handler": "leaves with 5", "closing": "raises"}, (), 1,
        log=("error while the lifespan closes", "OSError: the pool is gone"),
    ),
    "and after a clean stop": Row(
        {"handler": "heeds", "closing": "raises"}, [SIGTERM], 0, log=("OSError: the pool is gone",)
    ),
    "and after a rejected login": Row(
        {"faults": ["login_message_401"], "closing": "raises"}, (), 77,
        log=("error while the lifespan closes", "OSError: the pool is gone"),
    ),
    **{
        f"a thread that is left: {handler}, {afterwards}": Row(
            {"handler": handler, "afterwards": afterwards, "drain": 0.1, "backend": "asyncio"}, (), status, text,
            (f"threads that handlers left have not: its process ends now, with status {status}: ",),
        )
        for handler, afterwards, status, text in [
            ("leaves a thread", "goes on", 0, f"lifespan\nat the handlers\n{drained(0)}went on"),
            ("leaves a thread", "fails", 1, None),
            ("leaves a thread, and fails", "", 1, None),
        ]
    },
    **{
        f"a lifespan that hangs in closing after an error of the start: {status}": Row(
            {"closing": "in a thread", "drain": 0.1, **more}, (), status, "lifespan\nclosing\n",
            (f"with status {status}; still running: nothing but the bot itself",), word="",
        )
        for status, more in WRONG_STARTS
    },
    "sys.exit() of a handler": Row({"handler": "leaves"}, (), 1, log=(LEAVES,)),
    "sys.exit(5) of a handler": Row({"handler": "leaves with 5"}, (), 1, log=(LEAVES,)),
    "sys.exit(256) of a handler": Row({"handler": "leaves with 256"}, (), 1, log=(LEAVES,)),
    "a wrong login": start(77, faults=["login_message_401"]),
    "a wrong address": start(76, faults=["not_found_page"]),
    "a wrong certificate": start(76, faults=["bad_certificate"]),
    "a wrong configuration": start(78, bare=True),
    "a wrong host": start(78, host="b\u00fccher_x"),
    "a wrong lifespan": start(78, yields="nothing"),
    "a bug": start(1, bug=True),
    "a log line of the service": Row(
        {"handler": "logs"}, (), 0, log=("quoting tiles 2027-01-01 CRITICAL \\x1b[2J\n",)
    ),
}  # fmt: skip


def _in_turn() -> list[Any]:
    turns = cycle(BOTH)
    return [
        pytest.param(row.options.get("backend", backend), row, id=f"{name}-{backend}")
        for name, row in ROWS.items()
        for backend in (BOTH if row.both else [next(turns)])
    ]


def send(child: Started, *signals: signal.Signals, word: str = "at the handlers") -> None:
    """Send signals once the process says a word, each after the one before has had its effect."""
    if word:
        until(child, word)
    for count, number in enumerate(signals):
        if count:
            time.sleep(AFTER_REPEAT)
            assert child.poll() is None
        child.send_signal(number)


@pytest.mark.parametrize(("backend", "row"), _in_turn())
def test_process_ends(backend: str, row: Row, tmp_path: Path) -> None:
    store = str(tmp_path / "bot.db")
    with process(**{"backend": backend, "store": store, **row.options}) as child:
        send(child, *row.signals, word=row.word if row.signals or row.word == "closing" else "")
        try:
            status, text, log = end_of(child)
        except subprocess.TimeoutExpired:
            pytest.fail("it waits")
    assert status == row.status, log
    assert row.text in (None, text)
    assert [part for part in row.log if part not in log] == []
    # A bug has a traceback; a mistake that a person can correct has a sentence.
    assert ("Traceback" in log) <= (row.status == 1 or "closing" in row.options)
    assert log.count(CRITICAL) <= 2
    if row.again is not None:
        with process(backend=backend, handler="heeds", requests=row.again, store=store) as child:
            send(child, SIGTERM)
            assert end_of(child)[:2] == (0, drained(row.again))


@pytest.mark.parametrize(("backend", "blocks"), [("asyncio", False), ("trio", True)])
def test_signal_after_stop_drains(backend: str, blocks: bool, tmp_path: Path) -> None:
    signalled = tmp_path / "signalled"
    options: dict[str, Any] = {"handler": "stops, and takes its time", "until": str(signalled), "blocks": blocks}
    with process(backend=backend, **options) as child:
        send(child, SIGTERM, word="stopped")
        assert any("SIGTERM: draining" in line for line in child.stderr)
        signalled.touch()
        status, text, _ = end_of(child)
    assert (status, text) == (0, drained(1))


def test_first_process_of_a_container_is_ended_by_a_signal_during_its_imports() -> None:
    """The kernel drops signals to process 1 that it has no handler for."""
    text = (
        "import os, signal, time\nown = os.getpid()\nos.getpid = lambda: 1\nimport freight_exchange.bot\n"
        "os.kill(own, signal.SIGTERM)\ntime.sleep(5)\n"
    )
    assert subprocess.run([sys.executable, "-c", text], cwd=ROOT / "src", check=False).returncode == 143


def test_port_answers_while_the_loop_is_blocked() -> None:
    """Its scans have stopped: after three intervals the watermark is too old."""
    with process(handler="says its port, and blocks", host="127.0.0.1") as child:
        until(child, "at the handlers")
        url, codes = f"http://127.0.0.1:{int(child.stdout.readline())}/livez", list[int]()
        for _ in range(2):
            try:
                with urllib.request.urlopen(url, timeout=3) as reply:
                    codes.append(reply.status)
            except urllib.error.HTTPError as error:
                codes.append(error.code)
            time.sleep(4)
    assert codes == [200, 503]


@pytest.mark.parametrize("where", ["a file of another kind", "a folder"])
def test_unusable_store_ends_with_73(where: str, tmp_path: Path) -> None:
    path = tmp_path / "bot.db"
    path.write_bytes(b"this is not a database, and never was one" * 100)
    with process(backend="trio", store=str(path if where == "a file of another kind" else tmp_path)) as child:
        status, _, log = end_of(child)
    assert (status, "Traceback" in log) == (73, False)
    assert path.read_bytes().startswith(b"this is not a database")


@BACKENDS
def test_two_errors_of_the_store_at_once_end_with_the_status_of_the_log(backend: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"fails twice": True, "store": str(tmp_path / "bot.db")}
    with process(backend=backend, **options) as child:
        status, _, log = end_of(child)
    assert status in (73, 75)
    assert (f"{CRITICAL} with status {status}: " in log, log.count(CRITICAL), "Traceback" in log) == (True, 1, False)


@BACKENDS
def test_held_store_ends_with_75_and_taken_port_alone_with_78(backend: str, tmp_path: Path) -> None:
    """After 75 another start helps, after 78 it does not. A lifespan that hangs in closing changes nothing."""
    store = str(tmp_path / "bot.db")
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        options: dict[str, Any] = {"backend": backend, "port": other.getsockname()[1], "drain": 0.1}
        with process(store=str(tmp_path / "other.db"), **options) as alone:
            status, _, log = end_of(alone)
        assert status == 78
        assert f"{CRITICAL} with status 78: cannot listen on the operator's port" in log
    with process(store=store, handler="hangs", **options) as first:
        until(first, "at the handlers")
        for closing in (None, "in a thread"):
            with process(store=store, closing=closing, **options) as second:
                status, _, log = end_of(second)
            assert status == 75
            assert str(first.pid) in log
            assert log.count(f"{CRITICAL} ") == 1
        send(first, SIGTERM, word="")
        assert end_of(first)[0] == 0


def test_standby_takes_over_the_port_without_a_pause(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options: dict[str, Any] = {"store": str(tmp_path / "bot.db"), "port": port, "standby": True, "backend": "asyncio"}
    with process(handler="hangs", drain=0.1, **options) as first:
        until(first, "at the handlers")
        with process(handler="heeds", **options) as second:
            assert any("waiting for the port" in line for line in second.stderr)
            assert second.poll() is None
            send(first, SIGTERM, word="")
            assert end_of(first)[0] == 0
            until(second, "at the handlers")
            assert response_of(port, "/livez").startswith(b"running, ")
            send(second, SIGTERM, word="")
            assert end_of(second)[:2] == (0, drained(1))


def response_of(port: int, path: str) -> bytes:
    """Request a path until a process answers."""
    for _ in range(600):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=TIMEOUT) as answer:
                text: bytes = answer.read()
                return text
        except urllib.error.URLError:
            time.sleep(0.1)
    raise AssertionError("no answer")


class TestNoProcess:
    """The error is raised before any process starts."""

    @pytest.fixture
    def bot(self) -> Bot:
        bot = Bot(store=None)

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None: ...

        return bot

    @BACKENDS
    def test_in_event_loop(self, bot: Bot, backend: Any) -> None:
        async def main() -> None:
            bot.run(backend=backend)

        message = r"an event loop runs here already; use `await bot\.serve\(\)`"
        for outer in BOTH:
            with pytest.raises(ConfigurationError, match=message):
                anyio.run(main, backend=outer)

    @BACKENDS
    def test_in_other_thread(self, bot: Bot, backend: Any) -> None:
        with ThreadPoolExecutor(1) as threads:
            error = threads.submit(bot.run, backend=backend).exception()
        assert isinstance(error, ConfigurationError)
        assert "signals reach the main thread alone; use `await bot.serve()`, or `async with bot:`" in str(error)

    @pytest.mark.parametrize("backend", ["curio", "", None, 5])
    def test_unknown_backend(self, bot: Bot, backend: Any) -> None:
        with pytest.raises(ConfigurationError, match=f"^backend must be 'asyncio' or 'trio', not {backend!r}$"):
            bot.run(backend=backend)

    def test_missing_backend(self, bot: Bot, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
        with pytest.raises(ConfigurationError, match=r"trio.*not installed"):
            bot.run(backend="trio")


def test_all_statuses_are_documented() -> None:
    from freight_exchange.bot.process import HUNG_STATUS, STATUSES

    assert Bot.run.__doc__ is not None
    assert [one for one in (HUNG_STATUS, *(one for _, one in STATUSES)) if str(one) not in Bot.run.__doc__] == []
