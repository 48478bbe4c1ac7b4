"""The file that processes share a login in: its owner, its mode, its atomic replacement. It blocks, and never fails.

Whatever is wrong with the file costs a login more and a warning: nobody's call ends because of it.
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
from freight_exchange.transport.auth.cached_login import CachedLogin, UnfitError

__all__ = ["LoginFile"]

_logger = logging.getLogger("freight_exchange.auth")

_LARGEST: Final = 100_000
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_OURS: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
# A pipe that somebody put there is not waited for.
_READING: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | _OURS
_WRITING: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _OURS
_FOREIGN: Final = "belongs to another user: give each user a file of their own"
_NO_FILE: Final = "is no file: give another path"
_LINK: Final = {errno.ELOOP, errno.EMLINK}


class LoginFile:
    """One account's file, and the lock beside it. Every method may block, and is called in a worker thread.

    `base_url` and `account` say whose login it must hold; whoever only looks may leave them open.
    """

    def __init__(self, path: Path, base_url: str | None = None, account: str | None = None) -> None:
        self.path: Final = path
        self._base_url = base_url
        self._account = account
        self._said: set[str] = set()

    def look(self, wanted: Callable[[CachedLogin], bool]) -> CachedLogin | FileLock | None:
        """A login that is wanted; or else the lock, for whoever logs in now; `None` while another does.

        Where there can be no lock, it is one that holds nothing.
        """
        found = self._wanted(wanted)
        if found is not None:
            return found
        try:
            self._make_folder()
            lock = FileLock.acquire(self._beside(".lock"), private=True)
        except OSError as error:
            self._warn(f"cannot be locked ({_reason(error)}): each process logs in for itself")
            return FileLock()
        if lock is None:
            return None
        # Its holder may have logged in and gone since.
        found = self._wanted(wanted)
        if found is None:
            return lock
        lock.release()
        return found

    def read(self) -> CachedLogin | None:
        """The login that is kept, if there is one that can be used; what is wrong with it is logged once."""
        try:
            content = self._content()
            kept = CachedLogin.read(content, base_url=self._base_url, account=self._account)
        except FileNotFoundError:
            return None
        except UnfitError as unfit:
            self._warn(f"is not used: it {unfit}")
            return None
        except OSError as error:
            self._warn(f"is not used: it cannot be read ({_reason(error)})")
            return None
        self._said.clear()
        return kept

    def write(self, kept: CachedLogin, *, alone: bool) -> None:
        """Keep the login for all; `alone` says that the lock is held, and nobody else writes."""
        try:
            self._check_place()
            self._make_folder()
            if alone:
                self._tidy()
            self._replace(kept.text())
        except UnfitError as unfit:
            self._warn(f"is not written: it {unfit}")
        except OSError as error:
            self._warn(f"cannot be written ({_reason(error)}): each process logs in for itself")

    def _wanted(self, wanted: Callable[[CachedLogin], bool]) -> CachedLogin | None:
        found = self.read()
        return found if found is not None and wanted(found) else None

    def _content(self) -> bytes:
        try:
            file = os.open(self.path, _READING)
        except OSError as error:
            if error.errno in _LINK:
                raise UnfitError("is a symbolic link: give the file's own path") from None
            raise
        try:
            # Of the descriptor: what is looked at is what is read.
            _check(os.fstat(file))
            return _all_of(file)
        finally:
            os.close(file)

    def _check_place(self) -> None:
        """Refuse to replace what is not this user's to replace, or no file."""
        with contextlib.suppress(FileNotFoundError):
            found = self.path.lstat()
            if _is_foreign(found):
                raise UnfitError(_FOREIGN)
            if not (stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode)):
                raise UnfitError(_NO_FILE)

    def _make_folder(self) -> None:
        missing = []
        folder = self.path.parent
        while not folder.exists():
            missing.append(folder)
            folder = folder.parent
        for folder in reversed(missing):
            folder.mkdir(mode=0o700, exist_ok=True)

    def _replace(self, content: bytes) -> None:
        # Beside it and under a name that nobody can foresee; nobody ever sees the file half written.
        draft = self._beside(f".{secrets.token_hex(8)}.tmp")
        file = os.open(draft, _WRITING, 0o600)
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

    def _tidy(self) -> None:
        """Remove the drafts of those who were killed while they wrote."""
        draft = re.compile(rf"{re.escape(self.path.name)}\.[0-9a-f]{{16}}\.tmp")
        for found in self.path.parent.iterdir():
            if draft.fullmatch(found.name):
                with contextlib.suppress(OSError):
                    found.unlink()

    def _beside(self, ending: str) -> Path:
        return self.path.with_name(f"{self.path.name}{ending}")

    def _warn(self, problem: str) -> None:
        # Whoever waits looks again and again.
        if problem not in self._said:
            self._said.add(problem)
            _logger.warning("the token file %s %s", self.path, problem)


def _check(found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise UnfitError(_NO_FILE)
    if _is_foreign(found):
        raise UnfitError(_FOREIGN)
    # Elsewhere the mode says nothing of who may read it.
    if hasattr(os, "geteuid") and found.st_mode & _OTHERS:
        raise UnfitError(
            f"is open to other users (mode {stat.S_IMODE(found.st_mode):04o}), who may have read its token: the next"
            " login replaces it; find what copies it or changes its mode"
        )


def _all_of(file: int) -> bytes:
    content = b""
    while piece := os.read(file, _LARGEST):
        content += piece
        if len(content) > _LARGEST:
            raise UnfitError("is far too large: the next login replaces it")
    return content


def _is_foreign(found: os.stat_result) -> bool:
    return hasattr(os, "geteuid") and found.st_uid != os.geteuid()


def _reason(error: OSError) -> str:
    return error.strerror or type(error).__name__
