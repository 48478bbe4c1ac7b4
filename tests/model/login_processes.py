"""Processes that share a login through a file, and their service, in one process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
from tests.model.login_calls import crowd

from freight_exchange import wire
from freight_exchange.errors import FreightExchangeError
from freight_exchange.hooks import Event, Hooks, Login
from freight_exchange.models import User
from freight_exchange.options import Timeouts
from freight_exchange.platform import clock
from freight_exchange.transport.auth.cached_login import CachedLogin
from freight_exchange.transport.auth.refresh import LoginCall, TokenRefresh
from freight_exchange.transport.auth.shared_login import SharedLogin
from freight_exchange.transport.auth.token import Grant
from freight_exchange.transport.auth.token_store import TokenFile
from freight_exchange.transport.background import BackgroundTasks
from freight_exchange.transport.message import Request, RequestKind, Response
from freight_exchange.transport.secrets import Secret

URL = "https://host.example/api"
EMAIL = "me@co.example"
ADA = User(first_name="Ada", email=EMAIL)
USER_FACTS: Mapping[str, object] = {"firstname": "Ada", "email": EMAIL}
HOUR = 3600.0


class Service:
    """Service with the tokens `t1`, `t2`, ...; a login takes a second, a call a tenth."""

    def __init__(self, *, lifetime: float | None = HOUR) -> None:
        self.lifetime = lifetime
        self.takes = 1.0
        self.logins = self.at_once = self.most_at_once = 0
        self.failure: FreightExchangeError | None = None
        self.refused: set[str] = set()
        self.refuses_all = False
        self.same_token = False

    async def log_in(self, email: str, password: Secret) -> Grant:
        self.logins += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        number = self.logins
        try:
            await anyio.sleep(self.takes)
        finally:
            self.at_once -= 1
        if self.failure is not None:
            raise self.failure
        token = "t1" if self.same_token else f"t{number}"
        return Grant(token=Secret(token), lifetime=self.lifetime, user=USER_FACTS)

    async def send(self, request: Request) -> Response:
        assert request.token is not None
        await anyio.sleep(0.1)
        refused = self.refuses_all or request.token.reveal() in self.refused
        return Response(status=401 if refused else 200, content=b"{}")

    def revoke(self) -> None:
        """Refuse every token that was issued until now."""
        self.refused |= {f"t{number}" for number in range(1, self.logins + 1)}


class Process:
    """State of one process; the file and the service are shared."""

    def __init__(
        self,
        service: Service,
        store: TokenFile,
        *,
        account: str = EMAIL,
        lock_timeout: float = 30.0,
        log_in: LoginCall | None = None,
    ) -> None:
        self.service = service
        self.account = account
        self.events: list[Event] = []
        self.adopted: list[tuple[str, User]] = []
        self.sent: list[str] = []
        self.tasks = BackgroundTasks()
        self.shared = SharedLogin(store, URL, log_in or service.log_in, adopt=self.adopt, lock_timeout=lock_timeout)
        self.token_refresh = TokenRefresh(
            self.tasks, Hooks((self.events.append,)), self.credentials, self.shared, on_refused=self.shared.refuse
        )

    def adopt(self, login: CachedLogin, password: Secret) -> None:
        assert password.reveal() == "right"
        self.adopted.append((login.token.reveal(), wire.decode_user(login.user)))

    async def credentials(self) -> tuple[str, Secret]:
        return self.account, Secret("right")

    async def call(self, **options: Any) -> int:
        async def send(request: Request) -> Response:
            assert request.token is not None
            self.sent.append(request.token.reveal())
            return await self.service.send(request)

        return (await self.token_refresh(self.request(**options), send)).status

    @staticmethod
    def request(**options: Any) -> Request:
        return Request(method="GET", path="carrier", kind=RequestKind.READ, timeouts=Timeouts(), **options)

    @property
    def reasons(self) -> list[str]:
        """Return the reason of each of its own logins."""
        return [event.reason for event in self.events if isinstance(event, Login)]


def kept(token: str = "c4nary-t0ken", *, lifetime: float | None = HOUR, age: float = 0.0, **others: Any) -> CachedLogin:
    """Return a cached login of this age."""
    moment = clock.Reading(wall=clock.wall_time() - age, boot=0.0, boot_id="")
    facts: dict[str, Any] = {"base_url": URL, "account": EMAIL, "obtained": moment, "user": USER_FACTS} | others
    return CachedLogin(token=Secret(token), lifetime=lifetime, **facts)


def put(path: Path, login: CachedLogin) -> None:
    """Write the file as another process would."""
    TokenFile(path).file_for(URL, EMAIL).write(login, locked=False)


async def all_of(fleet: list[Process]) -> set[Any]:
    """Make a call of each process at once, and return the results."""
    outcomes: list[Any] = []

    async def one(process: Process) -> None:
        outcomes.extend(await crowd(process.call, 3))

    async with anyio.create_task_group() as tasks:
        for process in fleet:
            tasks.start_soon(one, process)
    return {outcome if isinstance(outcome, int) else type(outcome) for outcome in outcomes}
