"""Tests of a bot as a process: its signals and its exit status."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.bot.program import (
    BOTH,
    TIMEOUT,
    Started,
    end_of,
    in_turn,
    process,
    side_by_side,
    until,
)

from freight_exchange import Bot, ConfigurationError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals")
BACKENDS = pytest.mark.parametrize("backend", BOTH)


AFTER_REPEAT = 0.2
"""Seconds after which the same signal counts as a second one."""


class TestSignals:
    @pytest.mark.parametrize(("backend", "number"), in_turn((signal.SIGTERM,), (signal.SIGINT,)))
    def test_first_drains_and_status_is_0(self, backend: str, number: signal.Signals) -> None:
        with process(backend=backend, handler="heeds", requests=20) as child:
            until(child, "at the handlers")
            child.send_signal(number)
            status, text, log = end_of(child)
        assert status == 0
        assert text.split("\n") == ["closed", "offers 20", ""]
        assert "draining" in log
        assert "Traceback" not in log

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_first_drains_where_the_loop_takes_no_signal_handlers(self, number: signal.Signals) -> None:
        with process(loop="as on Windows", handler="heeds", requests=20) as child:
            until(child, "at the handlers")
            child.send_signal(number)
            status, text, log = end_of(child)
        assert (status, text) == (0, "closed\noffers 20\n")
        assert f"{number.name}: draining" in log

    def test_second_ends_at_once_where_the_loop_takes_no_signal_handlers(self) -> None:
        with process(loop="as on Windows", handler="hangs", drain=3600) as child:
            until(child, "at the handlers")
            child.send_signal(signal.SIGTERM)
            time.sleep(0.2)
            assert child.poll() is None
            child.send_signal(signal.SIGINT)
            assert end_of(child)[0] == 128 + signal.SIGINT

    @BACKENDS
    def test_drain_cancels_handlers_and_status_is_0(self, backend: str, tmp_path: Path) -> None:
        store = str(tmp_path / "bot.db")
        with process(backend=backend, handler="hangs", requests=5, drain=0.2, store=store) as child:
            until(child, "at the handlers")
            child.send_signal(signal.SIGTERM)
            status, text, log = end_of(child)
        assert (status, text) == (0, "closed\noffers 0\n")
        assert "the drain timed out: 5 handlers are cancelled" in log
        # The interrupted delivery is recorded, and the file is not locked.
        with process(backend=backend, handler="heeds", requests=5, store=store) as child:
            until(child, "at the handlers")
            child.send_signal(signal.SIGTERM)
            assert end_of(child)[:2] == (0, "closed\noffers 5\n")

    @pytest.mark.parametrize(
        ("backend", "first", "second"),
        in_turn((signal.SIGTERM, signal.SIGTERM), (signal.SIGTERM, signal.SIGINT), (signal.SIGINT, signal.SIGINT)),
    )
    def test_second_ends_process_with_its_status(
        self, backend: str, first: signal.Signals, second: signal.Signals
    ) -> None:
        with process(backend=backend, handler="hangs", drain=3600) as child:
            until(child, "at the handlers")
            child.send_signal(first)
            assert any("draining" in line for line in child.stderr)
            time.sleep(AFTER_REPEAT)
            child.send_signal(second)
            status, text, _ = end_of(child)
        assert status == 128 + second
        assert "offers" not in text

    @BACKENDS
    def test_second_does_not_wait_for_thread(self, backend: str) -> None:
        with process(backend=backend, handler="in a thread", drain=3600) as child:
            until(child, "at the handlers")
            child.send_signal(signal.SIGTERM)
            assert any("draining" in line for line in child.stderr)
            time.sleep(AFTER_REPEAT)
            child.send_signal(signal.SIGTERM)
            try:
                child.wait(timeout=60)
            except subprocess.TimeoutExpired:
                pytest.fail("it waits for the handler's thread")
        assert child.returncode == 128 + signal.SIGTERM

    def test_signal_during_outage_drains(self) -> None:
        with process(backend="trio", faults=["unavailable_forever"]) as child:
            until(child, "lifespan")
            time.sleep(0.3)
            child.send_signal(signal.SIGTERM)
            assert end_of(child)[:2] == (0, "closed\noffers 0\n")

    def test_handler_may_send_it(self) -> None:
        with process(backend="asyncio", handler="signals itself") as child:
            assert end_of(child)[0] == 0

    @pytest.fixture(scope="class")
    @classmethod
    def signalled_after_stop(
        cls, tmp_path_factory: pytest.TempPathFactory
    ) -> Iterator[dict[tuple[str, bool], Started]]:
        signalled = tmp_path_factory.mktemp("stop") / "signalled"
        how: dict[str, Any] = {"handler": "stops, and takes its time", "until": str(signalled)}
        cases = product(BOTH, [False, True])
        with side_by_side(
            {(backend, blocks): {"backend": backend, "blocks": blocks, **how} for backend, blocks in cases}
        ) as started:
            for child in started.values():
                until(child, "stopped")
                child.send_signal(signal.SIGTERM)
            signalled.touch()
            yield started

    @BACKENDS
    @pytest.mark.parametrize("blocks", [False, True])
    def test_first_after_stop_drains(
        self, backend: str, blocks: bool, signalled_after_stop: dict[tuple[str, bool], Started]
    ) -> None:
        status, text, log = end_of(signalled_after_stop[backend, blocks])
        assert (status, text) == (0, "closed\noffers 1\n")
        assert "SIGTERM: draining" in log

    @pytest.mark.parametrize(("backend", "blocks"), in_turn((False,), (True,)))
    def test_second_after_stop_ends_process(self, backend: str, blocks: bool) -> None:
        with process(
            backend=backend, handler="stops, and takes its time", blocks=blocks, until="never", drain=3600
        ) as child:
            until(child, "stopped")
            child.send_signal(signal.SIGTERM)
            time.sleep(0.2)
            assert child.poll() is None
            child.send_signal(signal.SIGINT)
            assert end_of(child)[0] == 128 + signal.SIGINT

    def test_text_of_service_forges_no_log_line(self) -> None:
        with process(backend="trio", handler="logs") as child:
            log = end_of(child)[2]
        assert "quoting tiles 2027-01-01 CRITICAL \\x1b[2J\n" in log


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

        for outer in ("asyncio", "trio"):
            with pytest.raises(
                ConfigurationError, match=r"an event loop runs here already; use `await bot\.serve\(\)`"
            ):
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


class TestStandby:
    def test_takes_over_port_without_pause(self, tmp_path: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        options: dict[str, Any] = {
            "store": str(tmp_path / "bot.db"),
            "port": port,
            "standby": True,
            "backend": "asyncio",
        }
        with process(handler="hangs", drain=0.1, **options) as first:
            until(first, "at the handlers")
            with process(handler="heeds", **options) as second:
                assert any("waiting for the port" in line for line in second.stderr)
                assert second.poll() is None
                first.send_signal(signal.SIGTERM)
                assert end_of(first)[0] == 0
                until(second, "at the handlers")
                assert response_of(port, "/livez").startswith(b"running, ")
                second.send_signal(signal.SIGTERM)
                assert end_of(second)[:2] == (0, "closed\noffers 1\n")


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


class TestStatuses:
    @pytest.mark.parametrize(
        ("backend", "handler", "status"), in_turn(("leaves", 1), ("leaves with 5", 1), ("leaves with 256", 1))
    )
    def test_sys_exit_of_handler_is_never_0(self, backend: str, handler: str, status: int) -> None:
        """A supervisor must not mistake it for a drain."""
        with process(backend=backend, handler=handler) as child:
            ended, _, log = end_of(child)
        assert ended == status
        assert "the handler 'quote' of the event 'new' of request 1 ends the bot: SystemExit" in log

    @pytest.mark.parametrize(
        ("backend", "status", "options"),
        in_turn(
            (77, {"faults": ["login_message_401"]}),
            (76, {"faults": ["not_found_page"]}),
            (76, {"faults": ["bad_certificate"]}),
            (78, {"bare": True}),
            (78, {"host": "b\u00fccher_x"}),
            (78, {"yields": "nothing"}),
            (1, {"bug": True}),
        ),
        ids=["login", "address", "certificate", "configuration", "host", "lifespan", "bug"],
    )
    def test_names_error_of_start(self, backend: str, status: int, options: dict[str, Any]) -> None:
        with process(backend=backend, **options) as child:
            ended, text, log = end_of(child)
        assert ended == status
        assert "offers" not in text
        assert f"CRITICAL freight_exchange.bot: the bot ends with status {status}" in log
        # A bug has a traceback; a mistake that a person can correct has a sentence.
        assert ("Traceback" in log) == (status == 1)
        assert log.strip()

    def test_73_for_unusable_store(self, tmp_path: Path) -> None:
        path = tmp_path / "bot.db"
        path.write_bytes(b"this is not a database, and never was one" * 100)
        for store in (path, tmp_path):
            with process(backend="trio", store=str(store)) as child:
                ended, _, log = end_of(child)
            assert ended == 73
            assert "Traceback" not in log
        assert path.read_bytes().startswith(b"this is not a database")

    def test_75_for_held_store(self, tmp_path: Path) -> None:
        store = str(tmp_path / "bot.db")
        with process(backend="asyncio", handler="hangs", store=store, drain=0.1) as first:
            until(first, "at the handlers")
            with process(backend="asyncio", store=store) as second:
                ended, _, log = end_of(second)
            assert ended == 75
            assert str(first.pid) in log
            assert first.poll() is None
            first.send_signal(signal.SIGTERM)
            assert end_of(first)[0] == 0

    def test_75_for_held_store_and_port_78_for_taken_port(self, tmp_path: Path) -> None:
        """After 75 another start helps, after 78 it does not."""
        store = str(tmp_path / "bot.db")
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            options: dict[str, Any] = {
                "backend": "trio",
                "port": other.getsockname()[1],
                "handler": "hangs",
                "drain": 0.1,
            }
            with process(store=str(tmp_path / "other.db"), **options) as alone:
                ended, _, log = end_of(alone)
                assert ended == 78
                assert (
                    "CRITICAL freight_exchange.bot: the bot ends with status 78: cannot listen on the operator's port"
                    in log
                )
        with process(store=store, **options) as first:
            until(first, "at the handlers")
            with process(store=store, **options) as second:
                ended, _, log = end_of(second)
            assert ended == 75
            assert str(first.pid) in log
            first.send_signal(signal.SIGTERM)
            assert end_of(first)[0] == 0

    def test_all_are_documented(self) -> None:
        from freight_exchange import Bot
        from freight_exchange.bot.process import HUNG_STATUS, STATUSES

        assert Bot.run.__doc__ is not None
        for status in (HUNG_STATUS, *(status for _, status in STATUSES)):
            assert str(status) in Bot.run.__doc__
