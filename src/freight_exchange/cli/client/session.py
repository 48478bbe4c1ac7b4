"""Client of a command, and the report of interrupted writes."""

from __future__ import annotations

import functools
import secrets
import socket
import ssl
import warnings
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Concatenate, Final, ParamSpec, TypeVar, cast
from urllib.parse import urlsplit

import click

import freight_exchange
from freight_exchange.cli.client.credentials import Credentials, resolve_credentials
from freight_exchange.cli.client.runner import run
from freight_exchange.cli.exit_status import InterruptedWriteError, OutputError, is_output_full
from freight_exchange.cli.messages import translate_warning
from freight_exchange.cli.terminal import warn
from freight_exchange.config import parse_addresses
from freight_exchange.errors import AuthenticationError, ConfigurationError, FreightExchangeError, TransportError
from freight_exchange.hooks import Attempt
from freight_exchange.platform.text import clean
from freight_exchange.transport.call import RequestKind

if TYPE_CHECKING:
    from freight_exchange import Addresses, FreightExchange
    from freight_exchange.cli.options import GlobalOptions
    from freight_exchange.hooks import Event
    from freight_exchange.transport.call import Next, Request, Response

__all__ = ["client_command", "run_with_client"]

P = ParamSpec("P")
T = TypeVar("T")

_TLS_PROBE_TIMEOUT: Final = 2.0
_IN_DOUBT: Final = "Check with `freight-exchange {}` in a minute, before you send it again."
_NOT_PRINTED: Final = "See it with `freight-exchange {}`, and do not send it again."
_LOGIN_EXPIRED: Final = "the saved login has expired: run `freight-exchange login`"


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
        lookup_command: Command that shows the written record. The error of an unknown outcome names it.
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
        interrupted = InterruptedWriteError("interrupted in flight: the service may or may not have taken it")
        _add_lookup(interrupted, _IN_DOUBT, lookup_command)
        raise interrupted from None
    except OSError as error:
        # The client raises no OSError for a failed write, so this write was answered.
        if not (writes and is_output_full(error)):
            raise
        not_printed = OutputError(error)
        _add_lookup(not_printed, _NOT_PRINTED, lookup_command)
        raise not_printed from None


def client_command(work: Callable[Concatenate[FreightExchange, P], Awaitable[None]]) -> Callable[P, None]:
    """Decorate a read-only command, which receives a client as its first argument."""

    @click.pass_obj
    def command(options: GlobalOptions, /, *args: P.args, **kwargs: P.kwargs) -> None:
        run_with_client(options, lambda exchange: work(exchange, *args, **kwargs))

    return functools.update_wrapper(command, work)


def _add_lookup(error: Exception, note: str, lookup_command: str | None) -> None:
    if lookup_command is not None:
        error.add_note(note.format(lookup_command))


def _explain_tls_failure(error: FreightExchangeError, url: str) -> FreightExchangeError:
    """Replace a connection error with a clear one if the URL is https and the server speaks plain HTTP."""
    if not isinstance(error, TransportError) or error.permanent or not _lacks_tls(url):
        return error
    return TransportError(
        "the server at this URL does not speak https: a sandbox on this machine has an http:// URL",
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
            get_parameters=options.get_parameters,
            addresses=_addresses(options.addresses),
            currency_field=options.currency_field,
            carrier_field=options.carrier_field,
            proxy=options.proxy,
            verify=True if options.ca_file is None else _create_ssl_context(options.ca_file),
            trust_env=True,
            middleware=[_refuse_login] if credentials.password is None else [],
            hooks=[hook],
        )
    for warning in caught:
        warn(f"Warning: {clean(translate_warning(str(warning.message)))}")
    return client


def _addresses(text: str | None) -> Addresses | None:
    return None if text is None else cast("Addresses", parse_addresses(text, "--addresses"))


def _create_ssl_context(ca_file: str) -> ssl.SSLContext:
    """Create a context that trusts the authorities of a file and those of the system."""
    context = ssl.create_default_context()
    try:
        context.load_verify_locations(ca_file)
    except (OSError, ssl.SSLError) as error:
        reason = "it holds no certificate" if isinstance(error, ssl.SSLError) else error.strerror
        raise ConfigurationError(f"--ca-file {ca_file} cannot be read: {reason}") from None
    return context


async def _refuse_login(request: Request, call_next: Next) -> Response:
    """Refuse logins: middleware of a client that has a cached login and no password."""
    if request.kind is RequestKind.LOGIN:
        raise AuthenticationError(_LOGIN_EXPIRED, method=request.method, path=request.path)
    return await call_next(request)
