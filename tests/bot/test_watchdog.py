"""Tests of the watchdog, which ends a process whose handlers, threads or lifespan hang, and names them."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import product
from typing import Any, ClassVar

import pytest
from tests.bot.program import BOTH, Started, end_of, in_turn, process, side_by_side, until

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals")
BACKENDS = pytest.mark.parametrize("backend", BOTH)


class TestHanging:
    """The process is ended a second after its time, and the log names the cause."""

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
        ) as started:
            for child in started.values():
                until(child, "at the handlers")
                child.send_signal(signal.SIGTERM)
            yield {case: (child, cases[case]) for case, child in started.items()}

    @BACKENDS
    @pytest.mark.parametrize("handler", UNENDING)
    def test_handler_is_ended_with_drain(
        self, backend: str, handler: str, drained: dict[tuple[str, str], tuple[Started, str]]
    ) -> None:
        child, store = drained[backend, handler]
        status, text, log = end_of(child)
        assert (status, text) == (70, "")
        assert "the handler 'quote' of the event 'new' of request 1" in log
        assert "Traceback" not in log
        # It equals a crash: nothing is lost, and the file is not locked.
        with process(backend=backend, handler="heeds", store=store) as child:
            until(child, "at the handlers")
            child.send_signal(signal.SIGTERM)
            assert end_of(child)[:2] == (0, "closed\noffers 1\n")

    @BACKENDS
    def test_blocking_handler_is_ended_by_second_signal(self, backend: str) -> None:
        """The event loop receives no signal."""
        with process(backend=backend, handler="blocks", drain=3600) as child:
            until(child, "at the handlers")
            child.send_signal(signal.SIGTERM)
            time.sleep(0.2)
            assert child.poll() is None
            child.send_signal(signal.SIGINT)
            assert end_of(child)[0] == 128 + signal.SIGINT

    ENDS_BY: ClassVar[list[tuple[str | int, int]]] = [("store", 73), (5, 1), (256, 1), ("a text", 1)]

    @pytest.fixture(scope="class")
    @classmethod
    def ended_by(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[tuple[str, str | int], Started]]:
        def options_of(backend: str, ends_by: str | int) -> dict[str, Any]:
            store = str(tmp_path_factory.mktemp("ended") / "bot.db")
            how = {"handler": "in a thread, and another", "requests": 2, "drain": 0.2, "ends by": ends_by}
            return {"backend": backend, "store": store, **how}

        cases = product(BOTH, [ends_by for ends_by, _ in cls.ENDS_BY])
        with side_by_side({case: options_of(*case) for case in cases}) as started:
            yield started

    @BACKENDS
    @pytest.mark.parametrize(("ends_by", "status"), ENDS_BY)
    def test_handler_is_ended_with_status_of_error(
        self, backend: str, ends_by: str | int, status: int, ended_by: dict[tuple[str, str | int], Started]
    ) -> None:
        ended, _, log = end_of(ended_by[backend, ends_by])
        assert ended == status
        assert f"with status {status}; still running: the handler 'quote' of the event 'new' of request 1" in log

    @pytest.mark.parametrize(("backend", "group"), [("asyncio", "anyio"), ("asyncio", "asyncio"), ("trio", "anyio")])
    def test_handler_is_ended_after_failed_task_of_lifespan(self, backend: str, group: str) -> None:
        options: dict[str, Any] = {"handler": "in a thread", "drain": 0.2, "refreshes in": group}
        with process(backend=backend, **options) as child:
            try:
                ended, _, log = end_of(child)
            except subprocess.TimeoutExpired:
                pytest.fail("it waits for the thread")
        assert ended == 1
        assert "CRITICAL freight_exchange.bot: the bot ends: cancelled by the lifespan" in log
        assert "with status 1; still running: the handler 'quote' of the event 'new' of request 1" in log

    @pytest.mark.parametrize(("backend", "group"), [("asyncio", "anyio"), ("asyncio", "asyncio"), ("trio", "anyio")])
    def test_failed_task_of_lifespan_is_logged_after_handlers_end(self, backend: str, group: str) -> None:
        options: dict[str, Any] = {"handler": "hangs", "refreshes in": group}
        with process(backend=backend, **options) as child:
            ended, _, log = end_of(child)
        assert ended == 1
        assert "the bot ends with status 1: unexpected error: OSError: the tariff is gone" in log
        assert "did not shut down" not in log

    def test_lifespan_that_does_not_close(self) -> None:
        with process(backend="asyncio", handler="ends", closing=True, drain=0.2) as child:
            until(child, "closing")
            status, text, log = end_of(child)
        assert (status, text) == (1, "")
        assert "TimeoutError: the lifespan did not close in time" in log

    LEFT: ClassVar = [
        ("leaves a thread", "goes on", 0, "went on"),
        ("leaves a thread", "fails", 1, ""),
        ("leaves a thread, and fails", "", 1, ""),
    ]

    @pytest.fixture(scope="class")
    @classmethod
    def left(cls) -> Iterator[dict[tuple[str, str, str], Started]]:
        cases = [(backend, handler, afterwards) for backend, (handler, afterwards, _, _) in product(BOTH, cls.LEFT)]
        with side_by_side(
            {case: dict(zip(("backend", "handler", "afterwards"), case, strict=True), drain=0.1) for case in cases}
        ) as started:
            yield started

    @BACKENDS
    @pytest.mark.parametrize(("handler", "afterwards", "status", "last"), LEFT)
    def test_abandoned_thread_is_ended_after_program(
        self,
        backend: str,
        handler: str,
        afterwards: str,
        status: int,
        last: str,
        left: dict[tuple[str, str, str], Started],
    ) -> None:
        try:
            ended, text, log = end_of(left[backend, handler, afterwards])
        except subprocess.TimeoutExpired:
            pytest.fail("it waits for the thread")
        assert (ended, text.split("\n")[-1]) == (status, last)
        # Trio's threads are daemons.
        if backend == "asyncio":
            assert f"threads that handlers left have not: its process ends now, with status {status}: " in log

    @pytest.mark.parametrize(("backend", "handler", "status"), in_turn(("leaves with 5", 1), ("", 77)))
    def test_error_of_closing_keeps_status(self, backend: str, handler: str, status: int) -> None:
        faults = [] if handler else ["login_message_401"]
        with process(backend=backend, handler=handler, faults=faults, closing="raises") as child:
            ended, _, log = end_of(child)
        assert ended == status
        assert "error while the lifespan closes" in log
        assert "OSError: the pool is gone" in log

    @pytest.fixture(scope="class")
    @classmethod
    def kept(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[tuple[str, str], Started]]:
        def options_of(backend: str, why: str, store: str) -> dict[str, Any]:
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
            yield stack.enter_context(side_by_side({case: options_of(*case, store) for case, store in stores.items()}))

    @BACKENDS
    @pytest.mark.parametrize(("why", "status"), [("held", 75), ("wants", 78), ("address", 76)])
    def test_closing_lifespan_is_ended_with_status_of_start(
        self, backend: str, why: str, status: int, kept: dict[tuple[str, str], Started]
    ) -> None:
        try:
            ended, text, log = end_of(kept[backend, why])
        except subprocess.TimeoutExpired:
            pytest.fail("it waits for the thread")
        assert (ended, text) == (status, "lifespan\nclosing\n")
        assert log.count("CRITICAL freight_exchange.bot: the bot ends ") == 1
        assert f"with status {status}; still running: nothing but the bot itself" in log
