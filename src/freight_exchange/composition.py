"""Composition of a client: its defaults, the state of its views, and its login."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import attrs

from freight_exchange.endpoints.bids import SeenBids
from freight_exchange.endpoints.currencies import KnownCurrencies
from freight_exchange.endpoints.login import log_in
from freight_exchange.endpoints.offers import SeenOffers
from freight_exchange.endpoints.reconcile.shared_readings import SharedReadings
from freight_exchange.endpoints.routes import SeenRoutes
from freight_exchange.errors import ConfigurationError
from freight_exchange.paging import PageSizes

if TYPE_CHECKING:
    from freight_exchange.models import User
    from freight_exchange.platform.clock import Clock
    from freight_exchange.transport.auth.refresh import Credentials
    from freight_exchange.transport.auth.token import Grant
    from freight_exchange.transport.call import CallExecutor, Limits
    from freight_exchange.transport.lifecycle import Connection
    from freight_exchange.transport.secrets import Secret

__all__ = [
    "DEFAULT_DEADLINE",
    "DEFAULT_KEEPALIVE",
    "DEFAULT_MAX_CONNECTIONS",
    "DEFAULT_MAX_WRITES",
    "SharedState",
    "log_in_user",
    "login_deadline",
    "option",
]

T = TypeVar("T")

DEFAULT_DEADLINE = 60.0
"""Seconds that a call may take, attempts, waits and login included."""

DEFAULT_MAX_CONNECTIONS = 20
DEFAULT_MAX_WRITES = 4

DEFAULT_KEEPALIVE = 120.0
"""Seconds that an idle connection is kept: a feed polls every 30 seconds by default."""


class SharedState:
    """State that a client shares with its views."""

    def __init__(self, credentials: Credentials) -> None:
        self.credentials = credentials
        self.clock: Clock | None = None
        self.connection: Connection
        self.user: User | None = None
        self.sizes = PageSizes()
        self.readings = SharedReadings()
        self.bids = SeenBids()
        self.currencies = KnownCurrencies()
        self.offers = SeenOffers()
        self.routes = SeenRoutes()

    def welcome(self, user: User) -> None:
        self.user = user


async def log_in_user(
    executor: CallExecutor, email: str, password: Secret, *, limits: Limits, shared: SharedState
) -> Grant:
    """Log in, and record the user in the state of the client."""
    login_limits = attrs.evolve(limits, deadline=login_deadline(limits))
    return await log_in(executor, login_limits, email, password, shared.welcome)


def login_deadline(limits: Limits) -> float:
    """Return the deadline of a login."""
    # One login serves all views, whose deadlines may be longer; each caller waits within its own deadline.
    return max(limits.deadline, DEFAULT_DEADLINE)


def option(value: T | None, kind: type[T], name: str) -> T:
    """Return an option, or its default; raise `ConfigurationError` for a value of another type."""
    if value is None:
        return kind()
    if not isinstance(value, kind):
        raise ConfigurationError(f"{name} must be {kind.__name__}(...), not {type(value).__name__}")
    return value
