"""Tests of a login that processes share through a file: who logs in, and which files are not used."""

# The files are small, so that blocking on them delays nothing.
# ruff: noqa: ASYNC240

from __future__ import annotations

import json
import logging
import os
import socket
import stat
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from subprocess import PIPE
from typing import Any

import anyio
import anyio.abc
import anyio.lowlevel
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream
from tests.calls.support import (
    EMAIL,
    FOUND,
    LOGGED_IN,
    PASSWORD,
    TOKEN,
    Kind,
    arm,
    client,
    logins,
    outcome,
    perform,
    reply,
    scripted,
    served,
    stocked,
    stranger,
)

from freight_exchange import DeadlineExceededError, FreightExchangeError, TokenFile
from freight_exchange.testing import Profile, Sandbox

posix = pytest.mark.skipif(sys.platform == "win32", reason="modes and links are POSIX's")
virtual = pytest.mark.virtual_time
HOUR = 3_600.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "token.json"


def inline(path: Path) -> TokenFile:
    """Return a store without a thread, for virtual time."""
    return TokenFile(path, inline=True)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# Two clients


@virtual
async def test_second_client_and_the_next_run_use_the_login_of_the_first(path: Path) -> None:
    sandbox = stocked()
    for _ in range(2):
        async with client(sandbox, token_store=inline(path)) as one, client(sandbox, token_store=inline(path)) as other:
            for exchange in (one, other):
                assert await outcome(exchange, Kind.READ) == "ok"
                assert exchange.user == await exchange.login()
                assert exchange.user is not None
                assert exchange.user.email == sandbox.forwarder.email
    assert logins(sandbox) == 1


@virtual
async def test_clients_that_start_together_make_one_login(path: Path) -> None:
    sandbox = stocked()
    arm(sandbox, "slow", Kind.LOGIN, seconds=5.0)
    async with AsyncExitStack() as stack, anyio.create_task_group() as tasks:
        for _ in range(8):
            exchange = await stack.enter_async_context(client(sandbox, token_store=inline(path)))
            tasks.start_soon(perform, exchange, Kind.READ)
    assert logins(sandbox) == 1


@virtual
async def test_wave_of_refused_tokens_makes_one_login_for_all_clients(path: Path) -> None:
    sandbox = stocked(Sandbox(Profile(tokens="latest")))
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(client(sandbox, token_store=inline(path))) for _ in range(4)]
        for expected in (1, 2, 3):
            async with anyio.create_task_group() as tasks:
                for exchange in clients:
                    tasks.start_soon(perform, exchange, Kind.READ)
            assert logins(sandbox) == expected
            sandbox.exchange.expire_tokens()
            await anyio.sleep(60)


@virtual
async def test_refused_token_is_not_taken_from_the_file_again(path: Path) -> None:
    sandbox = stocked(Sandbox(Profile(expires_key="absent")))
    async with client(sandbox, token_store=inline(path)) as exchange:
        await perform(exchange, Kind.READ)
        old = path.read_bytes()
        for _ in range(2):
            sandbox.exchange.expire_tokens()
            before = len(sandbox.audit_log.calls)
            await perform(exchange, Kind.READ)
            assert [call.status for call in sandbox.audit_log.calls[before:]] == [401, 200, 200]
            # A backup is restored.
            path.write_bytes(old)
            await anyio.sleep(31)


@virtual
@pytest.mark.parametrize("kind", [Kind.READ, Kind.WRITE])
async def test_token_of_the_file_that_is_refused_costs_one_login(path: Path, kind: Kind) -> None:
    sandbox = stocked()
    async with client(sandbox, token_store=inline(path)) as exchange:
        await exchange.login()
    sandbox.exchange.expire_tokens()
    async with client(sandbox, token_store=inline(path)) as exchange:
        assert await outcome(exchange, kind) == "ok"
    assert logins(sandbox) == 2
    assert [call.status for call in sandbox.audit_log.calls_to("POST", kind.value)] == [401, 200]


@virtual
async def test_wait_for_another_client_ends_at_the_deadline(path: Path) -> None:
    sandbox = stocked()
    arm(sandbox, "login_hung", Kind.LOGIN)
    async with (
        client(sandbox, token_store=inline(path)) as holder,
        client(sandbox, token_store=inline(path)) as other,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(outcome, holder, Kind.READ)
        await anyio.sleep(1)
        for kind in Kind:
            began = anyio.current_time()
            with pytest.raises(DeadlineExceededError):
                await perform(other.with_options(deadline=2), kind)
            assert anyio.current_time() - began == pytest.approx(2)
        began = anyio.current_time()
        assert await outcome(other, Kind.READ) == "ok"
        assert anyio.current_time() - began <= 60


@virtual
async def test_closing_frees_the_next_client(path: Path) -> None:
    sandbox = stocked()
    arm(sandbox, "login_hung", Kind.LOGIN)
    async with anyio.create_task_group() as tasks, client(sandbox, token_store=inline(path)) as holder:

        async def call() -> None:
            with pytest.raises(FreightExchangeError, match="closed"):
                await perform(holder, Kind.READ)

        tasks.start_soon(call)
        await anyio.sleep(1)
    async with client(sandbox, token_store=inline(path)) as other:
        assert await outcome(other.with_options(deadline=5), Kind.READ) == "ok"


# The file


async def share(store: Any, token: str = TOKEN, *, base: dict[str, Any] | None = None) -> int:
    """Log in with a store and read once; return how many logins the service saw."""
    user = {**LOGGED_IN["user"], "access_token": token, **(base or {})}
    with scripted(reply(200, FOUND), login=reply(200, {"user": user})) as service:
        async with stranger(token_store=store) as exchange:
            assert await outcome(exchange, Kind.READ) == "ok"
        [request] = service.requests
        assert request.headers["authorization"] == f"Bearer {token}" or len(service.logins) == 0
        return len(service.logins)


@pytest.mark.parametrize("kind", [str, Path, TokenFile])
async def test_store_is_a_path_or_a_token_file(kind: Any, path: Path) -> None:
    assert [await share(kind(str(path))) for _ in range(2)] == [1, 0]


@posix
async def test_only_the_owner_can_read_any_of_it(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        await share(tmp_path / "newer" / "new" / "token.json")
    finally:
        os.umask(old)
    folder = tmp_path / "newer" / "new"
    assert mode(folder) == 0o700
    assert {mode(found) for found in folder.iterdir()} == {0o600}


async def test_file_holds_no_password_and_no_draft_is_left(path: Path) -> None:
    await share(path)
    content = path.read_text()
    assert TOKEN in content
    assert PASSWORD not in content
    assert {found.name for found in path.parent.iterdir()} <= {"token.json", "token.json.lock"}


async def test_store_reads_and_forgets_its_login(path: Path) -> None:
    await share(path)
    store = TokenFile(path)
    assert TOKEN not in repr(store)
    found = store.read()
    assert found is not None
    assert found.account == EMAIL
    assert TOKEN not in repr(found)
    assert (store.forget(), store.forget()) == (True, False)
    assert store.read() is None


def _warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


ODD: dict[str, Callable[[Path, bytes], object]] = {
    "empty": lambda path, good: path.write_bytes(b""),
    "text": lambda path, good: path.write_bytes(b"canary"),
    "cut": lambda path, good: path.write_bytes(good[:-20]),
    "nested": lambda path, good: path.write_bytes(b"{" * 500),
    "not utf-8": lambda path, good: path.write_bytes(good[:30] + b"\xff" + good[30:]),
    "list": lambda path, good: path.write_bytes(b"[" + good + b"]"),
    "large": lambda path, good: path.write_bytes(good + b" " * 1_000_000),
    "other account": lambda path, good: path.write_bytes(good.replace(EMAIL.encode(), b"you@co.example")),
    "other service": lambda path, good: path.write_bytes(good.replace(b"exchange.example", b"elsewhere.example")),
    "mode 640": lambda path, _: path.chmod(0o640),
    "mode 604": lambda path, _: path.chmod(0o604),
    "mode 602": lambda path, _: path.chmod(0o602),
}


@posix
@pytest.mark.parametrize("name", ODD)
async def test_odd_file_costs_a_warning_and_a_login_and_is_replaced(
    name: str, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await share(path, "canary-token-of-before")
    ODD[name](path, path.read_bytes())
    assert await share(path, "another-token") == 1
    [warning] = _warnings(caplog)
    assert str(path) in warning
    assert "canary" not in caplog.text
    assert mode(path) == 0o600
    assert await share(path) == 0


@posix
async def test_link_is_neither_followed_nor_replaced(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    target = path.with_name("target")
    await share(target)
    content = target.read_bytes()
    path.symlink_to(target)
    assert await share(path, "another-token") == 1
    assert "link" in _warnings(caplog)[0]
    assert path.is_symlink()
    assert target.read_bytes() == content


@pytest.mark.parametrize(("lifetime", "expected"), [(1, 1), (3600, 0)])
async def test_token_is_not_taken_after_its_lifetime(lifetime: int, expected: int, path: Path) -> None:
    await share(path, base={"expires_on": lifetime})
    if expected:
        # The age of a file is that of the machine's clocks, which do not jump.
        await anyio.sleep(1.1)
    assert await share(path) == expected


@posix
@pytest.mark.parametrize("kind", ["pipe", "socket", "directory", "folder is a file"])
async def test_what_is_no_file_is_neither_waited_for_nor_replaced(
    kind: str, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        if kind == "pipe":
            os.mkfifo(path, 0o600)
        elif kind == "socket":
            listener.bind(str(path))
        elif kind == "directory":
            path.mkdir()
        else:
            path.touch()
            path = path / "token.json"
        before = None if kind == "folder is a file" else path.stat().st_mode
        assert await share(path) == 1
        assert _warnings(caplog)
        assert before is None or path.stat().st_mode == before


@posix
async def test_file_of_another_user_is_neither_read_nor_replaced(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await share(path)
    content, somebody = path.read_bytes(), os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: somebody)
    monkeypatch.setattr(os, "getuid", lambda: somebody)
    assert await share(path, "another-token") == 1
    assert path.read_bytes() == content


# Processes

_SHARER = Path(__file__).with_name("sharer.py")
_TIMEOUT = 100.0
# The processes run on both backends in either case.
_FROM_ONE_LOOP = pytest.mark.parametrize("anyio_backend", ["asyncio"])


class Sharer:
    """Process that works on command."""

    def __init__(self, process: anyio.abc.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process = process
        self._orders = process.stdin
        self._answers = BufferedByteReceiveStream(process.stdout)

    async def tell(self) -> None:
        await self._orders.send(b"work\n")

    async def answer(self) -> Any:
        return json.loads(await self._answers.receive_until(b"\n", 10_000))


@asynccontextmanager
async def fleet(sandbox: Sandbox, url: str, store: Path | None, log: Path, size: int) -> AsyncIterator[list[Sharer]]:
    """Start `size` processes and wait until they are ready: half of them on asyncio, half on trio."""
    account = sandbox.forwarder
    orders = {"url": url, "email": account.email, "password": account.password, "token_store": store and str(store)}

    def command(number: int) -> list[str]:
        backend = ("asyncio", "trio")[number % 2]
        return [sys.executable, "-W", "error", str(_SHARER), json.dumps(orders | {"backend": backend})]

    async with AsyncExitStack() as stack:
        stack.enter_context(errors := log.open("ab"))
        sharers = []
        for number in range(size):
            process = await anyio.open_process(command(number), stdout=PIPE, stderr=errors)
            sharers.append(Sharer(await stack.enter_async_context(process)))
        try:
            assert await answers(sharers) == ["ready"] * size
            yield sharers
        finally:
            for sharer in sharers:
                if sharer.process.returncode is None:
                    sharer.process.kill()


async def answers(sharers: Sequence[Sharer]) -> list[Any]:
    with anyio.fail_after(_TIMEOUT):
        return [await sharer.answer() for sharer in sharers]


async def all_work(sharers: Sequence[Sharer]) -> list[Any]:
    """Return the answers of all processes, which work at the same time."""
    for sharer in sharers:
        await sharer.tell()
    return await answers(sharers)


def fine(size: int) -> list[dict[str, Any]]:
    return [{"user": "forwarder@demo.example", "company": "Forward & Co. Ltd", "found": 3}] * size


@_FROM_ONE_LOOP
async def test_processes_with_one_file_make_one_login(tmp_path: Path) -> None:
    store, log = tmp_path / "new" / "token.json", tmp_path / "log"
    sandbox, tokens = stocked(), []
    async with served(sandbox) as face:
        async with fleet(sandbox, face.url, store, log, 4) as sharers:
            for expected in (1, 2):
                assert await all_work(sharers) == fine(4)
                assert logins(sandbox) == expected
                tokens.append(json.loads(store.read_text())["token"])
                # All of them are refused at once.
                sandbox.exchange.expire_tokens()
        async with fleet(sandbox, face.url, None, log, 1) as sharers:
            # Control: a process without the file logs in for itself.
            assert await all_work(sharers) == fine(1)
    assert logins(sandbox) == 3
    logged = log.read_text()
    assert not any(token in logged for token in tokens)
    assert "Traceback" not in logged


@_FROM_ONE_LOOP
async def test_process_killed_during_its_login_holds_up_no_other(tmp_path: Path) -> None:
    sandbox = stocked()
    arm(sandbox, "login_hung", Kind.LOGIN)
    async with (
        served(sandbox) as face,
        fleet(sandbox, face.url, tmp_path / "token.json", tmp_path / "log", 3) as [first, *others],
    ):
        await first.tell()
        with anyio.fail_after(_TIMEOUT):
            while not logins(sandbox):  # noqa: ASYNC110  # another process does it
                await anyio.sleep(0.01)
        for other in others:
            await other.tell()
        first.process.kill()
        await first.process.wait()
        assert await answers(others) == fine(2)
    assert logins(sandbox) == 2
