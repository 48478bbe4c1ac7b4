"""Token file: the login that the processes of one user share.

A problem with the file causes one more login and a warning, but no call fails.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import logging
import os
import random
import secrets
import stat
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import anyio
import anyio.to_thread
import attrs

from freight_exchange import wire
from freight_exchange.errors import ConfigurationError
from freight_exchange.platform import clock
from freight_exchange.platform.file_lock import FileLock
from freight_exchange.transport.redact import Secret
from freight_exchange.transport.token import Grant, leeway_of

if TYPE_CHECKING:
    from freight_exchange.transport.token import LoginCall

__all__ = ["CachedLogin", "SharedLogin", "TokenFile", "state_folder"]

T = TypeVar("T")

_logger = logging.getLogger("freight_exchange.auth")

_VERSION: Final = 3
_CLOCKS: Final = ("wall", "boot", "boot_id")
_MAX_SIZE: Final = 100_000
_MAX_CLOCK_SKEW: Final = 300.0
_MAX_REFUSED: Final = 16
_FIRST_PAUSE, _MAX_PAUSE = 0.05, 0.5
_DISK_TIMEOUT: Final = 5.0
"""Seconds that the disk may take; a disk that hangs must not block the login."""
_SAFE_FLAGS: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
# A named pipe in place of the file must not block.
_READ_FLAGS: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | _SAFE_FLAGS
_WRITE_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFE_FLAGS


class _UnusableError(Exception):
    """Unusable token file. The message has the reason and advice, and does not quote the file."""


@attrs.frozen(kw_only=True)
class CachedLogin:
    """Login that any process of the same user may use: `account` at `base_url`, sent at the time `obtained`."""

    base_url: str
    account: str
    token: Secret
    lifetime: float | None
    obtained: clock.Reading
    user: Mapping[str, object]

    def is_fresh(self) -> bool:
        """Return whether the login can be used without another one."""
        age = self.age()
        return not self.lifetime or (age is not None and age < self.lifetime - leeway_of(self.lifetime))

    def age(self) -> float | None:
        """Return the seconds since it was obtained, by the clock that shows most; `None` if no clock is valid."""
        by_wall = clock.wall_time() - self.obtained.wall
        by_boot = clock.boot_time() - self.obtained.boot
        if self.obtained.boot_id and by_boot >= 0 and self.obtained.boot_id == clock.boot_id():
            return max(by_wall, by_boot)
        return None if by_wall < -_MAX_CLOCK_SKEW else max(by_wall, 0.0)

    def to_bytes(self) -> bytes:
        """Return the content of a token file."""
        content = {name: getattr(self, name) for name in ("base_url", "account", "lifetime")}
        content |= {name: getattr(self.obtained, name) for name in _CLOCKS}
        # The user as text, since a reply may contain numbers that only this package reads exactly.
        user = wire.dump(self.user).decode()
        return json.dumps({"version": _VERSION, "token": self.token.reveal(), "user": user, **content}).encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> CachedLogin | None:
        """Return the login in a token file, or `None` if it has none."""
        # Any fault in the file has the same consequence, and an error would have the token in its frames.
        with contextlib.suppress(Exception):
            values: dict[str, Any] = json.loads(content)
            user = wire.parse(values["user"].encode())
            texts = [values[name] for name in ("base_url", "account", "boot_id", "token")]
            times = (values["lifetime"] or 0.0, values["wall"], values["boot"])
            if (
                values["version"] == _VERSION
                and all(type(text) is str for text in texts)
                and all(type(time) in (int, float) and 0 <= time < 1e12 for time in times)
                and wire.is_token(values["token"])
                and isinstance(user, dict)
            ):
                return cls(
                    base_url=values["base_url"],
                    account=values["account"],
                    token=Secret(values["token"]),
                    lifetime=values["lifetime"],
                    obtained=clock.Reading(**{name: values[name] for name in _CLOCKS}),
                    user=user,
                )
        return None


class TokenFile:
    """File in which the processes of one user share a login (service document, 4.1).

        FreightExchange(..., token_store=TokenFile("~/bots/token.json"))

    The first process that needs a token logs in. The others wait, and read the token from the file; so do later runs.
    The file contains the token and the user of the login's reply, never the password. Only its owner can read it.

    A file that is corrupt, open to other users, or of another user, account or service is not used, and a symbolic link
    is not followed: a warning gives the reason, the process logs in for itself, and no call fails. Keep the file on a
    local disk: file locks over a network are unreliable.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, *, inline: bool = False) -> None:
        """
        Args:
            path: Path of the file, for one account of one service; it is made if it is missing. With `None`, each
                account of each service has a file of its own in the user's state folder.
            inline: Block the loop instead of using a worker thread, for tests under virtual time.

        Raises:
            ConfigurationError: The path is not a valid path of a file.
        """
        self._path = None if path is None else _absolute(path)
        self.inline = inline
        self._warned: set[str] = set()
        if path is None:
            state_folder()

    def __repr__(self) -> str:
        return "TokenFile()" if self._path is None else f"TokenFile({str(self._path)!r})"

    def read(self) -> CachedLogin | None:
        """Return the login in the file, of any account and service; `None` without a usable one. It may block.

        Raises:
            ConfigurationError: The store has no path, but a file for each account.
        """
        return self._read(self._own_path())

    def forget(self) -> bool:
        """Remove the file with its login; return whether there was one. It may block.

        Raises:
            ConfigurationError: The store has no path, but a file for each account; or the file cannot be removed.
        """
        path = self._own_path()
        try:
            path.unlink()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise ConfigurationError(f"the token file {path} cannot be removed: {error.strerror}") from None
        return True

    def _own_path(self) -> Path:
        if self._path is None:
            raise ConfigurationError("there is a file for each account: give TokenFile the path of one")
        return self._path

    def _path_for(self, base_url: str, account: str) -> Path:
        if self._path is not None:
            return self._path
        key = hashlib.sha256(f"{base_url}\n{account}".encode(errors="replace")).hexdigest()[:16]
        return state_folder() / f"token-{key}.json"

    def _read(self, path: Path) -> CachedLogin | None:
        try:
            login = CachedLogin.from_bytes(_content(path))
            if login is None:
                raise _UnusableError("holds no login that can be read: the next login replaces it")
        except FileNotFoundError:
            return None
        except _UnusableError as unfit:
            self._warn(path, f"is not used: it {unfit}")
            return None
        except OSError as error:
            self._warn(path, f"is not used: it cannot be read ({error.strerror or error!r})")
            return None
        return login

    def _lock(self, path: Path) -> FileLock | None:
        """Lock the file: `None` while another process has it, and a lock without effect if it cannot be locked."""
        try:
            _make_folder(path.parent)
            return FileLock.acquire(path.with_name(f"{path.name}.lock"), private=True)
        except OSError as error:
            self._warn(path, f"cannot be locked ({error.strerror or error!r}): each process logs in for itself")
            return FileLock()

    def _write(self, path: Path, login: CachedLogin, *, is_locked: bool) -> None:
        """Replace the file, so that no reader sees half of it."""
        draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}.tmp")
        try:
            with contextlib.suppress(FileNotFoundError):
                found = path.lstat()
                if _is_foreign(found):
                    raise _UnusableError("belongs to another user: give each user a file of their own")
                if not (stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode)):
                    raise _UnusableError("is not a file: give another path")
            _make_folder(path.parent)
            if is_locked:
                # Drafts of processes that were killed during a write.
                for old in path.parent.glob(f"{path.name}.????????????????.tmp"):
                    old.unlink(missing_ok=True)
            with os.fdopen(os.open(draft, _WRITE_FLAGS, 0o600), "wb") as file:
                file.write(login.to_bytes())
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        except _UnusableError as unfit:
            self._warn(path, f"is not written: it {unfit}")
        except OSError as error:
            self._warn(path, f"cannot be written ({error.strerror or error!r}): each process logs in for itself")
        finally:
            with contextlib.suppress(OSError):
                draft.unlink()

    def _warn(self, path: Path, problem: str) -> None:
        # Each problem once: a waiting process reads the file again and again.
        if problem not in self._warned:
            self._warned.add(problem)
            _logger.warning("the token file %s %s", path, problem)


class SharedLogin:
    """Login that reads a token file first, and writes its own token there, one process at a time.

    The others poll until the token is in the file or the lock is free; after `lock_timeout` they do not wait any more.
    """

    def __init__(
        self,
        file: TokenFile,
        base_url: str,
        log_in: LoginCall,
        adopt: Callable[[Grant, Secret], None],
        lock_timeout: float,
    ) -> None:
        self._file = file
        self._base_url = base_url
        self._log_in = log_in
        self._adopt = adopt
        self._lock_timeout = lock_timeout
        self._refused: list[Secret] = []
        self._last: tuple[Secret, float] | None = None

    def refuse(self, token: Secret) -> None:
        """Adopt this token no more: the service refused it."""
        self._refused = [*self._refused[1 - _MAX_REFUSED :], token]

    async def __call__(self, email: str, password: Secret) -> Grant:
        path = self._file._path_for(self._base_url, email)
        began = anyio.current_time()
        # With jitter: the first process that stops waiting logs in for the others.
        ends_at = began + self._lock_timeout * random.uniform(0.8, 1.0)
        pause = _FIRST_PAUSE
        no_lock: CachedLogin | FileLock | None = FileLock()
        while (found := await self._in_thread(partial(self._found, path, email), no_lock)) is None:
            if anyio.current_time() >= ends_at:
                _logger.warning(
                    "another process has locked the token file %s for %.0f s; this one logs in without waiting for it",
                    path,
                    anyio.current_time() - began,
                )
                found = FileLock()
                break
            await anyio.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(_MAX_PAUSE, 1.5 * pause)
        if isinstance(found, CachedLogin):
            return self._adopted(found, password)
        try:
            return await self._logged_in(path, email, password, is_locked=found.is_held)
        finally:
            found.release()

    def _found(self, path: Path, email: str) -> CachedLogin | FileLock | None:
        """Return an acceptable login, or the lock for a new one, or `None` while another process logs in."""
        if (login := self._acceptable(path, email)) is not None:
            return login
        lock = self._file._lock(path)
        # The last holder of the lock may have logged in meanwhile.
        if lock is not None and (login := self._acceptable(path, email)) is not None:
            lock.release()
            return login
        return lock

    def _acceptable(self, path: Path, email: str) -> CachedLogin | None:
        login = self._file._read(path)
        if login is None:
            return None
        if (login.base_url, login.account) != (self._base_url, email):
            self._file._warn(path, "is not used: it holds the login of another account or service")
            return None
        self._file._warned.clear()
        is_known = login.token in self._refused or (login.token, login.obtained.wall) == self._last
        return login if not is_known and login.is_fresh() else None

    def _adopted(self, login: CachedLogin, password: Secret) -> Grant:
        self._last = (login.token, login.obtained.wall)
        now, age = clock.now(), login.age() or 0.0
        obtained = attrs.evolve(now, loop=now.loop - age, boot=now.boot - age, wall=now.wall - age)
        grant = Grant(token=login.token, lifetime=login.lifetime, user=login.user, obtained=obtained, is_adopted=True)
        self._adopt(grant, password)
        return grant

    async def _logged_in(self, path: Path, email: str, password: Secret, *, is_locked: bool) -> Grant:
        started = clock.now()
        grant = await self._log_in(email, password)
        self._last = (grant.token, started.wall)
        login = CachedLogin(
            base_url=self._base_url,
            account=email,
            token=grant.token,
            lifetime=grant.lifetime or None,
            obtained=started,
            user=grant.user,
        )
        await self._in_thread(partial(self._file._write, path, login, is_locked=is_locked), None)
        return grant

    async def _in_thread(self, work: Callable[[], T], default: T) -> T:
        """Return the result of blocking work, or a default if the disk does not answer in time."""
        if self._file.inline:
            return work()
        with anyio.move_on_after(_DISK_TIMEOUT):
            # A limiter of its own: a program that keeps all threads of the loop busy must not block its login.
            return await anyio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1))
        _logger.warning("the disk of %r does not answer within 5 s; this process logs in for itself", self._file)
        return default


def _content(path: Path) -> bytes:
    """Read a file that is regular, small, and its owner's alone."""
    try:
        file = os.open(path, _READ_FLAGS)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK):
            raise _UnusableError("is a symbolic link: give the file's own path") from None
        raise
    with os.fdopen(file, "rb") as opened:
        # By the descriptor, so that the checked file is the one that is read.
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            raise _UnusableError("is not a file: give another path")
        if _is_foreign(found):
            raise _UnusableError("belongs to another user: give each user a file of their own")
        # On other systems the mode does not show who may read the file.
        if hasattr(os, "geteuid") and found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise _UnusableError(
                f"is open to other users (mode {stat.S_IMODE(found.st_mode):04o}), who may have read its token: the"
                " next login replaces it; find what copies it or changes its mode"
            )
        content = opened.read(_MAX_SIZE + 1)
    if len(content) > _MAX_SIZE:
        raise _UnusableError("is far too large: the next login replaces it")
    return content


def _make_folder(folder: Path) -> None:
    for missing in reversed([one for one in (folder, *folder.parents) if not one.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)


def _is_foreign(found: os.stat_result) -> bool:
    return hasattr(os, "geteuid") and found.st_uid != os.geteuid()


def _absolute(value: str | os.PathLike[str]) -> Path:
    """Return the absolute path, so that a later change of directory does not change the file."""
    path = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(path, str) or not path or "\0" in path:
        raise ConfigurationError(f"TokenFile needs the path of a file, not {value!r}")
    try:
        os.fsencode(path)
        absolute = Path(path).expanduser().absolute()
    except (RuntimeError, UnicodeEncodeError) as error:
        raise ConfigurationError(f"TokenFile needs the path of a file, not {value!r}: {error}") from None
    if not absolute.name or path.endswith(("/", os.sep)) or absolute.name == "..":
        raise ConfigurationError(f"TokenFile needs the path of a file, and {value!r} is a directory")
    return absolute


def state_folder() -> Path:
    """Return the user's folder for the state of this package."""
    # Imported here: most programs name a path, or share nothing.
    import platformdirs

    with contextlib.suppress(RuntimeError):
        return platformdirs.user_state_path("freight-exchange", appauthor=False)
    raise ConfigurationError("there is no home directory for the token file: give TokenFile a path")
