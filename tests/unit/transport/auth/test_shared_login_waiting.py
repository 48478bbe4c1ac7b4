"""Tests of waiting for another process's login: limits, cancellation and slow disks."""

from __future__ import annotations

import gc
import logging
import threading
from functools import partial, partialmethod
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from tests.unit.transport.fleet import EMAIL, URL, Process, Service, all_of
from tests.unit.transport.tokens import crowd

from freight_exchange.errors import TransportError
from freight_exchange.platform.file_lock import FileLock
from freight_exchange.transport.auth import shared_login
from freight_exchange.transport.auth.cached_login import CachedLogin
from freight_exchange.transport.auth.login_file import LoginFile
from freight_exchange.transport.auth.token_store import TokenFile

pytestmark = pytest.mark.both_backends


@pytest.mark.virtual_time
@pytest.mark.usefixtures("calendar")
class TestWaiting:
    async def test_a_holder_that_stands_still_holds_up_the_others_for_a_while_only(
        self, store: TokenFile, caplog: pytest.LogCaptureFixture
    ) -> None:
        frozen = FileLock.acquire(store.file_for(URL, EMAIL).path.with_name("token.json.lock"))
        assert frozen is not None
        service = Service()
        fleet = [Process(service, store, lock_timeout=30) for _ in range(20)]
        began = anyio.current_time()
        assert await all_of(fleet) == {200}
        assert 24 <= anyio.current_time() - began <= 33
        # The first that has waited for long enough serves all that wait on.
        assert service.logins == len(caplog.records) < 20
        assert all("without waiting" in record.getMessage() for record in caplog.records)
        late = Process(service, store)
        assert await late.call() == 200
        assert len(late.adopted) == 1
        frozen.release()

    async def test_a_caller_leaves_when_he_likes_and_the_wait_goes_on_without_him(self, store: TokenFile) -> None:
        held = FileLock.acquire(store.file_for(URL, EMAIL).path.with_name("token.json.lock"))
        assert held is not None
        service = Service()
        process = Process(service, store)
        began = anyio.current_time()
        with anyio.move_on_after(2) as scope:
            await process.call()
        assert scope.cancelled_caught
        assert anyio.current_time() - began == pytest.approx(2)
        held.release()
        await anyio.sleep(5)
        assert service.logins == 1
        assert await process.call() == 200

    async def test_the_wait_does_not_age_the_token(self, store: TokenFile) -> None:
        held = FileLock.acquire(store.file_for(URL, EMAIL).path.with_name("token.json.lock"))
        assert held is not None
        service = Service(lifetime=8.0)
        process = Process(service, store)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(process.call)
            await anyio.sleep(10)
            held.release()
        assert await process.call() == 200
        assert service.logins == 1

    async def test_closing_ends_the_wait_and_leaves_the_lock_free(self, store: TokenFile) -> None:
        where = store.file_for(URL, EMAIL).path.with_name("token.json.lock")
        held = FileLock.acquire(where)
        assert held is not None
        process = Process(Service(), store)
        began = anyio.current_time()
        async with anyio.create_task_group() as tasks:

            async def call() -> None:
                with pytest.raises(TransportError, match="closed"):
                    await process.call()

            tasks.start_soon(call)
            await anyio.sleep(1)
            await process.tasks.close(anyio.lowlevel.checkpoint).wait()
        assert anyio.current_time() - began == pytest.approx(1)
        held.release()
        assert FileLock.acquire(where) is not None

    async def test_closing_during_the_login_leaves_the_lock_free(self, store: TokenFile) -> None:
        process = Process(Service(), store)
        async with anyio.create_task_group() as tasks:

            async def call() -> None:
                with pytest.raises(TransportError, match="closed"):
                    await process.call()

            tasks.start_soon(call)
            await anyio.sleep(0.5)
            await process.tasks.close(anyio.lowlevel.checkpoint).wait()
        other = Process(Service(), store)
        began = anyio.current_time()
        assert await other.call() == 200
        assert anyio.current_time() - began == pytest.approx(1.1)


class TestThreads:
    """These tests use real threads and real time."""

    @pytest.fixture
    def service(self) -> Service:
        service = Service()
        service.takes = 0.01
        return service

    async def test_eight_processes_make_one_login(self, path: Path, service: Service) -> None:
        fleet = [Process(service, TokenFile(path)) for _ in range(8)]
        assert await all_of(fleet) == {200}
        assert service.logins == 1

    async def test_the_loop_never_touches_the_disk(
        self, path: Path, service: Service, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        threads = []

        def watched(real: Any, *args: Any, **options: Any) -> Any:
            threads.append(threading.get_ident())
            return real(*args, **options)

        for name in ("read_or_lock", "write"):
            monkeypatch.setattr(LoginFile, name, partialmethod(partial(watched, getattr(LoginFile, name))))
        assert await Process(service, TokenFile(path)).call() == 200
        assert len(threads) == 2
        assert threading.get_ident() not in threads

    async def test_a_program_that_keeps_all_the_loops_threads_busy_does_not_stop_it(
        self, path: Path, service: Service
    ) -> None:
        limiter = anyio.to_thread.current_default_thread_limiter()
        borrowers = [object() for _ in range(int(limiter.total_tokens))]
        for borrower in borrowers:
            limiter.acquire_on_behalf_of_nowait(borrower)
        try:
            assert await Process(service, TokenFile(path)).call() == 200
        finally:
            for borrower in borrowers:
                limiter.release_on_behalf_of(borrower)
        assert isinstance(TokenFile(path).file_for(URL, EMAIL).read_or_lock(lambda _: True), CachedLogin), (
            "it was not given up"
        )

    async def test_a_disk_that_hangs_hangs_no_login_and_keeps_no_lock(
        self, path: Path, service: Service, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        goes_on = threading.Event()
        ended = threading.Event()
        real = LoginFile.read_or_lock

        def hang(file: LoginFile, wanted: Any) -> CachedLogin | FileLock | None:
            goes_on.wait(40)
            try:
                return real(file, wanted)
            finally:
                ended.set()

        monkeypatch.setattr(shared_login, "_DISK_TIMEOUT", 0.05)
        monkeypatch.setattr(LoginFile, "read_or_lock", hang)
        process = Process(service, TokenFile(path))
        with anyio.fail_after(30):
            assert await process.call() == 200
        assert service.logins == 1
        assert {record.levelno for record in caplog.records} == {logging.WARNING}
        assert "does not answer" in caplog.text
        goes_on.set()
        # The thread returns with the lock after its caller has left.
        with anyio.fail_after(30):
            await anyio.to_thread.run_sync(ended.wait)
            while (lock := FileLock.acquire(path.with_name("token.json.lock"))) is None:
                gc.collect()
                await anyio.sleep(0.01)
        lock.release()

    async def test_caller_cancelled_while_a_thread_locks_keeps_no_lock(
        self, path: Path, service: Service, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        taking, goes_on = threading.Event(), threading.Event()
        real = LoginFile.read_or_lock

        def slow(file: LoginFile, wanted: Any) -> CachedLogin | FileLock | None:
            found = real(file, wanted)
            taking.set()
            goes_on.wait(40)
            return found

        monkeypatch.setattr(LoginFile, "read_or_lock", slow)
        process = Process(service, TokenFile(path))
        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:

                async def call() -> None:
                    with pytest.raises(TransportError, match="closed"):
                        await process.call()

                tasks.start_soon(call)
                await anyio.to_thread.run_sync(taking.wait)
                await process.tasks.close(anyio.lowlevel.checkpoint).wait()
            goes_on.set()
            while (lock := FileLock.acquire(path.with_name("token.json.lock"))) is None:
                gc.collect()
                await anyio.sleep(0.01)
        lock.release()
        assert service.logins == 0

    async def test_file_errors_do_not_reach_callers(
        self, path: Path, service: Service, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def broken(*_: object, **__: object) -> None:
            raise OSError(5, "Input/output error")

        for where, name in ((LoginFile, "_content"), (LoginFile, "_replace"), (FileLock, "acquire")):
            monkeypatch.setattr(where, name, broken)
        fleet = [Process(service, TokenFile(path)) for _ in range(3)]
        assert await all_of(fleet) == {200}
        assert service.logins == 3


async def test_thousand_callers_make_one_login(path: Path) -> None:
    service = Service()
    service.takes = 0.01
    process = Process(service, TokenFile(path))
    assert await crowd(partial(process.call)) == [200] * 1000
    assert service.logins == 1
