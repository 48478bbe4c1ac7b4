"""Token store: the file in which processes of one user share a login."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from freight_exchange.errors import ConfigurationError
from freight_exchange.transport.auth.cached_login import CachedLogin
from freight_exchange.transport.auth.login_file import LoginFile

__all__ = ["TokenFile", "state_folder"]

_NO_HOME = "there is no home directory for the token file: give TokenFile a path"


class TokenFile:
    """File in which the processes of one user share a login (service document, 4.1).

        FreightExchange(..., token_store=TokenFile("~/bots/token.json"))

    The first process that needs a token logs in. The others wait, and read the token from the file; so do later runs.
    The file contains the token and the user of the login's reply, never the password. Only its owner can read it (mode
    0600; a missing directory is made with 0700).

    A file is not used if it is corrupt, if other users can read it, or if it belongs to another user, account or
    service. The same applies if it cannot be written. In these cases a warning gives the reason, the process logs in
    for itself, and no call fails. A symbolic link is not followed: the next login replaces it with a file.

    Keep the file on a local disk: file locks over a network are unreliable.
    """

    __slots__ = ("_path", "inline")

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
        if path is None:
            state_folder()

    def __repr__(self) -> str:
        return "TokenFile()" if self._path is None else f"TokenFile({str(self._path)!r})"

    def file_for(self, base_url: str, account: str) -> LoginFile:
        """Return the file for an account of a service."""
        path = self._path
        if path is None:
            key = hashlib.sha256(f"{base_url}\n{account}".encode(errors="replace")).hexdigest()[:16]
            path = state_folder() / f"token-{key}.json"
        return LoginFile(path, base_url, account)

    def read(self) -> CachedLogin | None:
        """Return the login in the file, of any account and service; `None` if there is no usable one.

        The call may block. `base_url`, `account` and `is_fresh()` describe the login.

        Raises:
            ConfigurationError: The store has no path, but a file for each account.
        """
        return self._file().read()

    def forget(self) -> bool:
        """Remove the file with its login; return whether there was one. The call may block.

        Raises:
            ConfigurationError: The store has no path, but a file for each account; or the file cannot be removed.
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

    try:
        folder = platformdirs.user_state_path("freight-exchange", appauthor=False)
    except RuntimeError:
        raise ConfigurationError(_NO_HOME) from None
    return folder
