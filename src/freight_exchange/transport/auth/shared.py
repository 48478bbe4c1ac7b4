"""One login for all processes that share a file: the first one logs in, the others wait and take what it got."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import anyio
import anyio.to_thread
import attrs

from freight_exchange.platform import clock
from freight_exchange.platform.file_lock import FileLock
from freight_exchange.transport.auth.cached_login import CachedLogin
from freight_exchange.transport.auth.token import Grant

if TYPE_CHECKING:
    from freight_exchange.transport.auth.login_file import LoginFile
    from freight_exchange.transport.auth.refresh import LoginCall
    from freight_exchange.transport.auth.token_store import TokenFile
    from freight_exchange.transport.secrets import Secret

__all__ = ["SharedLogin"]

T = TypeVar("T")

_logger = logging.getLogger("freight_exchange.auth")

_MOST_REFUSED: Final = 16
_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 0.5
_SPREAD: Final = 0.8
_SLOWEST: Final = 5.0
"""Seconds that a disk may take: one that hangs must not hang the login."""


class SharedLogin:
    """A login that looks in a file first, and keeps there what it got.

    At most one process logs in at a time; the others look again and again until the token is there or it is their turn.
    One that has waited for too long, for a process that is stopped say, logs in without its turn.
    """

    def __init__(
        self,
        store: TokenFile,
        base_url: str,
        log_in: LoginCall,
        *,
        adopt: Callable[[CachedLogin, Secret], None],
        patience: float,
    ) -> None:
        """
        Args:
            store: Where the file is.
            base_url: The service that the tokens are of.
            log_in: Logs in at the service.
            adopt: Is given the login that another process made, and the password, before anything is done with it.
            patience: Seconds to wait for another process that is logging in.
        """
        self._store = store
        self._base_url = base_url
        self._log_in = log_in
        self._adopt = adopt
        self._patience = patience
        self._files: dict[str, LoginFile] = {}
        self._threads: anyio.CapacityLimiter | None = None
        # Replaced and never changed: threads read it.
        self._refused: tuple[Secret, ...] = ()
        self._given: tuple[Secret, float] | None = None

    def refuse(self, token: Secret) -> None:
        """The service has refused this token: it is not taken from the file again."""
        if token not in self._refused:
            self._refused = (*self._refused[1 - _MOST_REFUSED :], token)

    async def __call__(self, email: str, password: Secret) -> Grant:
        file = self._files.get(email)
        if file is None:
            file = self._files[email] = self._store.of(self._base_url, email)
        turn = await self._turn(file)
        if isinstance(turn, CachedLogin):
            return self._found(turn, password)
        try:
            started = clock.now()
            grant = await self._log_in(email, password)
            await self._keep(file, email, grant, started, alone=turn.is_held)
        finally:
            turn.release()
        return attrs.evolve(grant, obtained=started)

    async def _turn(self, file: LoginFile) -> CachedLogin | FileLock:
        """Another process's login, or the right to log in."""
        began = anyio.current_time()
        # Not all at once: the first that no longer waits serves the others.
        ends_at = began + self._patience * random.uniform(_SPREAD, 1.0)
        pause = _FIRST_PAUSE
        while True:
            alone: CachedLogin | FileLock | None = FileLock()
            found = await self._in_thread(partial(file.look, self._wanted), alone)
            if found is not None:
                return found
            if anyio.current_time() >= ends_at:
                _logger.warning(
                    "another process has held the token file %s for %.0f s: this one logs in without waiting for it",
                    file.path,
                    anyio.current_time() - began,
                )
                return FileLock()
            await anyio.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(_LONGEST_PAUSE, 1.5 * pause)

    def _wanted(self, kept: CachedLogin) -> bool:
        return (kept.token, kept.obtained.wall) != self._given and kept.token not in self._refused and kept.fresh()

    def _found(self, kept: CachedLogin, password: Secret) -> Grant:
        self._given = (kept.token, kept.obtained.wall)
        self._adopt(kept, password)
        now, age = clock.now(), kept.age() or 0.0
        obtained = attrs.evolve(now, loop=now.loop - age, boot=now.boot - age, wall=now.wall - age)
        return Grant(token=kept.token, lifetime=kept.lifetime, user=kept.user, obtained=obtained, adopted=True)

    async def _keep(self, file: LoginFile, account: str, grant: Grant, started: clock.Reading, *, alone: bool) -> None:
        self._given = (grant.token, started.wall)
        user = grant.user
        if user is None:
            return

        def write() -> None:
            kept = CachedLogin(
                base_url=self._base_url,
                account=account,
                token=grant.token,
                # A lifetime of nothing says nothing.
                lifetime=None if grant.lifetime is None or grant.lifetime <= 0 else grant.lifetime,
                obtained=started,
                user=user,
            )
            file.write(kept, alone=alone)

        await self._in_thread(write, None)

    async def _in_thread(self, work: Callable[[], T], otherwise: T) -> T:
        """What the work gives, or something else where the disk does not answer."""
        if self._store.inline:
            return work()
        if self._threads is None:
            # Its own, made on the loop: a program that keeps all the loop's threads busy does not stop its login.
            self._threads = anyio.CapacityLimiter(1)
        with anyio.move_on_after(_SLOWEST):
            return await anyio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=self._threads)
        _logger.warning("%r does not answer: this process logs in for itself", self._store)
        return otherwise
