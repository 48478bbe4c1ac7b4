"""Where processes of one user share a login."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from freight_exchange.errors import ConfigurationError
from freight_exchange.transport.auth.login_file import LoginFile

if TYPE_CHECKING:
    from freight_exchange.transport.auth.cached_login import CachedLogin

__all__ = ["TokenFile", "state_folder"]

_HOME = "there is no home directory for the token file: give TokenFile a path"


class TokenFile:
    """A file in which the processes of one user share a login (service document, 4.1).

        FreightExchange(..., token_store=TokenFile("~/bots/token.json"))

    Whichever process needs a token first logs in, the others wait for it and take it from the file; so does the next
    run. It holds the token, and the user of the login's reply, and nobody but its owner can read it (mode 0600; a
    directory that is missing is made with 0700). Never the password.

    A file that is corrupt, open to other users, another user's, or of another account or service is not used, and a
    warning says why; so is one that cannot be written. Then the process logs in for itself: no call fails for it.
    A symbolic link is not followed: the next login puts a file in its place.

    The file belongs on a disk of this machine: over a network, locks are not to be relied on.
    """

    __slots__ = ("_path", "inline")

    def __init__(self, path: str | os.PathLike[str] | None = None, *, inline: bool = False) -> None:
        """
        Args:
            path: The file, which serves one account of one service; made if there is none. `None`: one for each account
                and service, in the user's own folder for such files.
            inline: Use it in the loop itself instead of in a worker thread, for tests under virtual time.

        Raises:
            ConfigurationError: That is no path.
        """
        self._path = None if path is None else _absolute(path)
        self.inline = inline
        if path is None:
            state_folder()

    def __repr__(self) -> str:
        return "TokenFile()" if self._path is None else f"TokenFile({str(self._path)!r})"

    def of(self, base_url: str, account: str) -> LoginFile:
        """The file for this account of this service."""
        path = self._path
        if path is None:
            key = hashlib.sha256(f"{base_url}\n{account}".encode(errors="replace")).hexdigest()[:16]
            path = state_folder() / f"token-{key}.json"
        return LoginFile(path, base_url, account)

    def look(self) -> CachedLogin | None:
        """The login that the file holds, whichever account and service it is of; `None` without one that can be used.

        It may block, and leaves the file as it is. `base_url`, `account` and `fresh()` of what it gives say what is
        there.

        Raises:
            ConfigurationError: There is a file for each account, and not one path.
        """
        return self._file().read()

    def forget(self) -> bool:
        """Remove the file, and with it the login; whether there was one. It may block.

        Raises:
            ConfigurationError: There is a file for each account, and not one path; or it cannot be removed.
        """
        path = self._file().path
        try:
            path.unlink()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise ConfigurationError(f"the token file {path} cannot be removed: {error.strerror}") from None
        return True

    def _file(self) -> LoginFile:
        if self._path is None:
            raise ConfigurationError("there is a file for each account: give TokenFile the path of one")
        return LoginFile(self._path)


def _absolute(given: str | os.PathLike[str]) -> Path:
    """The path as it is now: a change of directory must not make it another file."""
    path = os.fspath(given) if isinstance(given, str | os.PathLike) else None
    if not isinstance(path, str) or not path or "\0" in path:
        raise ConfigurationError(f"TokenFile needs the path of a file, not {given!r}")
    try:
        os.fsencode(path)
        absolute = Path(path).expanduser().absolute()
    except (RuntimeError, UnicodeEncodeError) as error:
        raise ConfigurationError(f"TokenFile needs the path of a file, not {given!r}: {error}") from None
    if not absolute.name or path.endswith(("/", os.sep)) or absolute.name == "..":
        raise ConfigurationError(f"TokenFile needs the path of a file, and {given!r} is a directory")
    return absolute


def state_folder() -> Path:
    """Return the user's folder for the state of this package."""
    # Imported here: most programs name a path, or share nothing.
    import platformdirs

    try:
        folder = platformdirs.user_state_path("freight-exchange", appauthor=False)
    except RuntimeError:
        raise ConfigurationError(_HOME) from None
    return folder
