"""Credentials of a command: from options, environment and saved login; `login` asks for the rest."""

from __future__ import annotations

import logging
import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from freight_exchange.cli.terminal import is_interactive, prompt, warn
from freight_exchange.config import base_url
from freight_exchange.errors import AuthenticationError, ConfigurationError
from freight_exchange.options import EMAIL_VARIABLE, PASSWORD_VARIABLE, URL_VARIABLE
from freight_exchange.platform.text import clean
from freight_exchange.transport.token_file import TokenFile, state_folder

if TYPE_CHECKING:
    from freight_exchange.cli.options import GlobalOptions
    from freight_exchange.transport.token_file import CachedLogin

__all__ = ["Credentials", "conflicting_account", "resolve_credentials", "token_file"]

_REPORTED_ELSEWHERE: Final = ("login failed", "a write whose caller was cancelled")


@attrs.frozen(kw_only=True)
class Credentials:
    """Service and account of a command, and the way it authenticates.

    Attributes:
        url: The API root.
        email: The account.
        password: The password; `None` if the cached login is enough.
        store: The token file, if the login is kept.
        cached: The login in the file before the command, of any account.
    """

    url: str
    email: str
    password: str | None = attrs.field(repr=False)
    store: TokenFile | None
    cached: CachedLogin | None = None


def token_file(options: GlobalOptions) -> TokenFile:
    """Return the file with the saved login."""
    return TokenFile(_token_path(options))


def resolve_credentials(options: GlobalOptions, *, new_login: bool = False) -> Credentials:
    """Take the credentials from options, environment and cached login.

    Args:
        options: The global options.
        new_login: Whether to ask for missing values and log in again. The file keeps the old login until the new one
            succeeds.

    Raises:
        ConfigurationError: A value is missing, and `new_login` is false or there is no terminal to ask on.
        AuthenticationError: The saved login has expired.
    """
    _log_warnings()
    file = token_file(options)
    stored = cached = file.read()
    url = options.url or (None if cached is None else cached.base_url)
    if not url and not new_login:
        raise _not_logged_in(options, stored)
    url = url or _prompt("URL of the service", f"no URL: give --url or set {URL_VARIABLE}")
    if new_login:
        _check_url(url)
    if cached is not None and cached.base_url != url.strip().rstrip("/"):
        cached = None
    email = options.email or (None if cached is None else cached.account)
    if not email and not new_login:
        raise _not_logged_in(options, stored)
    email = email or _prompt("Email", f"no account: give --email or set {EMAIL_VARIABLE}")
    if cached is not None and cached.account != email:
        cached = None
    password = _environment_password(email)
    if password is None and new_login:
        password = _prompt(f"Password of {email}", f"no password: set {PASSWORD_VARIABLE}", hidden=True)
    if password is None and (cached is None or not cached.is_fresh()):
        raise _not_logged_in(options, stored, is_expired=cached is not None)
    store: TokenFile | None = None
    if new_login:
        store = _WriteOnlyTokenFile(_token_path(options))
    elif cached is not None or options.token_file is not None:
        store = file
    return Credentials(url=url, email=email, password=password, store=store, cached=stored)


def _token_path(options: GlobalOptions) -> str | Path:
    return options.token_file or state_folder() / "login.json"


class _WriteOnlyTokenFile(TokenFile):
    """Token file for a new login. The old login in it is not used, and stays until the new one replaces it."""

    def _read(self, path: Path) -> CachedLogin | None:
        return None


def _environment_password(email: str) -> str | None:
    """Return the password in the environment.

    If it belongs to another account and there is a terminal, return `None`, so that the user is asked: a wrong password
    may lock the account.
    """
    if conflicting_account(email) is not None and is_interactive():
        return None
    return os.environ.get(PASSWORD_VARIABLE) or None


def conflicting_account(email: str) -> str | None:
    """Return the account in the environment if it differs from this one."""
    account = os.environ.get(EMAIL_VARIABLE)
    return account if account and account != email else None


def _not_logged_in(
    options: GlobalOptions, stored: CachedLogin | None, *, is_expired: bool = False
) -> ConfigurationError | AuthenticationError:
    """Return the error of a command without a login; it names the command that logs in."""
    command, account = "freight-exchange", ""
    if stored is not None and options.url and options.url.strip().rstrip("/") != stored.base_url:
        command += f" --url {options.url}"
    if stored is not None and options.email and options.email != stored.account:
        command += f" --email {options.email}"
        account = f" as {options.email}"
    error: ConfigurationError | AuthenticationError
    if is_expired:
        error = AuthenticationError(f"the saved login has expired: run `{command} login`")
    else:
        error = ConfigurationError(f"not logged in{account}: run `{command} login`")
    error.add_note(_variables_note(options))
    return error


def _variables_note(options: GlobalOptions) -> str:
    """Return a note with the environment variables of a login. If some of them are set, it names the others."""
    values = {
        URL_VARIABLE: options.url,
        EMAIL_VARIABLE: options.email,
        PASSWORD_VARIABLE: os.environ.get(PASSWORD_VARIABLE),
    }
    missing = [variable for variable, value in values.items() if not value]
    if 0 < len(missing) < len(values):
        return f"Or set the missing {' and '.join(missing)} in the environment."
    return f"In a program, set {URL_VARIABLE}, {EMAIL_VARIABLE} and {PASSWORD_VARIABLE} instead."


def _check_url(url: str) -> None:
    """Reject a wrong URL before the account and the password are asked for."""
    with warnings.catch_warnings():
        # The client gives the same warnings.
        warnings.simplefilter("ignore")
        base_url(url)


def _prompt(text: str, error_message: str, *, hidden: bool = False) -> str:
    if not is_interactive():
        raise ConfigurationError(f"{error_message}; there is no terminal to ask on")
    return prompt(text, hidden=hidden)


def _log_warnings() -> None:
    """Print the SDK's log warnings to standard error, unless `-v` already logs them."""
    logger = logging.getLogger("freight_exchange")
    if all(isinstance(handler, logging.NullHandler) for handler in logger.handlers):
        logger.addHandler(_WarningHandler(logging.WARNING))


class _WarningHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if not record.msg.startswith(_REPORTED_ELSEWHERE):
            warn(f"Warning: {clean(record.getMessage())}")
