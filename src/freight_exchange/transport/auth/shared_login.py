"""Shared login: the first process logs in, the others wait and adopt its token from the file."""

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

_MAX_REFUSED: Final = 16
_FIRST_PAUSE: Final = 0.05
_MAX_PAUSE: Final = 0.5
_JITTER: Final = 0.8
_DISK_TIMEOUT: Final = 5.0
"""Seconds that the disk may take; a disk that hangs must not block the login."""


class SharedLogin:
    """Login that reads a token file first, and writes its own token there.

    One process logs in at a time. The others poll until the token is in the file or the lock is free. A process that
    has waited too long, for example for a suspended process, logs in without the lock.
    """

    def __init__(
        self,
        store: TokenFile,
        base_url: str,
        log_in: LoginCall,
        *,
        adopt: Callable[[CachedLogin, Secret], None],
        lock_timeout: float,
    ) -> None:
        """
        Args:
            store: Path of the token file.
            base_url: URL of the service.
            log_in: Logs in to the service.
            adopt: Receives the login of another process, and the password, before it is used.
            lock_timeout: Seconds to wait for another process that logs in.
        """
        self._store = store
        self._base_url = base_url
        self._log_in = log_in
        self._adopt = adopt
        self._lock_timeout = lock_timeout
        self._files: dict[str, LoginFile] = {}
        self._threads: anyio.CapacityLimiter | None = None
        # Immutable, as threads read it.
        self._refused: tuple[Secret, ...] = ()
        self._last_login: tuple[Secret, float] | None = None

    def refuse(self, token: Secret) -> None:
        """Record a token that the service refused, so that it is not adopted from the file again."""
        if token not in self._refused:
            self._refused = (*self._refused[1 - _MAX_REFUSED :], token)

    async def __call__(self, email: str, password: Secret) -> Grant:
        file = self._files.get(email)
        if file is None:
            file = self._files[email] = self._store.file_for(self._base_url, email)
        login_or_lock = await self._login_or_lock(file)
        if isinstance(login_or_lock, CachedLogin):
            return self._adopted(login_or_lock, password)
        try:
            started = clock.now()
            grant = await self._log_in(email, password)
            await self._write(file, email, grant, started, locked=login_or_lock.is_held)
        finally:
            login_or_lock.release()
        return attrs.evolve(grant, obtained=started)

    async def _login_or_lock(self, file: LoginFile) -> CachedLogin | FileLock:
        """Return the login of another process, or the lock under which this process logs in."""
        began = anyio.current_time()
        # With jitter: the first process that stops waiting logs in for the others.
        ends_at = began + self._lock_timeout * random.uniform(_JITTER, 1.0)
        pause = _FIRST_PAUSE
        while True:
            no_lock: CachedLogin | FileLock | None = FileLock()
            found = await self._in_thread(partial(file.read_or_lock, self._is_acceptable), no_lock)
            if found is not None:
                return found
            if anyio.current_time() >= ends_at:
                _logger.warning(
                    "another process has locked the token file %s for %.0f s; this one logs in without waiting for it",
                    file.path,
                    anyio.current_time() - began,
                )
                return FileLock()
            await anyio.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(_MAX_PAUSE, 1.5 * pause)

    def _is_acceptable(self, login: CachedLogin) -> bool:
        return (
            (login.token, login.obtained.wall) != self._last_login
            and login.token not in self._refused
            and login.is_fresh()
        )

    def _adopted(self, login: CachedLogin, password: Secret) -> Grant:
        self._last_login = (login.token, login.obtained.wall)
        self._adopt(login, password)
        now, age = clock.now(), login.age() or 0.0
        obtained = attrs.evolve(now, loop=now.loop - age, boot=now.boot - age, wall=now.wall - age)
        return Grant(token=login.token, lifetime=login.lifetime, user=login.user, obtained=obtained, adopted=True)

    async def _write(
        self, file: LoginFile, account: str, grant: Grant, started: clock.Reading, *, locked: bool
    ) -> None:
        self._last_login = (grant.token, started.wall)
        user = grant.user
        if user is None:
            return

        def write() -> None:
            login = CachedLogin(
                base_url=self._base_url,
                account=account,
                token=grant.token,
                # A lifetime of 0 means that the service gave none.
                lifetime=None if grant.lifetime is None or grant.lifetime <= 0 else grant.lifetime,
                obtained=started,
                user=user,
            )
            file.write(login, locked=locked)

        await self._in_thread(write, None)

    async def _in_thread(self, work: Callable[[], T], default: T) -> T:
        """Return the result of blocking work, or a default if the disk does not answer in time."""
        if self._store.inline:
            return work()
        if self._threads is None:
            # A separate limiter: a program that keeps all threads of the loop busy must not block its login.
            self._threads = anyio.CapacityLimiter(1)
        with anyio.move_on_after(_DISK_TIMEOUT):
            return await anyio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=self._threads)
        _logger.warning("the disk of %r does not answer within 5 s; this process logs in for itself", self._store)
        return default
