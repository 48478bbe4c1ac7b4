"""From the settings to a client: who connects where, by which password, and for how long."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import ssl
import sys
import warnings
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import urlsplit

import attrs
import click

import freight_exchange
from freight_exchange.cli.exit_status import InterruptedWriteError, NotPrintedError, cannot_be_printed
from freight_exchange.cli.messages import reworded
from freight_exchange.cli.runner import run
from freight_exchange.cli.warn import aside
from freight_exchange.errors import AuthenticationError, ConfigurationError, FreightExchangeError, TransportError
from freight_exchange.hooks import Attempt
from freight_exchange.platform.text import clean
from freight_exchange.settings import EMAIL_VARIABLE, PASSWORD_VARIABLE, URL_VARIABLE
from freight_exchange.transport.auth.login_file import LoginFile
from freight_exchange.transport.auth.token_store import TokenFile, state_folder
from freight_exchange.transport.message import Kind

if TYPE_CHECKING:
    from freight_exchange import FreightExchange
    from freight_exchange.cli.settings import Settings
    from freight_exchange.hooks import Event
    from freight_exchange.transport.auth.cached_login import CachedLogin
    from freight_exchange.transport.message import Next, Request, Response

__all__ = ["Caller", "another_in_environment", "caller", "connected", "on_a_terminal", "token_file"]

T = TypeVar("T")

_PROBE: Final = 2.0
_LOOK: Final = "Look with `freight-exchange {}` in a minute, and do not send it again before."
_SEE: Final = "See it with `freight-exchange {}`, and do not send it again."
_PASSED_OVER: Final = ("login failed", "a write whose caller was cancelled")
_AGAIN: Final = "the login that was kept has ended: log in again with `freight-exchange login`"


@attrs.frozen(kw_only=True)
class Caller:
    """Who connects where.

    Attributes:
        url: The API root.
        email: The account.
        password: Its password; `None` where the login that is kept is enough.
        store: The token file to use, if one is to be used.
        kept: The login that this file holds so far, whoever's it is.
    """

    url: str
    email: str
    password: str | None = attrs.field(repr=False)
    store: TokenFile | None
    kept: CachedLogin | None = None


def on_a_terminal() -> bool:
    """Whether there is somebody to ask."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))


def token_file(settings: Settings) -> TokenFile:
    """The file that the login is kept in."""
    return TokenFile(_path_of_login(settings))


def caller(settings: Settings, *, logs_in: bool = False) -> Caller:
    """Who connects where: by the options, the environment and the login that is kept, and then by asking.

    Args:
        settings: What the options say.
        logs_in: Whether it is to log in anew, and to be kept; the login that is kept stays until there is a new one.

    Raises:
        ConfigurationError: Something is missing, and there is nobody to ask.
    """
    be_heard()
    file = token_file(settings)
    found = kept = file.read()
    url = settings.url or (None if kept is None else kept.base_url)
    url = url or _asked(
        "URL of the service",
        f"no URL: give --url or set {URL_VARIABLE}, or log in once with `freight-exchange login`",
    )
    if kept is not None and kept.base_url != url.strip().rstrip("/"):
        kept = None
    email = settings.email or (None if kept is None else kept.account)
    email = email or _asked(
        "Email",
        f"no account: give --email or set {EMAIL_VARIABLE}, or log in once with `freight-exchange login`",
    )
    if kept is not None and kept.account != email:
        kept = None
    password = _password_of(email)
    if password is None and (logs_in or kept is None or not kept.is_fresh()):
        password = _asked(
            f"Password of {email}",
            f"no password: set {PASSWORD_VARIABLE}, or log in once, on a terminal, with `freight-exchange login`",
            hidden=True,
        )
    if logs_in:
        return Caller(url=url, email=email, password=password, store=_Anew(_path_of_login(settings)), kept=found)
    keeps = kept is not None or settings.token_file is not None
    return Caller(url=url, email=email, password=password, store=file if keeps else None, kept=found)


def connected(
    settings: Settings,
    work: Callable[[FreightExchange], Awaitable[T]],
    *,
    who: Caller | None = None,
    look: str | None = None,
    hook: Callable[[Event], None] | None = None,
) -> T:
    """What the work gives that is done with a client.

    Args:
        settings: What the options say.
        work: The work.
        who: Who connects where, where that is known already.
        look: The command that shows what the work writes, for whoever does not know whether it was written.
        hook: Told what happens.

    Raises:
        InterruptedWriteError: It was interrupted while a write was on its way.
        NotPrintedError: A write is done, and its answer cannot be printed.
    """
    writes: list[Attempt] = []

    def note(event: Event) -> None:
        if isinstance(event, Attempt) and event.may_have_taken_effect:
            writes.append(event)
        if hook is not None:
            hook(event)

    who = caller(settings) if who is None else who
    client = _client(who, settings, note)

    async def main() -> T:
        async with client as exchange:
            return await work(exchange)

    try:
        return run(main)
    except FreightExchangeError as caught:
        error = _seen_through(caught, who.url)
        if error.method is not None:
            error.add_note(f"The service is {who.url}, the account {who.email}.")
        if error.may_have_taken_effect and look is not None:
            error.add_note(_LOOK.format(look))
        raise error from None
    except KeyboardInterrupt:
        if not writes:
            raise
        interrupted = InterruptedWriteError("interrupted while it was on its way: whether it was taken is not known")
        if look is not None:
            interrupted.add_note(_LOOK.format(look))
        raise interrupted from None
    except OSError as error:
        # A write that fails is no OSError: this one was answered.
        if not (writes and cannot_be_printed(error)):
            raise
        done = NotPrintedError(error)
        if look is not None:
            done.add_note(_SEE.format(look))
        raise done from None


def _path_of_login(settings: Settings) -> str | Path:
    return settings.token_file or state_folder() / "login.json"


class _Anew(TokenFile):
    """The file for a login that is to be a new one: what it holds is not gone on with, and stays until then."""

    def of(self, base_url: str, account: str) -> LoginFile:
        return _Unread(super().of(base_url, account).path, base_url, account)


class _Unread(LoginFile):
    def read(self) -> CachedLogin | None:
        return None


def _seen_through(error: FreightExchangeError, url: str) -> FreightExchangeError:
    """The error, or what it comes of where the SDK does not say so: no TLS where the URL says https."""
    if not isinstance(error, TransportError) or error.permanent or not _speaks_no_tls(url):
        return error
    return TransportError(
        "the server there does not speak https: the address may need http://, which is for this machine alone",
        permanent=True,
        method=error.method,
        path=error.path,
        attempts=error.attempts,
        elapsed=error.elapsed,
    )


def _speaks_no_tls(url: str) -> bool:
    """Whether something listens there, and its answer to a TLS greeting is none."""
    parts = urlsplit(url.strip())
    if parts.scheme != "https" or not parts.hostname:
        return False
    try:
        with (
            socket.create_connection((parts.hostname, parts.port or 443), timeout=_PROBE) as link,
            ssl.create_default_context().wrap_socket(link, server_hostname=parts.hostname),
        ):
            return False
    except ssl.SSLCertVerificationError:
        return False
    except ssl.SSLError:
        return True
    except OSError:
        return False


def be_heard() -> None:
    """Say on standard error what the SDK warns of, unless more is heard already."""
    logger = logging.getLogger("freight_exchange")
    if all(isinstance(handler, logging.NullHandler) for handler in logger.handlers):
        logger.addHandler(_Warnings(logging.WARNING))


class _Warnings(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        # These end the program, which says so itself.
        if not record.msg.startswith(_PASSED_OVER):
            aside(f"Warning: {clean(record.getMessage())}")


def _client(who: Caller, settings: Settings, hook: Callable[[Event], None]) -> FreightExchange:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        client = freight_exchange.FreightExchange(
            who.url,
            email=who.email,
            # Never sent: `_only_kept` sees to that.
            password=secrets.token_urlsafe() if who.password is None else who.password,
            token_store=who.store,
            deadline=settings.timeout,
            middleware=[_only_kept] if who.password is None else [],
            hooks=[hook],
        )
    for warning in caught:
        aside(f"Warning: {clean(reworded(str(warning.message)))}")
    return client


async def _only_kept(request: Request, call_next: Next) -> Response:
    """Nobody has given a password: with the login that was kept, or not at all."""
    if request.kind is Kind.LOGIN:
        raise AuthenticationError(_AGAIN, method=request.method, path=request.path)
    return await call_next(request)


def _password_of(email: str) -> str | None:
    """The environment's password. Where another account stands beside it, it is that one's, and whoever can be asked
    is: wrong passwords may lock an account."""
    if another_in_environment(email) is not None and on_a_terminal():
        return None
    return os.environ.get(PASSWORD_VARIABLE) or None


def another_in_environment(email: str) -> str | None:
    """The account that the environment names, if that is another one."""
    named = os.environ.get(EMAIL_VARIABLE)
    return named if named and named != email else None


def _asked(what: str, otherwise: str, *, hidden: bool = False) -> str:
    if not on_a_terminal():
        raise ConfigurationError(otherwise)
    answer: str = click.prompt(what, hide_input=hidden, err=True)
    return answer
