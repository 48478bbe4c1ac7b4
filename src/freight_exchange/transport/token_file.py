"""Token file: the login that the processes of one user share.

A problem with the file causes one more login and a warning, but no call fails.
"""

from __future__ import annotations

import contextlib
import logging
import os
import random
import stat
import tempfile
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import anyio
import anyio.to_thread
import attrs

from freight_exchange import wire
from freight_exchange.base import Serializable
from freight_exchange.errors import ConfigurationError
from freight_exchange.models import User
from freight_exchange.platform import clock
from freight_exchange.platform.file_lock import FileLock
from freight_exchange.serialization import from_json, to_json
from freight_exchange.transport.redact import Secret
from freight_exchange.transport.token import Grant, leeway_of

if TYPE_CHECKING:
    from freight_exchange.transport.token import LoginCall

T = TypeVar("T")

_logger = logging.getLogger("freight_exchange.auth")

_MAX_SIZE: Final = 100_000
_FIRST_PAUSE, _MAX_PAUSE = 0.05, 0.5
_WRITE_TIMEOUT: Final = 5.0
# A named pipe in place of the file must not block.
_READ_FLAGS: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class CachedLogin(Serializable):
    """Login of `account` at `base_url`, sent at the time of these clocks, that any process of the user may use."""

    base_url: str
    account: str
    token: str = attrs.field(repr=False)
    lifetime: float | None
    user: User | None
    boot_id: str
    uptime: float
    wall: float

    def age(self) -> float:
        """Return the seconds since it was obtained, at most; infinity if no clock is valid."""
        then = clock.Reading(run="file", boot_id=self.boot_id, boot=self.uptime, wall=self.wall)
        now = clock.Reading(boot_id=clock.boot_id(), boot=clock.boot_time(), wall=clock.wall_time())
        return max(0.0, clock.max_elapsed(then, now))

    def is_fresh(self) -> bool:
        return not self.lifetime or self.age() < self.lifetime - leeway_of(self.lifetime)


class TokenFile:
    """File in which the processes of one user share a login (service document, 4.1).

        FreightExchange(..., token_store=TokenFile("~/bots/token.json"))

    The first process that needs a token logs in. The others wait, and read the token from the file; so do later runs.
    The file contains the token and the user of the login's reply, never the password. Only its owner can read it.

    A file that is corrupt, open to other users, a link, or of another user, account or service is not used: a warning
    gives the reason, the process logs in for itself, and no call fails. Keep the file on a local disk: file locks over
    a network are unreliable.
    """

    def __init__(self, path: str | os.PathLike[str], *, inline: bool = False) -> None:
        """
        Args:
            path: Path of the file, for one account of one service; it is made if it is missing.
            inline: Block the loop instead of using a worker thread, for tests under virtual time.

        Raises:
            ConfigurationError: The path is not a valid path of a file.
        """
        self.path = _absolute(path)
        self.inline = inline
        self._warned: set[str] = set()

    def __repr__(self) -> str:
        return f"TokenFile({str(self.path)!r})"

    def read(self) -> CachedLogin | None:
        """Return the login in the file, of any account and service; `None` without a usable one. It may block."""
        try:
            with os.fdopen(os.open(self.path, _READ_FLAGS), "rb") as opened:
                # By the descriptor, so that the checked file is the one that is read.
                found = os.fstat(opened.fileno())
                is_private = not hasattr(os, "geteuid") or not found.st_mode & 0o077
                if not _is_own(found) or not is_private or found.st_size > _MAX_SIZE:
                    raise PermissionError("owner, mode or size")
                login = from_json(opened.read(), CachedLogin)
            if wire.is_token(login.token):
                return login
        except FileNotFoundError:
            return None
        except OSError as error:
            self._warn(error)
            return None
        except Exception:  # noqa: BLE001  # any other fault of the content, whose error would show the token
            pass
        self._warn("its content cannot be read")
        return None

    def forget(self) -> bool:
        """Remove the file with its login; return whether there was one. It may block.

        Raises:
            ConfigurationError: It cannot be removed.
        """
        try:
            self.path.unlink()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise ConfigurationError(f"the token file {self.path} cannot be removed: {error.strerror}") from None
        return True

    def find(self, base_url: str, account: str) -> CachedLogin | None:
        """Return the login of the account, if it can be used without another one."""
        login = self.read()
        if login is not None and (login.base_url, login.account) != (base_url, account):
            self._warn("it has the login of another one")
            return None
        return login if login is not None and login.is_fresh() else None

    def lock(self) -> FileLock | None:
        """Lock the file: `None` while another process has it."""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            return FileLock.acquire(self.path.with_name(f"{self.path.name}.lock"))
        except OSError as error:
            self._warn(error)
            return FileLock()

    def write(self, login: CachedLogin) -> None:
        """Replace the file, so that no reader sees half of it."""
        try:
            if os.path.lexists(self.path) and not _is_own(self.path.lstat()):
                raise PermissionError("owner or kind")
            # Only its owner can read the draft.
            file, draft = tempfile.mkstemp(dir=self.path.parent, prefix=f"{self.path.name}.", suffix=".tmp")
            with contextlib.ExitStack() as undo:
                undo.callback(Path(draft).unlink, missing_ok=True)
                with os.fdopen(file, "w") as opened:
                    opened.write(to_json(login))
                    opened.flush()
                    os.fsync(file)
                Path(draft).replace(self.path)
        except OSError as error:
            self._warn(error)

    def _warn(self, problem: OSError | str) -> None:
        reason = problem if isinstance(problem, str) else problem.strerror or str(problem)
        # Each problem once: a waiting process reads the file again and again.
        if reason not in self._warned:
            self._warned.add(reason)
            _logger.warning(
                "the token file %s is not used: it must be a regular file of this user, which no other user can open,"
                " no link, and for one account of one service (%s); each process logs in for itself",
                self.path,
                reason,
            )


@attrs.define(eq=False, repr=False)
class SharedLogin:
    """Login that reads a token file first, and writes its own token there, one process at a time.

    The others poll until the token is in the file or the lock is free; after `lock_timeout` they do not wait any more.
    """

    _file: TokenFile
    _base_url: str
    _log_in: LoginCall
    _adopt: Callable[[Grant, Secret], None]
    _lock_timeout: float
    _refused: deque[Secret] = attrs.field(init=False, factory=lambda: deque(maxlen=16))

    def refuse(self, token: Secret) -> None:
        """Adopt this token no more: the service refused it."""
        self._refused.append(token)

    async def __call__(self, email: str, password: Secret) -> Grant:
        found: CachedLogin | FileLock | None = None
        pause = _FIRST_PAUSE
        # With jitter: the first process that stops waiting logs in for the others.
        with anyio.move_on_after(self._lock_timeout * random.uniform(0.8, 1.0)):
            while (found := await self._in_thread(partial(self._login_or_lock, email))) is None:
                await anyio.sleep(pause * random.uniform(0.5, 1.0))
                pause = min(_MAX_PAUSE, 1.5 * pause)
        if isinstance(found, CachedLogin):
            # A file without an end of its token may be of any age.
            now, age = clock.now(), min(found.age(), 1e9)
            obtained = attrs.evolve(now, loop=now.loop - age, boot=now.boot - age, wall=now.wall - age)
            token = Secret(found.token)
            grant = Grant(token=token, lifetime=found.lifetime, user=found.user, obtained=obtained, is_adopted=True)
            self._adopt(grant, password)
            return grant
        if found is None:
            _logger.warning("the %r is not free for long; this process logs in without waiting for it", self._file)
        try:
            started = clock.now()
            grant = await self._log_in(email, password)
            login = CachedLogin(
                base_url=self._base_url,
                account=email,
                token=grant.token.reveal(),
                lifetime=grant.lifetime,
                user=grant.user,
                boot_id=started.boot_id,
                uptime=started.boot,
                wall=started.wall,
            )
            with anyio.move_on_after(_WRITE_TIMEOUT):
                await self._in_thread(partial(self._file.write, login))
            return grant
        finally:
            if found is not None:
                found.release()

    def _login_or_lock(self, email: str) -> CachedLogin | FileLock | None:
        """Return an acceptable login, or the lock for a new one, or `None` while another process logs in."""
        lock: FileLock | None = None
        for _ in range(2):
            login = self._file.find(self._base_url, email)
            if login is not None and Secret(login.token) not in self._refused:
                if lock is not None:
                    lock.release()
                return login
            # The last holder of the lock may have logged in meanwhile.
            lock = lock or self._file.lock()
        return lock

    async def _in_thread(self, work: Callable[[], T]) -> T:
        if self._file.inline:
            return work()
        # A limiter of its own: a program that keeps all threads of the loop busy must not block its login.
        return await anyio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1))


def _is_own(found: os.stat_result) -> bool:
    return stat.S_ISREG(found.st_mode) and (not hasattr(os, "geteuid") or found.st_uid == os.geteuid())


def _absolute(value: str | os.PathLike[str]) -> Path:
    """Return the absolute path, so that a later change of directory does not change the file."""
    with contextlib.suppress(TypeError, ValueError, RuntimeError):
        path = Path(value).expanduser().absolute()
        is_folder = os.fspath(value).endswith(("/", os.sep)) or path.name in ("", "..")
        if os.fspath(value) and not is_folder and b"\0" not in os.fsencode(path):
            return path
    raise ConfigurationError(f"TokenFile needs the path of a file, not {value!r}")
