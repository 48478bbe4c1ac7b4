"""Model of processes that share a login, against a service and a disk that fail in any order."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import anyio
import anyio.lowlevel
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.model.login_processes import USER_FACTS, Process, Service

from freight_exchange.errors import FreightExchangeError, TransportError
from freight_exchange.platform import clock
from freight_exchange.platform.file_lock import FileLock
from freight_exchange.testing import VirtualTimeLoop
from freight_exchange.transport.auth.cached_login import CachedLogin
from freight_exchange.transport.auth.token import Grant
from freight_exchange.transport.auth.token_store import TokenFile
from freight_exchange.transport.message import Request, Response
from freight_exchange.transport.secrets import Secret

REFUSED = Response(status=401, content=b"")
FINE = Response(status=200, content=b"{}")
SIZE = 4


class One(Process):
    """Process of the model that records the tokens it adopted and those that were refused."""

    def __init__(self, model: SharedLoginModel, number: int) -> None:
        super().__init__(Service(), TokenFile(model.path, inline=True), log_in=self.log_in)
        self.model = model
        self.number = number
        self.known_refused: set[str] = set()
        refuse = self.shared.refuse

        def note(token: Secret) -> None:
            self.known_refused.add(token.reveal())
            refuse(token)

        self.token_refresh._on_refused = note

    async def log_in(self, email: str, password: Secret) -> Grant:
        return await self.model.log_in(self)

    def adopt(self, login: CachedLogin, password: Secret) -> None:
        token = login.token.reveal()
        self.model.promise(token not in self.known_refused, "a token was taken again that had been refused")
        self.model.promise(not self.model.expired(token), "an expired token was taken")
        super().adopt(login, password)

    async def try_to_call(self, *, takes: float, replayable: bool) -> int | None:
        sent: list[str] = []

        async def send(request: Request) -> Response:
            assert request.token is not None
            token = request.token.reveal()
            adopted = [one for one, _ in self.adopted]
            self.model.promise(len(sent) < 2 or sent[1] in adopted, "a call was replayed twice for its own tokens")
            self.model.promise(len(sent) < 3, "a call was sent four times")
            self.model.promise(replayable or not sent, "what is not replayable was replayed")
            sent.append(token)
            await anyio.sleep(takes)
            return REFUSED if self.model.refuses(token) else FINE

        try:
            return (await self.token_refresh(self.request(replayable=replayable), send)).status
        except FreightExchangeError:
            return None


class SharedLoginModel(RuleBasedStateMachine):
    """Rules that hold for any order of events.

    - no two processes log in at once, unless one stands still with the lock;
    - no process logs in while a login is there that it could have taken;
    - no process takes a token that it knows to be refused, or that has expired;
    - a call is sent three times at most, and none hangs;
    - with any content of the file, a call fails only if the service does; once that is well, so are the calls.
    """

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "token.json"
        self.loop = VirtualTimeLoop()
        self.offsets = {"boot_time": 1e5, "wall_time": 1.9e9}
        self.patches: list[Any] = [
            mock.patch.object(clock, name, lambda name=name: self.loop.time() + self.offsets[name])
            for name in self.offsets
        ]
        self.patches.append(mock.patch.object(clock, "boot_id", return_value="this"))
        for patch in self.patches:
            patch.start()
        self.lifetime: float | None = None
        self.fails = self.stubborn = False
        self.issued: list[tuple[float, float]] = []
        self.lifetimes: list[float | None] = []
        self.revoked_up_to = 0
        self.there = False
        self.backup = b""
        self.under_way = 0
        self.frozen: FileLock | None = None
        self.calls: list[asyncio.Task[int | None]] = []
        self.broken: list[str] = []
        self.fleet: list[One] = self.loop.run_until_complete(self.open())

    async def open(self) -> list[One]:
        return [One(self, number) for number in range(SIZE)]

    async def log_in(self, process: One) -> Grant:
        # While a suspended process holds the lock, others log in without it.
        locked = self.frozen is None
        self.promise(not (locked and self.under_way), "two logins at once")
        self.promise(self.needed_by(process), "a login that was not needed")
        self.under_way += locked
        sent = self.clocks()
        try:
            await anyio.sleep(1)
        finally:
            self.under_way -= locked
        if self.fails:
            raise TransportError("reset")
        self.issued.append(sent)
        self.lifetimes.append(self.lifetime)
        # The file is written within this very turn.
        self.there = True
        return Grant(token=Secret(f"t{len(self.issued)}"), lifetime=self.lifetime, user=USER_FACTS)

    def needed_by(self, process: One) -> bool:
        newest = len(self.issued)
        if not self.there or self.frozen is not None or f"t{newest}" in process.known_refused:
            return True
        lifetime = self.lifetimes[-1]
        return lifetime is not None and self.age(newest) >= lifetime - min(300, lifetime / 10)

    def clocks(self) -> tuple[float, float]:
        return clock.boot_time(), clock.wall_time()

    def age(self, number: int) -> float:
        return max(now - then for now, then in zip(self.clocks(), self.issued[number - 1], strict=True))

    def expired(self, token: str) -> bool:
        number = int(token[1:])
        lifetime = self.lifetimes[number - 1]
        return lifetime is not None and self.age(number) >= lifetime

    def refuses(self, token: str) -> bool:
        return self.stubborn or int(token[1:]) <= self.revoked_up_to

    def promise(self, kept: bool, message: str) -> None:
        # Noted and not raised: no caller waits for the error of an early login.
        if not kept:
            self.broken.append(message)

    @initialize(lifetime=st.none() | st.sampled_from([2.0, 60.0, 3600.0]))
    def begin(self, lifetime: float | None) -> None:
        self.lifetime = lifetime

    @rule(
        number=st.integers(0, SIZE - 1),
        count=st.integers(1, 3),
        takes=st.sampled_from([0.0, 0.1, 5.0]),
        replayable=st.booleans(),
    )
    def start_calls(self, number: int, count: int, takes: float, replayable: bool) -> None:
        process = self.fleet[number]
        self.calls += [
            self.loop.create_task(process.try_to_call(takes=takes, replayable=replayable)) for _ in range(count)
        ]
        self.wait(0)

    @rule(seconds=st.sampled_from([0.05, 0.5, 1.0, 3.0, 31.0, 58.0, 3500.0, 86_400.0]))
    def wait(self, seconds: float) -> None:
        self.loop.run_until_complete(anyio.sleep(seconds))

    @rule()
    def revoke(self) -> None:
        self.revoked_up_to = len(self.issued)

    @rule(stubborn=st.booleans())
    def refuse_everything(self, stubborn: bool) -> None:
        self.stubborn = stubborn

    @rule(fails=st.booleans())
    def fail_logins(self, fails: bool) -> None:
        self.fails = fails

    @rule(content=st.none() | st.binary(max_size=20), mode=st.sampled_from([0o600, 0o644]))
    def spoil_the_file(self, content: bytes | None, mode: int) -> None:
        self.there = False
        if content is None:
            self.path.unlink(missing_ok=True)
        else:
            self.path.write_bytes(content)
            self.path.chmod(mode)

    @precondition(lambda self: self.path.exists())
    @rule()
    def make_a_backup(self) -> None:
        self.backup = self.path.read_bytes()

    @precondition(lambda self: self.backup)
    @rule()
    def restore_the_backup(self) -> None:
        self.there = False
        self.path.write_bytes(self.backup)
        self.path.chmod(0o600)

    @precondition(lambda self: self.path.exists())
    @rule()
    def open_the_file_to_all(self) -> None:
        self.there = False
        self.path.chmod(0o666)

    @rule(which=st.sampled_from(["boot_time", "wall_time"]), seconds=st.sampled_from([-86_400.0, 50.0, 28_800.0]))
    def step_a_clock(self, which: str, seconds: float) -> None:
        # No machine's time since its start runs backwards.
        self.offsets[which] += abs(seconds) if which == "boot_time" else seconds

    @rule(number=st.integers(0, SIZE - 1))
    def kill_and_start_again(self, number: int) -> None:
        async def replace() -> None:
            await self.fleet[number].tasks.close(anyio.lowlevel.checkpoint).wait()
            self.fleet[number] = One(self, number)

        self.loop.run_until_complete(replace())

    @precondition(lambda self: self.frozen is None and not self.under_way)
    @rule()
    def stand_still_with_the_lock(self) -> None:
        self.frozen = FileLock.acquire(self.path.with_name("token.json.lock"))

    @precondition(lambda self: self.frozen is not None)
    @rule()
    def go_on(self) -> None:
        assert self.frozen is not None
        self.frozen.release()
        self.frozen = None

    @precondition(lambda self: self.calls)
    @rule(data=st.data())
    def cancel_a_call(self, data: st.DataObject) -> None:
        self.calls.pop(data.draw(st.integers(0, len(self.calls) - 1))).cancel()
        self.wait(0)

    @invariant()
    def no_promise_is_broken(self) -> None:
        for task in [task for task in self.calls if task.done()]:
            self.calls.remove(task)
            task.result()
        assert not self.broken

    def teardown(self) -> None:
        try:
            self.fails = self.stubborn = False
            self.wait(120)
            if self.frozen is not None:
                self.go_on()
            self.no_promise_is_broken()
            assert not self.calls, "a call hangs"
            for process in self.fleet:
                status = self.loop.run_until_complete(process.try_to_call(takes=0.1, replayable=True))
                assert status == 200, "the service is well, and a call is not"
            self.no_promise_is_broken()
        finally:
            for patch in self.patches:
                patch.stop()
            if self.frozen is not None:
                self.frozen.release()
            self.folder.cleanup()
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.close()


TestSharedLoginModel = SharedLoginModel.TestCase
TestSharedLoginModel.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
