"""Model of token refresh against any service: calls, revocations, failures and clock steps in any order."""

from __future__ import annotations

import asyncio
from unittest import mock

import anyio
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from freight_exchange.errors import FreightExchangeError, LoginRejectedError, TransportError
from freight_exchange.hooks import Hooks
from freight_exchange.options import Timeouts
from freight_exchange.platform import clock
from freight_exchange.testing import VirtualTimeLoop
from freight_exchange.transport.auth.refresh import TokenRefresh
from freight_exchange.transport.auth.token import Grant
from freight_exchange.transport.background import BackgroundTasks
from freight_exchange.transport.message import Request, RequestKind, Response
from freight_exchange.transport.secrets import Secret

REFUSED = Response(status=401, content=b"")
FINE = Response(status=200, content=b"{}")


class TokenRefreshModel(RuleBasedStateMachine):
    """Rules that hold for any order of events.

    - there is never a second login beside one under way, nor one while the newest token is good;
    - credentials that were rejected are not tried again before they change or `reset()`;
    - no call begins with a token that had expired by any clock, nor with one known to be refused when there is a newer;
    - a call is sent twice at most, and none hangs;
    - once the service is well, so are the calls.
    """

    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualTimeLoop()
        self.offsets = {"boot_time": 0.0, "wall_time": 0.0}
        self.patches = [
            mock.patch.object(clock, name, lambda name=name: self.loop.time() + self.offsets[name])
            for name in self.offsets
        ]
        for patch in self.patches:
            patch.start()
        self.lifetime: float | None = None
        self.outcome = "token"
        self.password = 0
        self.rejected: set[int] = set()
        self.logins_under_way = 0
        self.issued: list[tuple[float, float, float]] = []
        self.lifetimes: list[float | None] = []
        self.revoked_up_to = 0
        self.stubborn = False
        self.known_refused: set[int] = set()
        self.calls: list[asyncio.Task[int | None]] = []
        self.broken: list[str] = []
        self.loop.run_until_complete(self.open())

    async def open(self) -> None:
        self.tasks = BackgroundTasks()
        self.token_refresh = TokenRefresh(self.tasks, Hooks(), self.credentials, self.log_in)

    async def credentials(self) -> tuple[str, Secret]:
        return "me@co.example", Secret(str(self.password))

    async def log_in(self, email: str, password: Secret) -> Grant:
        number = int(password.reveal())
        self.logins_under_way += 1
        self.promise(number not in self.rejected, "rejected credentials were tried again")
        self.promise(self.logins_under_way == 1, "two logins at once")
        self.promise(self.newest_is_due(), "a login that was not needed")
        sent = self.clocks()
        try:
            await anyio.sleep(1)
        finally:
            self.logins_under_way -= 1
        if self.outcome == "rejected":
            self.rejected.add(number)
            raise LoginRejectedError("wrong", status=200)
        if self.outcome == "failed":
            raise TransportError("reset")
        self.issued.append(sent)
        self.lifetimes.append(self.lifetime)
        return Grant(token=Secret(str(len(self.issued))), lifetime=self.lifetime)

    def promise(self, kept: bool, message: str) -> None:
        # Noted and not raised: no caller waits for the error of an early login.
        if not kept:
            self.broken.append(message)

    def clocks(self) -> tuple[float, float, float]:
        return self.loop.time(), clock.boot_time(), clock.wall_time()

    def age(self, sent: tuple[float, float, float]) -> float:
        return max(now - then for now, then in zip(self.clocks(), sent, strict=True))

    def newest_is_due(self) -> bool:
        newest = len(self.issued)
        if not newest or newest in self.known_refused:
            return True
        lifetime = self.lifetimes[-1]
        return lifetime is not None and self.age(self.issued[-1]) >= lifetime - min(300, lifetime / 10)

    async def call(self, *, takes: float, replayable: bool) -> int | None:
        sends = 0
        # A token may be old when it comes, if the machine slept during the login; the service is asked, once.
        expired = {
            number
            for number, (sent, lifetime) in enumerate(zip(self.issued, self.lifetimes, strict=True), 1)
            if lifetime is not None and self.age(sent) >= lifetime
        }

        async def send(request: Request) -> Response:
            nonlocal sends
            sends += 1
            self.promise(sends <= 2, "sent more than twice")
            assert request.token is not None
            number = int(request.token.reveal())
            if sends == 1:
                self.promise(number not in expired, "an expired token was used")
            else:
                self.promise(replayable, "what is not replayable was replayed")
            if number in self.known_refused:
                self.promise(number == len(self.issued), "a refused token was used although there is a newer one")
            await anyio.sleep(takes)
            if self.stubborn or number <= self.revoked_up_to:
                self.known_refused.add(number)
                return REFUSED
            return FINE

        request = Request(
            method="GET", path="carrier", kind=RequestKind.READ, timeouts=Timeouts(), replayable=replayable
        )
        try:
            return (await self.token_refresh(request, send)).status
        except FreightExchangeError:
            return None

    @initialize(
        lifetime=st.none() | st.sampled_from([0.0, 2.0, 60.0, 3600.0]),
        outcome=st.sampled_from(["token", "token", "failed", "rejected"]),
    )
    def begin(self, lifetime: float | None, outcome: str) -> None:
        self.set_lifetime(lifetime)
        self.set_outcome(outcome)

    @rule(lifetime=st.none() | st.sampled_from([0.0, 2.0, 60.0, 3600.0]))
    def set_lifetime(self, lifetime: float | None) -> None:
        # A lifetime of 0 is no information.
        self.lifetime = lifetime or None

    @rule(count=st.integers(1, 5), takes=st.sampled_from([0.0, 0.1, 5.0]), replayable=st.booleans())
    def start_calls(self, count: int, takes: float, replayable: bool) -> None:
        self.calls += [self.loop.create_task(self.call(takes=takes, replayable=replayable)) for _ in range(count)]
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

    @rule(outcome=st.sampled_from(["token", "token", "failed", "rejected"]))
    def set_outcome(self, outcome: str) -> None:
        self.outcome = outcome

    @rule()
    def change_password(self) -> None:
        self.password += 1

    @rule()
    def reset(self) -> None:
        self.token_refresh.reset()
        self.rejected.clear()

    @rule(which=st.sampled_from(["boot_time", "wall_time"]), seconds=st.sampled_from([-86_400.0, 50.0, 28_800.0]))
    def step_a_clock(self, which: str, seconds: float) -> None:
        # No machine's time since its start runs backwards.
        self.offsets[which] += abs(seconds) if which == "boot_time" else seconds

    @precondition(lambda self: self.calls)
    @rule(data=st.data())
    def cancel_a_call(self, data: st.DataObject) -> None:
        self.calls.pop(data.draw(st.integers(0, len(self.calls) - 1))).cancel()
        self.wait(0)

    @invariant()
    def no_call_broke_a_promise(self) -> None:
        for task in [task for task in self.calls if task.done()]:
            self.calls.remove(task)
            task.result()
        assert not self.broken

    def teardown(self) -> None:
        try:
            self.outcome, self.stubborn = "token", False
            self.change_password()
            self.wait(60)
            self.no_call_broke_a_promise()
            assert not self.calls, "a call hangs"
            status = self.loop.run_until_complete(self.call(takes=0.1, replayable=True))
            assert status == 200, "the service is well, and a call is not"
        finally:
            for patch in self.patches:
                patch.stop()
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.close()


TestTokenRefreshModel = TokenRefreshModel.TestCase
TestTokenRefreshModel.settings = settings(max_examples=120, stateful_step_count=30, deadline=None)
