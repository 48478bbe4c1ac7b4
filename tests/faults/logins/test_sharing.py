"""Tests of processes that share a login through a file, over real HTTP."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from subprocess import PIPE
from typing import Any

import anyio
import anyio.abc
import httpx
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream
from tests.faults.secrets.canary import PASSWORD, TOKEN, Catch
from tests.faults.support import Kind, arm, patient, perform, stocked

from freight_exchange import BadRequestError, ConfigurationError, DeadlineExceededError, FreightExchange
from freight_exchange.platform.file_lock import FileLock
from freight_exchange.testing import Profile, Sandbox
from freight_exchange.transport.auth.token_store import TokenFile
from freight_sandbox.server import serve

_SHARER = Path(__file__).with_name("sharer.py")
_SRC = Path(__file__).parents[3] / "src"
_TIMEOUT = 100.0
_FLEET = 4
_EMAIL = "canary@demo.example"

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
async def fleet(
    sandbox: Sandbox, url: str, store: Path | None, log: Path, size: int = _FLEET
) -> AsyncIterator[list[Sharer]]:
    """Start `size` processes and wait until they are ready: half of them on asyncio, half on trio."""
    account = sandbox.forwarder
    orders = {
        "url": url,
        "email": account.email,
        "password": account.password,
        "token_store": None if store is None else str(store),
    }

    def command(number: int) -> list[str]:
        backend = ("asyncio", "trio")[number % 2]
        return [sys.executable, "-W", "error", str(_SHARER), json.dumps(orders | {"backend": backend})]

    async with AsyncExitStack() as stack:
        stack.enter_context(errors := log.open("ab"))
        sharers = [
            Sharer(
                await stack.enter_async_context(await anyio.open_process(command(number), stdout=PIPE, stderr=errors))
            )
            for number in range(size)
        ]
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
    """Return the answers of all processes, which work concurrently."""
    for sharer in sharers:
        await sharer.tell()
    return await answers(sharers)


def logins(sandbox: Sandbox) -> int:
    return len(sandbox.audit_log.calls_to("POST", "login"))


def fine(size: int) -> list[dict[str, Any]]:
    return [{"user": "forwarder@demo.example", "company": "Forward & Co. Ltd", "found": 3}] * size


@_FROM_ONE_LOOP
async def test_processes_with_one_file_make_one_login(tmp_path: Path) -> None:
    store, log = tmp_path / "new" / "token.json", tmp_path / "log"
    sandbox = stocked(Sandbox())
    tokens = []
    async with serve(sandbox.exchange) as face:
        async with fleet(sandbox, face.url, store, log) as sharers:
            assert await all_work(sharers) == fine(_FLEET)
            assert logins(sandbox) == 1
            tokens.append(json.loads(store.read_text())["token"])
            # All of them are refused at once.
            sandbox.exchange.expire_tokens()
            assert await all_work(sharers) == fine(_FLEET)
            assert logins(sandbox) == 2
            tokens.append(json.loads(store.read_text())["token"])
        async with fleet(sandbox, face.url, store, log, 2) as sharers:
            # The next run needs none,
            assert await all_work(sharers[:1]) == fine(1)
            assert logins(sandbox) == 2
            # unless the file is spoilt.
            store.write_bytes(b"{" * 500)
            assert await all_work(sharers[1:]) == fine(1)
            assert logins(sandbox) == 3
    if sys.platform != "win32":
        assert [stat.S_IMODE(path.stat().st_mode) for path in (store.parent, store)] == [0o700, 0o600]
    assert sorted(path.name for path in store.parent.iterdir()) == ["token.json", "token.json.lock"]
    logged = log.read_text()
    assert logged.count(":logged in (") == 3
    assert logged.count("adopted a login of another process (first)") == _FLEET
    assert logged.count("holds no login that can be read") == 1
    assert not any(token in logged for token in tokens)
    assert "Traceback" not in logged


@_FROM_ONE_LOOP
async def test_processes_without_a_file_log_in_each(tmp_path: Path) -> None:
    """Control of the other tests: without a shared file, each process logs in."""
    sandbox = stocked(Sandbox())
    async with serve(sandbox.exchange) as face, fleet(sandbox, face.url, None, tmp_path / "log", 2) as sharers:
        assert await all_work(sharers) == fine(2)
    assert logins(sandbox) == 2


@_FROM_ONE_LOOP
async def test_process_killed_during_its_login_releases_the_lock(tmp_path: Path) -> None:
    store = tmp_path / "token.json"
    sandbox = stocked(Sandbox())
    arm(sandbox, "login_hung", Kind.LOGIN)
    async with (
        serve(sandbox.exchange) as face,
        fleet(sandbox, face.url, store, tmp_path / "log", 3) as [first, *others],
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


class TestTheClient:
    """Tests of the option in both clients of one process."""

    @pytest.mark.parametrize("kind", [str, Path, TokenFile])
    async def test_a_path_or_a_token_file(self, kind: Any, tmp_path: Path) -> None:
        sandbox = stocked(Sandbox())
        users = []
        for _ in range(2):
            async with sandbox.http_client() as http_client:
                store = kind(str(tmp_path / "token.json"))
                async with patient(sandbox, http_client=http_client, token_store=store) as exchange:
                    await perform(exchange, Kind.READ)
                    users += [exchange.user, await exchange.login()]
        assert logins(sandbox) == 1
        assert users[0] is not None
        assert all(user == users[0] for user in users)

    @pytest.mark.parametrize("wrong", [5, True, b"token.json", "", ["token.json"]])
    def test_anything_else_is_refused(self, wrong: Any) -> None:
        with pytest.raises(ConfigurationError, match=r"token_store|TokenFile"):
            patient(Sandbox(), token_store=wrong)

    @pytest.mark.virtual_time
    async def test_deadline_bounds_the_wait_for_another_process(self, tmp_path: Path) -> None:
        sandbox = stocked(Sandbox())
        lock = FileLock.acquire(tmp_path / "token.json.lock")
        assert lock is not None
        store = TokenFile(tmp_path / "token.json", inline=True)
        async with (
            sandbox.http_client() as http_client,
            patient(sandbox, http_client=http_client, token_store=store) as exchange,
        ):
            for kind in Kind:
                started = anyio.current_time()
                with pytest.raises(DeadlineExceededError):
                    await perform(exchange.with_options(deadline=2), kind)
                assert anyio.current_time() - started == pytest.approx(2)
            # Half of a login's time at most, and then without the other.
            began = anyio.current_time()
            await perform(exchange, Kind.READ)
            assert anyio.current_time() - began <= 30
        lock.release()

    @pytest.mark.virtual_time
    async def test_a_token_that_was_refused_is_not_taken_from_the_file_again(self, tmp_path: Path) -> None:
        sandbox = stocked(Sandbox(Profile(expires_key="absent")))
        store = TokenFile(tmp_path / "token.json", inline=True)
        async with (
            sandbox.http_client() as http_client,
            patient(sandbox, http_client=http_client, token_store=store) as exchange,
        ):
            await perform(exchange, Kind.READ)
            old = (tmp_path / "token.json").read_bytes()
            for _ in range(2):
                sandbox.exchange.expire_tokens()
                before = len(sandbox.audit_log.calls)
                await perform(exchange, Kind.READ)
                assert [call.status for call in sandbox.audit_log.calls[before:]] == [401, 200, 200]
                # Somebody restores a backup.
                (tmp_path / "token.json").write_bytes(old)
                await anyio.sleep(31)

    async def test_no_secret_in_any_output(self, tmp_path: Path) -> None:
        """The login comes from the file, or from a call of its own because the file is public, truncated or corrupt."""
        path = tmp_path / "token.json"
        spoilt = (
            lambda _: None,
            lambda _: path.chmod(0o644),
            lambda good: path.write_bytes(good[:-9]),
            lambda good: path.write_bytes(good.replace(b'"lifetime":', b'"lifetime":"')),
            lambda good: path.write_bytes(good.replace(b'"account":"', b'"account":"x')),
        )
        with Catch() as catch:
            for spoil in (None, *spoilt):
                if spoil is not None:
                    spoil(path.read_bytes())
                async with (
                    httpx.AsyncClient(transport=httpx.MockTransport(_shout)) as http_client,
                    FreightExchange(
                        Sandbox.url, email=_EMAIL, password=PASSWORD, http_client=http_client, token_store=path
                    ) as exchange,
                ):
                    catch.see("user", repr(await exchange.login()))
                    with pytest.raises(BadRequestError) as caught:
                        await perform(exchange, Kind.READ)
                    catch.error(caught.value)
                    catch.reachable(exchange)
                assert json.loads(path.read_bytes())["token"] == TOKEN
        assert catch.hits() == []
        logged = [text for what, text in catch.texts if what == "log of freight_exchange.auth"]
        assert sum("is not used" in text for text in logged) == len(spoilt) - 1
        assert sum("adopted a login of another process" in text for text in logged) == 1


def _shout(request: httpx.Request) -> httpx.Response:
    """Answer with the secrets that the service knows."""
    if request.url.path.endswith("login"):
        return httpx.Response(200, json={"user": {"access_token": TOKEN, "expires_on": 3600, "email": _EMAIL}})
    return httpx.Response(400, json={"message": f"no {PASSWORD}", "sent": [f"Bearer {TOKEN}", TOKEN, {"x": PASSWORD}]})


def test_token_store_imports_its_libraries_only_where_it_is_used() -> None:
    probe = """
import sys
from freight_exchange import FreightExchange, TokenFile
FreightExchange("https://host/api", email="me@co.example", password="x")
FreightExchange("https://host/api", email="me@co.example", password="x", token_store=TokenFile("token.json"))
assert not {"filelock", "platformdirs", "asyncio"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", probe], check=True, cwd=_SRC)
