"""A bot that is a process of its own: its signals, and the status that it exits with."""

from __future__ import annotations

import contextlib
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
from typing import Any, ClassVar

import anyio
import pytest
from tests.unit.bot.processes import PATIENCE, Started, end_of, process, side_by_side, starters, until

from freight_exchange import Bot, ConfigurationError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals")

BOTH = ["asyncio", "trio"]
BACKENDS = pytest.mark.parametrize("backend", BOTH)


@pytest.fixture(scope="module", autouse=True)
def starters_end() -> Iterator[None]:
    with starters():
        yield


class TestSignals:
    @BACKENDS
    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_the_first_drains_and_the_status_is_0(self, backend: str, number: signal.Signals) -> None:
        with process(backend=backend, handler="heeds", requests=20) as child:
            until(child, "at the handlers")
            child.send_signal(number)
            status, said, complained = end_of(child)
        assert status == 0
        assert said.split("\n") == ["closed", "offers 20", ""]
        assert "draining" in complained
        assert "Traceback" not in complained

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_first_drains_where_the_loop_takes_no_signal_handlers(self, number: signal.Signals) -> None:
        with process(loop="as on Windows", handler="heeds", requests=20) as child:
            until(child, "at the handlers")
            child.send_signal(number)
            status, said, complained = end_of(child)
        assert (status, said) == (0, "closed\noffers 20\n")
        assert f"{number.name}: draining" in complained

    def test_second_ends_at_once_where_the_loop_takes_no_signal_handlers(self) -> None:
        with process(loop="as on Windows", handler="hangs", drain=3600) as child:
            until(child, "at the handlers")
            child.send_signal(signal.SIGTERM)
            time.sleep(0.2)
            assert child.poll() is None
            child.send_signal(signal.SIGINT)
            assert end_of(child)[0] == 128 + signal.SIGINT

    @BACKENDS
    def test_after_its_deadline_the_drain_cuts_off_and_the_status_is_0(self, backend: str, tmp_path: Path) -> None:
        store = str(tmp_path / "bot.db")
        with process(backend=backend, handler="hangs", requests=5, drain=0.2, store=store) as child:
            until(child, "at the handlers")
            child.send_signal(signal.SIGTERM)
            status, said, complained = end_of(child)
        assert (status, said) == (0, "closed\noffers 0\n")
        assert "the drain is over: 5 handlers are cancelled" in complained
        # What was cut off is there, and the file is nobody's.
        with process(backend=backend, handler="heeds", requests=5, store=store) as child:
            until(child, "at the handlers")
            child.send_signal(signal.SIGTERM)
            assert end_of(child)[:2] == (0, "closed\noffers 5\n")

    @BACKENDS
    @pytest.mark.parametrize(
        ("first", "second"),
        [(signal.SIGTERM, signal.SIGTERM), (signal.SIGTERM, signal.SIGINT), (signal.SIGINT, signal.SIGINT)],
    )
    def test_the_second_ends_it_at_once_and_the_status_says_which(
        self, backend: str, first: signal.Signals, second: signal.Signals
    ) -> None:
        with process(backend=backend, handler="hangs", drain=3600) as child:
            until(child, "at the handlers")
            child.send_signal(first)
            assert any("draining" in line for line in child.stderr)
            child.send_signal(second)
            status, said, _ = end_of(child)
        assert status == 128 + second
        assert "offers" not in said

    @BACKENDS
    def test_the_second_does_not_wait_for_a_thread(self, backend: str) -> None:
        with process(backend=backend, handler="in a thread", drain=3600) as child:
            until(child, "at the handlers")
            child.send_signal(signal.SIGTERM)
            assert any("draining" in line for line in child.stderr)
            child.send_signal(signal.SIGTERM)
            try:
                child.wait(timeout=10)
            except subprocess.TimeoutExpired:
                pytest.fail("it waits for the handler's thread")
        assert child.returncode == 128 + signal.SIGTERM

    @BACKENDS
    def test_one_while_it_primes_under_an_outage_ends_it_well(self, backend: str) -> None:
        with process(backend=backend, faults=["unavailable_forever"]) as child:
            until(child, "lifespan")
            time.sleep(0.3)
            child.send_signal(signal.SIGTERM)
            assert end_of(child)[:2] == (0, "closed\noffers 0\n")

    @BACKENDS
    def test_a_handler_may_send_it(self, backend: str) -> None:
        with process(backend=backend, handler="signals itself") as child:
            assert end_of(child)[0] == 0

    @BACKENDS
    def test_stop_ends_it_as_well(self, backend: str) -> None:
        with process(backend=backend, handler="ends") as child:
            status, said, _ = end_of(child)
        assert (status, said.split("\n")[-2]) == (0, "offers 1")

    @pytest.fixture(scope="class")
    @classmethod
    def signalled_after_stop(cls) -> Iterator[dict[tuple[str, bool], Started]]:
        how: dict[str, Any] = {"handler": "stops, and takes its time", "seconds": 2}
        cases = product(BOTH, [False, True])
        with side_by_side(
            {(backend, blocks): {"backend": backend, "blocks": blocks, **how} for backend, blocks in cases}
        ) as begun:
            for child in begun.values():
                until(child, "stopped")
                child.send_signal(signal.SIGTERM)
            yield begun

    @BACKENDS
    @pytest.mark.parametrize("blocks", [False, True])
    def test_the_first_after_stop_is_the_first(
        self, backend: str, blocks: bool, signalled_after_stop: dict[tuple[str, bool], Started]
    ) -> None:
        status, said, complained = end_of(signalled_after_stop[backend, blocks])
        assert (status, said) == (0, "closed\noffers 1\n")
        assert "SIGTERM: draining" in complained

    @BACKENDS
    @pytest.mark.parametrize("blocks", [False, True])
    def test_the_second_after_stop_is_the_second(self, backend: str, blocks: bool) -> None:
        with process(
            backend=backend, handler="stops, and takes its time", blocks=blocks, seconds=3600, drain=3600
        ) as child:
            until(child, "stopped")
            child.send_signal(signal.SIGTERM)
            time.sleep(0.2)
            assert child.poll() is None
            child.send_signal(signal.SIGINT)
            assert end_of(child)[0] == 128 + signal.SIGINT

    @BACKENDS
    def test_a_text_of_the_service_forges_no_line_of_the_log(self, backend: str) -> None:
        with process(backend=backend, handler="logs") as child:
            complained = end_of(child)[2]
        assert "quoting tiles 2027-01-01 CRITICAL \\x1b[2J\n" in complained


class TestWhatDoesNotEnd:
    """It is ended with its process, a second after its time, and named."""

    UNENDING: ClassVar = ["heeds nothing", "blocks", "in a thread"]

    @pytest.fixture(scope="class")
    @classmethod
    def drained(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[tuple[str, str], tuple[Started, str]]]:
        cases = {case: str(tmp_path_factory.mktemp("drained") / "bot.db") for case in product(BOTH, cls.UNENDING)}
        with side_by_side(
            {
                (backend, handler): {"backend": backend, "handler": handler, "drain": 0.2, "store": store}
                for (backend, handler), store in cases.items()
            }
        ) as begun:
            for child in begun.values():
                until(child, "at the handlers")
                child.send_signal(signal.SIGTERM)
            yield {case: (child, cases[case]) for case, child in begun.items()}

    @BACKENDS
    @pytest.mark.parametrize("handler", UNENDING)
    def test_of_a_handler_with_the_drain(
        self, backend: str, handler: str, drained: dict[tuple[str, str], tuple[Started, str]]
    ) -> None:
        child, store = drained[backend, handler]
        status, said, complained = end_of(child)
        assert (status, said) == (70, "")
        assert "the handler 'quote' of the event 'new' of request 1" in complained
        assert "Traceback" not in complained
        # It is what a crash is: nothing is lost, and the file is nobody's.
        with process(backend=backend, handler="heeds", store=store) as child:
            until(child, "at the handlers")
            child.send_signal(signal.SIGTERM)
            assert end_of(child)[:2] == (0, "closed\noffers 1\n")

    @BACKENDS
    def test_of_a_handler_that_blocks_with_the_second_signal(self, backend: str) -> None:
        """The event loop hears neither."""
        with process(backend=backend, handler="blocks", drain=3600) as child:
            until(child, "at the handlers")
            child.send_signal(signal.SIGTERM)
            time.sleep(0.2)
            assert child.poll() is None
            child.send_signal(signal.SIGINT)
            assert end_of(child)[0] == 128 + signal.SIGINT

    ENDS_BY: ClassVar[list[tuple[str | int, int]]] = [("store", 73), (5, 5), (256, 1), ("a text", 1)]

    @pytest.fixture(scope="class")
    @classmethod
    def ended_by(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[tuple[str, str | int], Started]]:
        def told(backend: str, ends_by: str | int) -> dict[str, Any]:
            store = str(tmp_path_factory.mktemp("ended") / "bot.db")
            how = {"handler": "in a thread, and another", "requests": 2, "drain": 0.2, "ends by": ends_by}
            return {"backend": backend, "store": store, **how}

        cases = product(BOTH, [ends_by for ends_by, _ in cls.ENDS_BY])
        with side_by_side({case: told(*case) for case in cases}) as begun:
            yield begun

    @BACKENDS
    @pytest.mark.parametrize(("ends_by", "status"), ENDS_BY)
    def test_of_a_handler_with_an_error_that_ends_the_bot_as_the_error_says(
        self, backend: str, ends_by: str | int, status: int, ended_by: dict[tuple[str, str | int], Started]
    ) -> None:
        ended, _, complained = end_of(ended_by[backend, ends_by])
        assert ended == status
        assert f"with status {status}; at work still: the handler 'quote' of the event 'new' of request 1" in complained

    @pytest.mark.parametrize(("backend", "group"), [("asyncio", "anyio"), ("asyncio", "asyncio"), ("trio", "anyio")])
    def test_of_a_handler_with_a_task_of_what_handlers_share_that_fails(self, backend: str, group: str) -> None:
        told: dict[str, Any] = {"handler": "in a thread", "drain": 0.2, "refreshes in": group}
        with process(backend=backend, **told) as child:
            try:
                ended, _, complained = end_of(child)
            except subprocess.TimeoutExpired:
                pytest.fail("it waits for the thread")
        assert ended == 1
        assert "CRITICAL freight_exchange.bot: the bot ends: what handlers share" in complained
        assert "with status 1; at work still: the handler 'quote' of the event 'new' of request 1" in complained

    @pytest.mark.parametrize(("backend", "group"), [("asyncio", "anyio"), ("asyncio", "asyncio"), ("trio", "anyio")])
    def test_a_task_of_what_handlers_share_that_fails_is_told_once_handlers_have_heeded_it(
        self, backend: str, group: str
    ) -> None:
        told: dict[str, Any] = {"handler": "hangs", "refreshes in": group}
        with process(backend=backend, **told) as child:
            ended, _, complained = end_of(child)
        assert ended == 1
        assert "the bot ends with status 1 by what it did not expect: OSError: the tariff is gone" in complained
        assert "does not end" not in complained

    @BACKENDS
    def test_of_what_handlers_share_while_it_opens(self, backend: str) -> None:
        with process(backend=backend, opening=True) as child:
            until(child, "lifespan")
            child.send_signal(signal.SIGTERM)
            status, said, complained = end_of(child)
        assert (status, said) == (0, "offers 0\n")
        assert "Traceback" not in complained

    @BACKENDS
    def test_of_what_handlers_share_while_it_closes(self, backend: str) -> None:
        with process(backend=backend, handler="ends", closing=True, drain=0.2) as child:
            until(child, "closing")
            status, said, complained = end_of(child)
        assert (status, said) == (1, "")
        assert "TimeoutError: what lifespan gives does not close" in complained

    LEFT: ClassVar = [
        ("leaves a thread", "goes on", 0, "went on"),
        ("leaves a thread", "fails", 1, ""),
        ("leaves a thread, and fails", "", 5, ""),
    ]

    @pytest.fixture(scope="class")
    @classmethod
    def left(cls) -> Iterator[dict[tuple[str, str, str], Started]]:
        cases = [(backend, handler, afterwards) for backend, (handler, afterwards, _, _) in product(BOTH, cls.LEFT)]
        with side_by_side(
            {case: dict(zip(("backend", "handler", "afterwards"), case, strict=True), drain=0.1) for case in cases}
        ) as begun:
            yield begun

    @BACKENDS
    @pytest.mark.parametrize(("handler", "afterwards", "status", "last"), LEFT)
    def test_of_a_thread_that_a_handler_has_left_once_the_program_has_ended(
        self,
        backend: str,
        handler: str,
        afterwards: str,
        status: int,
        last: str,
        left: dict[tuple[str, str, str], Started],
    ) -> None:
        try:
            ended, said, complained = end_of(left[backend, handler, afterwards])
        except subprocess.TimeoutExpired:
            pytest.fail("it waits for the thread")
        assert (ended, said.split("\n")[-1]) == (status, last)
        # Trio's threads are daemons.
        if backend == "asyncio":
            assert f"threads that were left in it have not: its process ends now, with status {status}: " in complained

    @BACKENDS
    @pytest.mark.parametrize(("handler", "status"), [("leaves with 5", 5), ("", 77)])
    def test_of_what_ended_the_bot_an_error_of_closing_does_not_change_the_status(
        self, backend: str, handler: str, status: int
    ) -> None:
        faults = [] if handler else ["login_message_401"]
        with process(backend=backend, handler=handler, faults=faults, closing="raises") as child:
            ended, _, complained = end_of(child)
        assert ended == status
        assert "what lifespan gives does not close well" in complained
        assert "OSError: the pool is gone" in complained

    @pytest.fixture(scope="class")
    @classmethod
    def kept(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[tuple[str, str], Started]]:
        def told(backend: str, why: str, store: str) -> dict[str, Any]:
            cause: dict[str, Any] = {"faults": ["not_found_page"]} if why == "address" else {"wants": why == "wants"}
            return {"backend": backend, "store": store, "closing": "in a thread", "drain": 0.1, **cause}

        stores = {
            case: str(tmp_path_factory.mktemp("kept") / "bot.db")
            for case in product(BOTH, ["held", "wants", "address"])
        }
        with contextlib.ExitStack() as stack:
            for backend in BOTH:
                store = stores[backend, "held"]
                first = stack.enter_context(process(backend=backend, handler="hangs", store=store))
                until(first, "at the handlers")
            yield stack.enter_context(side_by_side({case: told(*case, store) for case, store in stores.items()}))

    @BACKENDS
    @pytest.mark.parametrize(("why", "status"), [("held", 75), ("wants", 78), ("address", 76)])
    def test_of_what_handlers_share_with_the_error_that_kept_the_bot_from_starting(
        self, backend: str, why: str, status: int, kept: dict[tuple[str, str], Started]
    ) -> None:
        try:
            ended, said, complained = end_of(kept[backend, why])
        except subprocess.TimeoutExpired:
            pytest.fail("it waits for the thread")
        assert (ended, said) == (status, "lifespan\nclosing\n")
        assert complained.count("CRITICAL freight_exchange.bot: the bot ends ") == 1
        assert f"with status {status}; at work still: nothing but the bot itself" in complained


class TestWhereItCannotBeTheProcess:
    """It is said before anything is done, and how else: not to a supervisor, by a status, but to whoever wrote it."""

    @pytest.fixture
    def bot(self) -> Bot:
        bot = Bot(store=None)

        @bot.on_new
        async def quote(request: Any, ctx: Any) -> None: ...

        return bot

    @BACKENDS
    def test_an_event_loop_runs_already(self, bot: Bot, backend: Any) -> None:
        async def main() -> None:
            bot.run(backend=backend)

        for outer in ("asyncio", "trio"):
            with pytest.raises(
                ConfigurationError, match=r"an event loop runs here already; use `await bot\.serve\(\)`"
            ):
                anyio.run(main, backend=outer)

    @BACKENDS
    def test_another_thread(self, bot: Bot, backend: Any) -> None:
        with ThreadPoolExecutor(1) as threads:
            error = threads.submit(bot.run, backend=backend).exception()
        assert isinstance(error, ConfigurationError)
        assert "signals reach the main thread alone; use `await bot.serve()`, or `async with bot:`" in str(error)

    @pytest.mark.parametrize("backend", ["curio", "", None, 5])
    def test_a_backend_that_there_is_not(self, bot: Bot, backend: Any) -> None:
        with pytest.raises(ConfigurationError, match=f"^backend must be 'asyncio' or 'trio', not {backend!r}$"):
            bot.run(backend=backend)

    def test_a_backend_that_is_not_installed(self, bot: Bot, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
        with pytest.raises(ConfigurationError, match=r"trio.*not installed"):
            bot.run(backend="trio")


class TestStandingBy:
    @BACKENDS
    def test_at_the_same_port_is_a_change_without_a_pause(self, backend: str, tmp_path: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        told: dict[str, Any] = {"store": str(tmp_path / "bot.db"), "port": port, "standby": True, "backend": backend}
        with process(handler="hangs", drain=0.1, **told) as first:
            until(first, "at the handlers")
            with process(handler="heeds", **told) as second:
                assert any("it is waited for" in line for line in second.stderr)
                assert second.poll() is None
                first.send_signal(signal.SIGTERM)
                assert end_of(first)[0] == 0
                until(second, "at the handlers")
                assert asked(port, "/livez").startswith(b"running, ")
                second.send_signal(signal.SIGTERM)
                assert end_of(second)[:2] == (0, "closed\noffers 1\n")


def asked(port: int, path: str) -> bytes:
    """What is answered at the port, once there is somebody to answer."""
    for _ in range(600):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE) as answer:
                said: bytes = answer.read()
                return said
        except urllib.error.URLError:
            time.sleep(0.1)
    raise AssertionError("nobody answers")


class TestStatuses:
    @BACKENDS
    @pytest.mark.parametrize(("handler", "status"), [("leaves", 1), ("leaves with 5", 5), ("leaves with 256", 1)])
    def test_of_a_handler_that_leaves_is_never_that_of_a_drain(self, backend: str, handler: str, status: int) -> None:
        """A supervisor that restarts what failed must not take it for one."""
        with process(backend=backend, handler=handler) as child:
            ended, _, complained = end_of(child)
        assert ended == status
        assert "the handler 'quote' of the event 'new' of request 1 ends the bot by SystemExit" in complained

    @BACKENDS
    @pytest.mark.parametrize(
        ("status", "told"),
        [
            (77, {"faults": ["login_message_401"]}),
            (76, {"faults": ["not_found_page"]}),
            (76, {"faults": ["bad_certificate"]}),
            (78, {"bare": True}),
            (78, {"host": "b\u00fccher_x"}),
            (78, {"yields": "nothing"}),
            (1, {"bug": True}),
        ],
        ids=["login", "address", "certificate", "configuration", "host", "lifespan", "bug"],
    )
    def test_says_what_kept_it_from_starting(self, backend: str, status: int, told: dict[str, Any]) -> None:
        with process(backend=backend, **told) as child:
            ended, said, complained = end_of(child)
        assert ended == status
        assert "offers" not in said
        assert complained.count("CRITICAL") == 1
        assert f"CRITICAL freight_exchange.bot: the bot ends with status {status}" in complained
        # A bug has a traceback; for what a person can mend there is a sentence.
        assert ("Traceback" in complained) == (status == 1)
        assert complained.strip()

    @BACKENDS
    def test_73_where_the_store_cannot_be_used(self, backend: str, tmp_path: Path) -> None:
        path = tmp_path / "bot.db"
        path.write_bytes(b"this is no database, and never was one" * 100)
        for store in (path, tmp_path):
            with process(backend=backend, store=str(store)) as child:
                ended, _, complained = end_of(child)
            assert ended == 73
            assert "Traceback" not in complained
        assert path.read_bytes().startswith(b"this is no database")

    @BACKENDS
    def test_75_where_another_process_holds_it(self, backend: str, tmp_path: Path) -> None:
        store = str(tmp_path / "bot.db")
        with process(backend=backend, handler="hangs", store=store, drain=0.1) as first:
            until(first, "at the handlers")
            with process(backend=backend, store=store) as second:
                ended, _, complained = end_of(second)
            assert ended == 75
            assert str(first.pid) in complained
            assert first.poll() is None
            first.send_signal(signal.SIGTERM)
            assert end_of(first)[0] == 0

    @BACKENDS
    def test_75_where_it_has_the_operators_port_as_well_and_78_where_somebody_else_has_that(
        self, backend: str, tmp_path: Path
    ) -> None:
        """Another start helps once that process is gone: a supervisor must not be told that it does not."""
        store = str(tmp_path / "bot.db")
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            told: dict[str, Any] = {
                "backend": backend,
                "port": other.getsockname()[1],
                "handler": "hangs",
                "drain": 0.1,
            }
            with process(store=str(tmp_path / "other.db"), **told) as alone:
                ended, _, complained = end_of(alone)
                assert ended == 78
                assert "CRITICAL freight_exchange.bot: the bot ends with status 78: the operator's port" in complained
        with process(store=store, **told) as first:
            until(first, "at the handlers")
            with process(store=store, **told) as second:
                ended, _, complained = end_of(second)
            assert ended == 75
            assert str(first.pid) in complained
            first.send_signal(signal.SIGTERM)
            assert end_of(first)[0] == 0

    def test_the_documented_ones_are_all_of_them(self) -> None:
        from freight_exchange import Bot
        from freight_exchange.bot.runtime.process import HUNG_STATUS, STATUSES

        assert Bot.run.__doc__ is not None
        for status in (HUNG_STATUS, *(status for _, status in STATUSES)):
            assert str(status) in Bot.run.__doc__
