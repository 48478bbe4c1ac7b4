"""Logging in (service document, 4.1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import attrs

from freight_exchange import wire
from freight_exchange.transport import clock
from freight_exchange.transport.message import Kind
from freight_exchange.transport.redaction import Secret
from freight_exchange.transport.session import Grant

if TYPE_CHECKING:
    from freight_exchange.models import User
    from freight_exchange.transport.caller import Caller, Limits
    from freight_exchange.transport.message import Response
    from freight_exchange.transport.redaction import Redactor

__all__ = ["log_in"]


async def log_in(
    caller: Caller, limits: Limits, email: str, password: Secret, welcome: Callable[[User], None]
) -> Grant:
    """Obtain a token; `welcome` is given the user. The secrets are known to the redactor before anything is raised."""
    caller.redactor.learn(password)

    def read(response: Response) -> Grant:
        login = wire.login(wire.parse(response.content))
        token = Secret(login.token)
        caller.redactor.learn_token(token)
        welcome(_discreet(login.user, caller.redactor))
        lifetime = login.lifetime
        if login.expires_at is not None:
            lifetime = login.expires_at - clock.wall_time()
        return Grant(token=token, lifetime=lifetime)

    return await caller.call(
        Kind.LOGIN, "POST", "login", read, limits, content=wire.credentials(email, password.reveal())
    )


def _discreet(user: User, redactor: Redactor) -> User:
    """The user without the token or the password, which a reply may repeat under keys that nobody knows."""

    def masked(extra: Mapping[str, object]) -> Mapping[str, object]:
        return {redactor.text(key): redactor.value(value) for key, value in extra.items()}

    company = user.company
    return attrs.evolve(
        user,
        image_url=None if user.image_url is None else redactor.text(user.image_url),
        extra=masked(user.extra),
        company=None if company is None else attrs.evolve(company, extra=masked(company.extra)),
    )
