"""Connection of a command to the service: credentials, client, and the report of interrupted writes."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import ssl
import warnings
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import urlsplit

import attrs
import click

import freight_exchange
from freight_exchange.cli.exit_status import InterruptedWriteError, OutputError, is_output_full
from freight_exchange.cli.messages import translate_warning
from freight_exchange.cli.runner import run
from freight_exchange.cli.terminal import is_interactive, warn
from freight_exchange.errors import AuthenticationError, ConfigurationError, FreightExchangeError, TransportError
from freight_exchange.hooks import Attempt
from freight_exchange.platform.text import clean
from freight_exchange.settings import EMAIL_VARIABLE, PASSWORD_VARIABLE, URL_VARIABLE
from freight_exchange.transport.auth.login_file import LoginFile
from freight_exchange.transport.auth.token_store import TokenFile, state_folder
from freight_exchange.transport.message import Kind

if TYPE_CHECKING:
    from freight_exchange import FreightExchange
    from freight_exchange.cli.options import GlobalOptions
    from freight_exchange.hooks import Event
    from freight_exchange.transport.auth.cached_login import CachedLogin
    from freight_exchange.transport.message import Next, Request, Response

__all__ = ["Credentials", "conflicting_account", "resolve_credentials", "run_with_client", "token_file"]

T = TypeVar("T")

_TLS_PROBE_TIMEOUT: Final = 2.0
_IN_DOUBT: Final = "Look with `freight-exchange {}` in a minute, and do not send it again before."
_NOT_PRINTED: Final = "See it with `freight-exchange {}`, and do not send it again."
_REPORTED_ELSEWHERE: Final = ("login failed", "a write whose caller was cancelled")
_LOGIN_EXPIRED: Final = "the kept login has expired: log in again with `freight-exchange login`"


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
    """Return the file that keeps the login."""
    return TokenFile(_token_path(options))


def resolve_credentials(options: GlobalOptions, *, new_login: bool = False) -> Credentials:
    """Take the credentials from options, environment and cached login, and ask for the rest.

    Args:
        options: The global options.
        new_login: Whether to log in anew and keep that login; until it succeeds, the file keeps the cached one.

    Raises:
        ConfigurationError: Something is missing, and there is no terminal to ask on.
    """
    _log_warnings()
    file = token_file(options)
    stored = cached = file.read()
    url = options.url or (None if cached is None else cached.base_url)
    url = url or _prompt(
        "URL of the service",
        f"no URL: give --url or set {URL_VARIABLE}, or log in once with `freight-exchange login`",
    )
    if cached is not None and cached.base_url != url.strip().rstrip("/"):
        cached = None
    email = options.email or (None if cached is None else cached.account)
    email = email or _prompt(
        "Email",
        f"no account: give --email or set {EMAIL_VARIABLE}, or log in once with `freight-exchange login`",
    )
    if cached is not None and cached.account != email:
        cached = None
    password = _environment_password(email)
    if password is None and (new_login or cached is None or not cached.is_fresh()):
        password = _prompt(
            f"Password of {email}",
            f"no password: set {PASSWORD_VARIABLE}, or log in once, on a terminal, with `freight-exchange login`",
            hidden=True,
        )
    store: TokenFile | None = None
    if new_login:
        store = _UnreadTokenFile(_token_path(options))
    elif cached is not None or options.token_file is not None:
        store = file
    return Credentials(url=url, email=email, password=password, store=store, cached=stored)


def run_with_client(
    options: GlobalOptions,
    work: Callable[[FreightExchange], Awaitable[T]],
    *,
    credentials: Credentials | None = None,
    lookup_command: str | None = None,
    hook: Callable[[Event], None] | None = None,
) -> T:
    """Run `work` with a client and return its result.

    Args:
        options: The global options.
        work: The work.
        credentials: The credentials, if already resolved.
        lookup_command: The command that shows what `work` writes, named if the outcome is unknown.
        hook: A hook of the client.

    Raises:
        InterruptedWriteError: Ctrl-C or SIGTERM came while a write was in flight.
        OutputError: A write has taken effect, and its result cannot be printed.
    """
    writes: list[Attempt] = []

    def note(event: Event) -> None:
        if isinstance(event, Attempt) and event.may_have_taken_effect:
            writes.append(event)
        if hook is not None:
            hook(event)

    credentials = resolve_credentials(options) if credentials is None else credentials
    client = _create_client(credentials, options, note)

    async def main() -> T:
        async with client as exchange:
            return await work(exchange)

    try:
        return run(main)
    except FreightExchangeError as caught:
        error = _explain_tls_failure(caught, credentials.url)
        if error.method is not None:
            error.add_note(f"The service is {credentials.url}, the account {credentials.email}.")
        if error.may_have_taken_effect:
            _add_lookup(error, _IN_DOUBT, lookup_command)
        raise error from None
    except KeyboardInterrupt:
        if not writes:
            raise
        interrupted = InterruptedWriteError("interrupted while it was on its way: whether it was taken is not known")
        _add_lookup(interrupted, _IN_DOUBT, lookup_command)
        raise interrupted from None
    except OSError as error:
        # The client raises no OSError for a failed write, so this write was answered.
        if not (writes and is_output_full(error)):
            raise
        not_printed = OutputError(error)
        _add_lookup(not_printed, _NOT_PRINTED, lookup_command)
        raise not_printed from None


def _add_lookup(error: Exception, note: str, lookup_command: str | None) -> None:
    if lookup_command is not None:
        error.add_note(note.format(lookup_command))


def _token_path(options: GlobalOptions) -> str | Path:
    return options.token_file or state_folder() / "login.json"


class _UnreadTokenFile(TokenFile):
    """Token file for a new login: its cached login is not used, and stays until the new one replaces it."""

    def of(self, base_url: str, account: str) -> LoginFile:
        return _UnreadLoginFile(super().of(base_url, account).path, base_url, account)


class _UnreadLoginFile(LoginFile):
    def read(self) -> CachedLogin | None:
        return None


def _explain_tls_failure(error: FreightExchangeError, url: str) -> FreightExchangeError:
    """Replace a connection error by a clear one if the URL says https and the server speaks plain HTTP."""
    if not isinstance(error, TransportError) or error.permanent or not _lacks_tls(url):
        return error
    return TransportError(
        "the server there does not speak https: the address may need http://, which is for this machine alone",
        permanent=True,
        method=error.method,
        path=error.path,
        attempts=error.attempts,
        elapsed=error.elapsed,
    )


def _lacks_tls(url: str) -> bool:
    """Return whether the server of an https URL answers a TLS handshake with something else."""
    parts = urlsplit(url.strip())
    if parts.scheme != "https" or not parts.hostname:
        return False
    try:
        with (
            socket.create_connection((parts.hostname, parts.port or 443), timeout=_TLS_PROBE_TIMEOUT) as connection,
            ssl.create_default_context().wrap_socket(connection, server_hostname=parts.hostname),
        ):
            return False
    except ssl.SSLCertVerificationError:
        return False
    except ssl.SSLError:
        return True
    except OSError:
        return False


def _log_warnings() -> None:
    """Print the SDK's log warnings to standard error, unless `-v` already logs them."""
    logger = logging.getLogger("freight_exchange")
    if all(isinstance(handler, logging.NullHandler) for handler in logger.handlers):
        logger.addHandler(_WarningHandler(logging.WARNING))


class _WarningHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if not record.msg.startswith(_REPORTED_ELSEWHERE):
            warn(f"Warning: {clean(record.getMessage())}")


def _create_client(credentials: Credentials, options: GlobalOptions, hook: Callable[[Event], None]) -> FreightExchange:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        client = freight_exchange.FreightExchange(
            credentials.url,
            email=credentials.email,
            # Never sent: `_refuse_login` stops the login.
            password=secrets.token_urlsafe() if credentials.password is None else credentials.password,
            token_store=credentials.store,
            deadline=options.timeout,
            middleware=[_refuse_login] if credentials.password is None else [],
            hooks=[hook],
        )
    for warning in caught:
        warn(f"Warning: {clean(translate_warning(str(warning.message)))}")
    return client


async def _refuse_login(request: Request, call_next: Next) -> Response:
    """Middleware of a client without a password, which has only the cached login."""
    if request.kind is Kind.LOGIN:
        raise AuthenticationError(_LOGIN_EXPIRED, method=request.method, path=request.path)
    return await call_next(request)


def _environment_password(email: str) -> str | None:
    """Return the environment's password, unless it is another account's and the user can be asked.

    A wrong password may lock the account.
    """
    if conflicting_account(email) is not None and is_interactive():
        return None
    return os.environ.get(PASSWORD_VARIABLE) or None


def conflicting_account(email: str) -> str | None:
    """Return the account of the environment if it is another one."""
    account = os.environ.get(EMAIL_VARIABLE)
    return account if account and account != email else None


def _prompt(text: str, error_message: str, *, hidden: bool = False) -> str:
    if not is_interactive():
        raise ConfigurationError(error_message)
    answer: str = click.prompt(text, hide_input=hidden, err=True)
    return answer
