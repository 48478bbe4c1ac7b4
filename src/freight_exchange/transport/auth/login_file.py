"""Token file on disk: owner, mode, lock and atomic replacement.

Every method blocks. A problem with the file causes one more login and a warning, but no call fails.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import re
import secrets
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

from freight_exchange.platform.file_lock import FileLock
from freight_exchange.transport.auth.cached_login import CachedLogin, InvalidLoginFileError

__all__ = ["LoginFile"]

_logger = logging.getLogger("freight_exchange.auth")

_MAX_SIZE: Final = 100_000
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_SAFE_FLAGS: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
# A named pipe in place of the file must not block.
_READ_FLAGS: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | _SAFE_FLAGS
_WRITE_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFE_FLAGS
_FOREIGN: Final = "belongs to another user: give each user a file of their own"
_NO_FILE: Final = "is not a file: give another path"
_LINK_ERRNOS: Final = {errno.ELOOP, errno.EMLINK}


class LoginFile:
    """Token file of one account, and its lock.

    With `base_url` and `account`, only their login is accepted; without them, any.
    """

    def __init__(self, path: Path, base_url: str | None = None, account: str | None = None) -> None:
        self.path: Final = path
        self._base_url = base_url
        self._account = account
        self._warned: set[str] = set()

    def read_or_lock(self, is_acceptable: Callable[[CachedLogin], bool]) -> CachedLogin | FileLock | None:
        """Return an acceptable login, or the lock for a new one, or `None` while another process logs in.

        If the file cannot be locked, the returned lock has no effect.
        """
        found = self._acceptable_login(is_acceptable)
        if found is not None:
            return found
        try:
            self._make_folder()
            lock = FileLock.acquire(self._sibling(".lock"), private=True)
        except OSError as error:
            self._warn(f"cannot be locked ({_reason(error)}): each process logs in for itself")
            return FileLock()
        if lock is None:
            return None
        # The last holder of the lock may have logged in meanwhile.
        found = self._acceptable_login(is_acceptable)
        if found is None:
            return lock
        lock.release()
        return found

    def read(self) -> CachedLogin | None:
        """Return the login in the file, or `None` if it cannot be used; a problem is logged once."""
        try:
            content = self._content()
            login = CachedLogin.from_bytes(content, base_url=self._base_url, account=self._account)
        except FileNotFoundError:
            return None
        except InvalidLoginFileError as unfit:
            self._warn(f"is not used: it {unfit}")
            return None
        except OSError as error:
            self._warn(f"is not used: it cannot be read ({_reason(error)})")
            return None
        self._warned.clear()
        return login

    def write(self, login: CachedLogin, *, locked: bool) -> None:
        """Write the login; `locked` means that no other process writes."""
        try:
            self._check_replaceable()
            self._make_folder()
            if locked:
                self._remove_drafts()
            self._replace(login.to_bytes())
        except InvalidLoginFileError as unfit:
            self._warn(f"is not written: it {unfit}")
        except OSError as error:
            self._warn(f"cannot be written ({_reason(error)}): each process logs in for itself")

    def _acceptable_login(self, is_acceptable: Callable[[CachedLogin], bool]) -> CachedLogin | None:
        found = self.read()
        return found if found is not None and is_acceptable(found) else None

    def _content(self) -> bytes:
        try:
            file = os.open(self.path, _READ_FLAGS)
        except OSError as error:
            if error.errno in _LINK_ERRNOS:
                raise InvalidLoginFileError("is a symbolic link: give the file's own path") from None
            raise
        try:
            # By the descriptor, so that the checked file is the one that is read.
            _check(os.fstat(file))
            return _read_all(file)
        finally:
            os.close(file)

    def _check_replaceable(self) -> None:
        """Refuse to replace a file of another user, a folder, or any other special file."""
        with contextlib.suppress(FileNotFoundError):
            found = self.path.lstat()
            if _is_foreign(found):
                raise InvalidLoginFileError(_FOREIGN)
            if not (stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode)):
                raise InvalidLoginFileError(_NO_FILE)

    def _make_folder(self) -> None:
        missing = []
        folder = self.path.parent
        while not folder.exists():
            missing.append(folder)
            folder = folder.parent
        for folder in reversed(missing):
            folder.mkdir(mode=0o700, exist_ok=True)

    def _replace(self, content: bytes) -> None:
        # Written to a temporary file and moved, so that no reader sees half a file. Its name is unpredictable.
        draft = self._sibling(f".{secrets.token_hex(8)}.tmp")
        file = os.open(draft, _WRITE_FLAGS, 0o600)
        try:
            with os.fdopen(file, "wb") as opened:
                opened.write(content)
                opened.flush()
                os.fsync(file)
            draft.replace(self.path)
        except BaseException:
            with contextlib.suppress(OSError):
                draft.unlink()
            raise

    def _remove_drafts(self) -> None:
        """Remove temporary files of processes that were killed during a write."""
        draft = re.compile(rf"{re.escape(self.path.name)}\.[0-9a-f]{{16}}\.tmp")
        for found in self.path.parent.iterdir():
            if draft.fullmatch(found.name):
                with contextlib.suppress(OSError):
                    found.unlink()

    def _sibling(self, ending: str) -> Path:
        return self.path.with_name(f"{self.path.name}{ending}")

    def _warn(self, problem: str) -> None:
        # Each problem once: a waiting process reads the file again and again.
        if problem not in self._warned:
            self._warned.add(problem)
            _logger.warning("the token file %s %s", self.path, problem)


def _check(found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise InvalidLoginFileError(_NO_FILE)
    if _is_foreign(found):
        raise InvalidLoginFileError(_FOREIGN)
    # On other systems the mode does not show who may read the file.
    if hasattr(os, "geteuid") and found.st_mode & _OTHERS:
        raise InvalidLoginFileError(
            f"is open to other users (mode {stat.S_IMODE(found.st_mode):04o}), who may have read its token: the next"
            " login replaces it; find what copies it or changes its mode"
        )


def _read_all(file: int) -> bytes:
    content = b""
    while piece := os.read(file, _MAX_SIZE):
        content += piece
        if len(content) > _MAX_SIZE:
            raise InvalidLoginFileError("is far too large: the next login replaces it")
    return content


def _is_foreign(found: os.stat_result) -> bool:
    return hasattr(os, "geteuid") and found.st_uid != os.geteuid()


def _reason(error: OSError) -> str:
    return error.strerror or type(error).__name__
