"""Login (service document, 4.1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from freight_exchange import wire
from freight_exchange.platform import clock
from freight_exchange.transport.auth.token import Grant
from freight_exchange.transport.message import RequestKind
from freight_exchange.transport.secrets import Secret

if TYPE_CHECKING:
    from freight_exchange.models import User
    from freight_exchange.transport.call import CallExecutor, Limits
    from freight_exchange.transport.message import Response

__all__ = ["log_in"]


async def log_in(
    executor: CallExecutor, limits: Limits, email: str, password: Secret, on_login: Callable[[User], None]
) -> Grant:
    """Obtain a token. `on_login` receives the user; the redactor receives the secrets before any error is raised."""
    executor.redactor.add(password)

    def read(response: Response) -> Grant:
        login = wire.decode_login(wire.parse(response.content))
        token = Secret(login.token)
        executor.redactor.add_token(token)
        raw = wire.mask_user(login.raw, executor.redactor.value)
        on_login(wire.decode_user(raw))
        lifetime = login.lifetime
        if login.expires_at is not None:
            lifetime = login.expires_at - clock.wall_time()
        return Grant(token=token, lifetime=lifetime, user=raw)

    return await executor.call(
        RequestKind.LOGIN, "POST", "login", read, limits, content=wire.encode_credentials(email, password.reveal())
    )
