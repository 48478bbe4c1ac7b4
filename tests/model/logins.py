"""Model of logins: clients with and without a common file make calls, while tokens, passwords and the file change.

Judged by the audit log: logins at once, logins without need, storms of logins, a rejected password that is tried again,
calls that are sent too often, hang or fail once all is well. A program that logs in for each caller stands beside it.
"""

from __future__ import annotations

import contextlib
import itertools
import json
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final

import anyio
import attrs
import httpx
from anyio.abc import TaskGroup
from tests.model.runner import Result
from tests.model.support import BEGAN, FAULTS, LOGIN_FAULTS, Fault, Profile, Sandbox, in_virtual_time

from freight_exchange import FreightExchange, FreightExchangeError, TokenFile

__all__ = ["naive", "run"]

_LATENCY: Final = 1.0
"""Seconds that each login takes."""
_FAULTS: Final = (*LOGIN_FAULTS, "reset_after_processing", "reset_after_send", "refused", "stall", "server_error",
                  "unavailable", "throttled", "garbage_status", "html_200", "bad_gateway", "half_json")  # fmt: skip
_REFUSALS: Final = ("unauthorized_once", "unauthorized_200", "tokens_revoked")
_HOLD: Final = 25.0
"""Seconds for which a rejected password rests."""
_SPAN, _MOST_LOGINS = 60.0, 8
_MARGIN: Final = 10.0
_NAIVE_ATTEMPTS: Final = 3

_WEIGHTS: Final = {
    "call": 8.0, "wave": 3.0, "write": 2.0, "revoke": 3.0, "refuse": 2.0, "fail": 2.0, "password": 1.0, "reset": 1.0,
    "cancel": 2.0, "restart": 1.5, "spoil": 2.0, "back_up": 1.0, "restore": 1.0,
}  # fmt: skip


@attrs.frozen
class Op:
    """Something that happens at a time, to a client."""

    at: float
    what: str
    client: int
    number: int
    name: str = ""


@attrs.frozen
class Plan:
    """Schedule of a seed."""

    profile: Profile
    clients: int
    is_shared: bool
    ops: tuple[Op, ...]


def draw(seed: int) -> Plan:
    """Draw the schedule of a seed."""
    random = Random(f"logins {seed}")
    clients = random.choice((1, 2, 3, 4))
    ops, now = [], 0.0
    for _ in range(random.randint(6, 20)):
        now += random.choice((0.0, 0.05, 0.5, 1.0, 3.0, 31.0, 58.0, 400.0, 3500.0))
        what = random.choices([*_WEIGHTS], [*_WEIGHTS.values()])[0]
        name = random.choice({"refuse": _REFUSALS, "fail": _FAULTS}.get(what, ("",)))
        ops.append(Op(now, what, random.randrange(clients), random.randint(1, 8), name))
    profile = Profile(
        token_lifetime=random.choice((5, 60, 3600, 86_400)),
        expires_form=random.choice(("int", "string", "epoch")) if random.random() < 0.3 else "int",
        failed_login_status=random.choice((401, 400, 403, 200)),
        unauthorized_status=random.choice((401, 401, 403, 200)),
    )
    return Plan(profile, clients, random.random() < 0.5, tuple(ops))


@attrs.define(eq=False)
class Client:
    """One process with a client.

    Attributes:
        password: Password that its credentials give.
        calls: Scopes of the calls in flight.
    """

    email: str
    password: str
    exchange: FreightExchange
    http: httpx.AsyncClient
    calls: list[anyio.CancelScope] = attrs.field(factory=list)


class World:
    """Service, clients and file of a schedule.

    Attributes:
        changes: Times at which a new login became lawful, by account: a restart, a reset, a revocation, a refusal.
    """

    def __init__(self, plan: Plan, seed: int, folder: Path, tasks: TaskGroup) -> None:
        self.plan = plan
        self.sandbox = Sandbox(plan.profile, seed=seed, began=BEGAN)
        self.path = folder / "token.json"
        self.tasks = tasks
        self.counts: Counter[str] = Counter()
        self.flaws: list[str] = []
        self.changes: defaultdict[str, list[float]] = defaultdict(list)
        self.clients: list[Client] = []
        self.random = Random(f"file {seed}")
        self._backup: bytes | None = None
        self._calls = 0
        self._slow = Fault(name="slow login", path="login", times=None, delay=_LATENCY)
        for number in range(1 if plan.is_shared else plan.clients):
            self.sandbox.exchange.add_account(f"{number}@logins.example", f"right {number}")
        self.calm()

    def calm(self) -> None:
        self.sandbox.exchange.faults.clear()
        self.sandbox.strike(self._slow)

    def strike(self, name: str, path: str | None, times: int) -> None:
        """Arm a fault before that of the slow login, since the first one strikes."""
        script = self.sandbox.exchange.faults
        script.disarm(self._slow)
        script.add(*FAULTS[name](path=path, times=times), self._slow)

    async def open(self, number: int) -> Client:
        """Start the process of a number."""
        http = self.sandbox.http_client()
        email = f"{0 if self.plan.is_shared else number}@logins.example"
        client = Client(email, f"right {email[0]}", None, http)  # type: ignore[arg-type]  # made in the next lines

        async def credentials() -> tuple[str, str]:
            return client.email, client.password

        client.exchange = FreightExchange(
            self.sandbox.url,
            credentials=credentials,
            token_store=TokenFile(self.path, inline=True) if self.plan.is_shared else None,
            http_client=http,
        )
        await client.exchange.__aenter__()
        self.changed(email)
        return client

    async def close(self, client: Client) -> None:
        for call in client.calls:
            call.cancel()
        await client.exchange.aclose()
        await client.http.aclose()

    def changed(self, email: str | None = None) -> None:
        """Note that a login is lawful from now on, of one account or of all."""
        for one in {client.email for client in self.clients} if email is None else {email}:
            self.changes[one].append(self.sandbox.now())

    async def happen(self, op: Op) -> None:
        client = self.clients[op.client]
        self.counts[op.what] += 1
        match op.what:
            case "call" | "wave" | "write":
                for _ in range(1 if op.what == "call" else 10 * op.number if op.what == "wave" else 2):
                    self.tasks.start_soon(self.call, client, op.what == "write")
            case "revoke":
                self.sandbox.exchange.expire_tokens()
                self.changed()
            case "refuse":
                self.strike(op.name, "carrier", op.number)
            case "fail":
                self.strike(op.name, "login", op.number)
            case "password":
                client.password = f"wrong {op.number}" if op.number % 2 else f"right {client.email[0]}"
                self.changed(client.email)
            case "reset":
                client.exchange.reset_login()
                self.changed(client.email)
            case "cancel":
                for call in client.calls[-op.number :]:
                    call.cancel()
                # If it was logging in for others, the next of them logs in.
                self.changed(client.email)
            case "restart":
                await self.close(client)
                self.clients[op.client] = await self.open(op.client)
            case "spoil":
                self._spoil(op)
            case "back_up" if self.path.exists():
                self._backup = self.path.read_bytes()
            case "restore" if self._backup is not None:
                self.path.write_bytes(self._backup)
                self.path.chmod(0o600)
                self.changed()

    def _spoil(self, op: Op) -> None:
        if not self.plan.is_shared:
            return
        match op.number % 3:
            case 0:
                self.path.unlink(missing_ok=True)
            case 1 if self.path.exists():
                self.path.chmod(0o666)
            case _:
                self.path.write_bytes(self.random.randbytes(20))
                self.path.chmod(0o600)
        self.changed()

    async def call(self, client: Client, is_write: bool = False) -> bool:
        """Make one call, and return whether it succeeds."""
        self._calls += 1
        number, deadline = self._calls, 60.0
        before, scope = anyio.current_time(), anyio.CancelScope()
        client.calls.append(scope)
        ended = False
        try:
            with scope, anyio.move_on_after(deadline + _MARGIN):
                if is_write:
                    body = {"requestIndex": 999_999, "offer": number, "currencyIndex": 840}
                    await client.exchange.request("POST", "quote/submitoffer", body=body)
                else:
                    await client.exchange.request("GET", "carrier", params={"call": number})
                ended = True
                return True
        except FreightExchangeError as error:
            ended = True
            self.counts[f"raised {type(error).__name__}"] += 1
        except Exception as error:  # noqa: BLE001  # judged
            ended = True
            self.flaws.append(f"call {number} raised {error!r}")
        finally:
            client.calls.remove(scope)
            if not ended and not scope.cancel_called:
                self.flaws.append(f"call {number} hangs since {before}")
        return False

    # The verdict

    def judge(self) -> None:
        log = self.sandbox.audit_log
        sends = Counter(call.query["call"] for call in log.calls if call.path == "carrier" and "call" in call.query)
        sends += Counter(f"write {call.body!r}" for call in log.calls if call.path == "quote/submitoffer")
        self.flaws += [f"call {call} was sent {count} times" for call, count in sends.items() if count > 3]
        faulty = {call for name, call, _ in self.sandbox.exchange.faults.fired if name != "slow login"}
        logins = [call for call in log.calls if call.path == "login"]
        self.counts["logins"] += len(logins)
        self.counts["calls"] += sends.total()
        refused = [call.time for call in log.calls if call.path != "login" and not call.processed]
        by_account: defaultdict[str, list[Any]] = defaultdict(list)
        for call in logins:
            with contextlib.suppress(ValueError, TypeError, KeyError):
                by_account[json.loads(call.body)["email"]].append(call)
        for email, calls in by_account.items():
            self._judge_logins(email, calls, faulty, refused)

    def _judge_logins(self, email: str, calls: list[Any], faulty: set[int], refused: list[float]) -> None:
        lawful = sorted([*self.changes[email], *refused])
        accepted = {login.call for login in self.sandbox.audit_log.logins if login.accepted}
        for earlier, later in itertools.pairwise(calls):
            if earlier.number in faulty:
                continue
            is_again = earlier.body == later.body and earlier.number not in accepted
            if is_again and later.time - earlier.time < _HOLD and not self._changed(email, earlier.time, later.time):
                # Other processes of the account have to find out for themselves.
                if not self.plan.is_shared:
                    self.flaws.append(f"{email}: a rejected password was tried again at {later.time - BEGAN:.2f}")
            elif later.time - earlier.time < _LATENCY - 0.001 and not self._changed(email, earlier.time, later.time):
                self.flaws.append(
                    f"{email}: two logins at once, {earlier.time - BEGAN:.2f} and {later.time - BEGAN:.2f}"
                )
            elif earlier.status // 100 == 2 and earlier.processed and self._is_good(earlier, later.time, lawful):
                self.flaws.append(
                    f"{email}: a login without need, {earlier.time - BEGAN:.2f}, {later.time - BEGAN:.2f}"
                )
        times = [call.time for call in calls]
        for first, at in enumerate(times):
            extra = bisect_left(lawful, at + _SPAN) - bisect_left(lawful, at)
            if bisect_left(times, at + _SPAN) - first > _MOST_LOGINS + self.plan.clients * (1 + extra):
                self.flaws.append(f"{email}: a storm of logins from {at - BEGAN:.2f} on")
                return

    def _changed(self, email: str, since: float, until: float) -> bool:
        return any(since <= at <= until for at in self.changes[email])

    def _is_good(self, login: Any, at: float, lawful: list[float]) -> bool:
        """Return whether the token of a login is good at a time, as far as its client can know."""
        if any(login.time <= one <= at for one in lawful):
            return False
        lifetime: int = self.plan.profile.token_lifetime
        return bool(at - login.time < lifetime - min(300.0, lifetime / 10) - 2 * _LATENCY)


def run(seed: int) -> Result:
    """Play the schedule of a seed, and judge the logins and the calls."""
    plan = draw(seed)

    async def work(folder: Path) -> Result:
        async with anyio.create_task_group() as tasks:
            world = World(plan, seed, folder, tasks)
            for number in range(plan.clients):
                world.clients.append(await world.open(number))
            for op in plan.ops:
                await anyio.sleep(max(0.0, op.at - anyio.current_time()))
                await world.happen(op)
            await anyio.sleep(200.0)
            world.calm()
            for number, client in enumerate(world.clients):
                client.password = f"right {client.email[0]}"
                client.exchange.reset_login()
                world.changed(client.email)
                await anyio.sleep(700.0)
                if not await world.call(client):
                    world.flaws.append(f"all is well, and a call of client {number} fails")
                if client.calls:
                    world.flaws.append(f"{len(client.calls)} calls of client {number} hang")
            for client in world.clients:
                await world.close(client)
            world.judge()
        world.counts.update(f"fault {name}" for name, *_ in world.sandbox.exchange.faults.fired if name != "slow login")
        return Result(world.flaws, world.counts)

    return _in_folder(seed, work)


def naive(seed: int) -> bool:
    """Return whether a program whose callers log in for themselves breaks a promise under the schedule of a seed."""
    plan = draw(seed)

    async def work(folder: Path) -> Result:
        async with anyio.create_task_group() as tasks:
            world = World(plan, seed, folder, tasks)
            token = {"": ""}

            async def call(client: httpx.AsyncClient) -> None:
                for _ in range(_NAIVE_ATTEMPTS):
                    with contextlib.suppress(httpx.HTTPError, ValueError, KeyError, TypeError):
                        headers = {"authorization": f"Bearer {token['']}"}
                        if token[""]:
                            reply = await client.get(f"{world.sandbox.url}/carrier", headers=headers)
                            if reply.status_code == 200 and "Unauthorized" not in reply.text:
                                return
                        account = {"email": "0@logins.example", "password": "right 0"}
                        reply = await client.post(f"{world.sandbox.url}/login", json=account)
                        token[""] = reply.json()["user"]["access_token"]

            async with world.sandbox.http_client() as client:
                for op in plan.ops:
                    await anyio.sleep(max(0.0, op.at - anyio.current_time()))
                    match op.what:
                        case "call" | "wave":
                            for _ in range(1 if op.what == "call" else 10 * op.number):
                                tasks.start_soon(call, client)
                        case "revoke":
                            world.sandbox.exchange.expire_tokens()
                            world.changes["0@logins.example"].append(world.sandbox.now())
                        case "refuse" | "fail":
                            world.strike(op.name, "carrier" if op.what == "refuse" else "login", op.number)
                await anyio.sleep(200.0)
            world.judge()
        return Result(world.flaws, world.counts)

    return bool(_in_folder(seed, work).flaws)


def _in_folder(seed: int, work: Callable[[Path], Awaitable[Result]]) -> Result:
    shared = Path("/dev/shm")
    with TemporaryDirectory(dir=shared if shared.is_dir() else None) as folder:
        return in_virtual_time(seed, "trio" if seed % 2 else "asyncio", lambda: work(Path(folder)))
