"""Frozen records of what happened, for logging and metrics.

A hook is a callable, sync or async, that is given each record as it happens; `match` or `isinstance` picks the ones
it wants. An error in a hook is a bug in the hook and reaches the caller. No record holds a secret.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Literal

import attrs

from freight_exchange.errors import DecodeError, FreightExchangeError

__all__ = ["Attempt", "BrokenRecord", "Event", "Hook", "Login", "Retry"]


@attrs.frozen(kw_only=True)
class Attempt:
    """One request handed to the network, and how it ended.

    Attributes:
        method: The HTTP method.
        path: The path, relative to the API root.
        number: Which attempt of its call this was, from 1.
        status: The reply's status, or `None` without one.
        elapsed: Seconds from the start of the attempt to its end.
        error: Why there is no reply, or `None`.
        abandoned: Whether the caller had left (cancelled, or past its deadline) before the end.
        may_have_taken_effect: Whether a write may have been carried out; always false for reads.
    """

    method: str
    path: str
    number: int
    status: int | None
    elapsed: float
    error: FreightExchangeError | None
    abandoned: bool
    may_have_taken_effect: bool


@attrs.frozen(kw_only=True)
class Retry:
    """A call failed in a way that allows another attempt, which follows after `delay` seconds."""

    method: str
    path: str
    number: int
    delay: float
    error: FreightExchangeError


@attrs.frozen(kw_only=True)
class Login:
    """One login ended, well or badly.

    Attributes:
        generation: The number of the token obtained, from 1; 0 without one.
        reason: `first`, `clock` (the token was about to expire) or `refused` (the service refused it).
        elapsed: Seconds.
        error: Why there is no token, or `None`.
    """

    generation: int
    reason: Literal["first", "clock", "refused"]
    elapsed: float
    error: FreightExchangeError | None


@attrs.frozen(kw_only=True)
class BrokenRecord:
    """One record of a listing could not be read; the others were. `error.path` says where."""

    method: str
    path: str
    error: DecodeError


Event = Attempt | Retry | Login | BrokenRecord

Hook = Callable[[Event], Awaitable[None] | None]


@attrs.frozen
class Hooks:
    """The hooks of a client, called one after another."""

    hooks: tuple[Hook, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.hooks)

    async def emit(self, event: Event) -> None:
        """Give the record to every hook.

        Raises:
            RuntimeError: A hook raised one of this package's errors, of some other call that it made: taken for this
                call's, it could have a write sent again.
        """
        try:
            for hook in self.hooks:
                result = hook(event)
                if inspect.isawaitable(result):
                    await result
        except FreightExchangeError as error:
            raise RuntimeError(f"a hook failed: {error}") from error
