"""Credentials and client of a command, and the commands `login`, `logout` and `whoami`.

Credentials come from options, the environment and a saved login. `login` asks for the rest. A profile is a saved login
with a name of its own: with one, the saved account comes before that of the environment.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import re
import secrets
import ssl
import warnings
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs
import click

import freight_exchange
from freight_exchange.cli import options as opt
from freight_exchange.cli.run import Failure, Status, is_interactive, is_output_full, run, warn
from freight_exchange.cli.show import Out, text_of
from freight_exchange.errors import AuthenticationError, ConfigurationError, FreightExchangeError
from freight_exchange.hooks import Attempt
from freight_exchange.options import DEFAULT_DEADLINE
from freight_exchange.platform.text import clean

if TYPE_CHECKING:
    from freight_exchange import FreightExchange, Request, Response, TokenFile, User
    from freight_exchange.hooks import Event

__all__ = ["Credentials", "connect", "login", "logout", "resolve", "whoami", "with_client"]

T = TypeVar("T")

_URL, _EMAIL, _PASSWORD = (f"FREIGHT_EXCHANGE_{name}" for name in ("URL", "EMAIL", "PASSWORD"))
_IN_DOUBT: Final = "Check with `freight-exchange {}` in a minute, before you send it again."
_NOT_PRINTED: Final = "See it with `freight-exchange {}`, and do not send it again."
_REPORTED_ELSEWHERE: Final = ("login failed", "a write whose caller was cancelled")


@attrs.frozen
class Credentials:
    """Service and account of a command. Without a password, the saved login in `store` is enough."""

    url: str
    email: str
    password: str | None = attrs.field(repr=False)
    store: TokenFile | None


def resolve(options: opt.Options, *, new_file: Path | None = None) -> Credentials:
    """Take the credentials from options, environment and saved login.

    For a new login, which `new_file` keeps, missing values are asked for. Otherwise the error names the command.
    """
    _log_warnings()
    profile = _profile(options)
    variables = {name: os.environ.get(name) or None for name in (_URL, _EMAIL, _PASSWORD)}
    url, email = options.url, options.email
    if not profile:
        url, email = url or variables[_URL], email or variables[_EMAIL]
    file, saved = None, None
    try:
        file = freight_exchange.TokenFile(_path(options))
        saved = file.read()
    except ConfigurationError:
        # Only a saved login needs the file, which has no place without a home directory.
        if new_file or not (url and email and variables[_PASSWORD]):
            raise
    if saved is not None:
        url = url or saved.base_url
        email = email or (saved.account if saved.base_url == _normalized(url) else None)
    url, email = url or variables[_URL], email or (variables[_EMAIL] if new_file else None)
    if new_file:
        url = url or _ask("URL of the service", f"no URL: give --url or set {_URL}")
        _check_url(url)
        email = email or _ask("Email", f"no account: give --email or set {_EMAIL}")
    if not url or not email:
        raise _not_logged_in(options, saved)
    is_saved = saved is not None and (saved.base_url, saved.account) == (_normalized(url), email)
    password = variables[_PASSWORD]
    if variables[_EMAIL] not in (None, email) and (profile or is_interactive()):
        # It belongs to another account, and a wrong password may lock this one.
        password = None
    if new_file:
        password = password or _ask(f"Password of {email}", f"no password: set {_PASSWORD}", hidden=True)
        return Credentials(url, email, password, freight_exchange.TokenFile(new_file))
    if password is None and not (saved is not None and is_saved and saved.is_fresh()):
        raise _not_logged_in(options, saved, is_expired=is_saved)
    return Credentials(url, email, password, file if is_saved or _given_file(options) else None)


def _profile(options: opt.Options) -> str | None:
    profile = options.profile or os.environ.get("FREIGHT_EXCHANGE_PROFILE") or None
    if profile is not None and not re.fullmatch(r"[\w-]+", profile):
        raise ConfigurationError(f"the name of a profile has letters, digits, - and _ only, not {profile!r}")
    if profile is not None and options.token_file:
        raise ConfigurationError("give --profile or --token-file: each names a saved login")
    return profile


def _given_file(options: opt.Options) -> str | None:
    return options.token_file or os.environ.get("FREIGHT_EXCHANGE_TOKEN_FILE") or None


def _path(options: opt.Options) -> Path:
    """Return the path of the saved login."""
    import platformdirs

    profile = _profile(options)
    if not profile and (given := _given_file(options)) is not None:
        return Path(given)
    try:
        folder = platformdirs.user_state_path("freight-exchange", appauthor=False)
    except RuntimeError:
        raise ConfigurationError("there is no home directory for the saved login: give --token-file a path") from None
    return folder / (f"login-{profile}.json" if profile else "login.json")


def _normalized(url: str) -> str:
    return url.strip().rstrip("/")


def _not_logged_in(options: opt.Options, saved: Any, *, is_expired: bool = False) -> Exception:
    """Return the error of a command without a login; it names the command that logs in, and the missing variables."""
    known = {_URL: options.url, _EMAIL: options.email, _PASSWORD: os.environ.get(_PASSWORD)}
    command, account = "freight-exchange", ""
    if (profile := _profile(options)) is not None:
        command += f" --profile {profile}"
    else:
        known = {name: value or os.environ.get(name) for name, value in known.items()}
    url, email, _ = known.values()
    if saved is not None and url and _normalized(url) != saved.base_url:
        command += f" --url {url}"
    if saved is not None and email and email != saved.account:
        command, account = f"{command} --email {email}", f" as {email}"
    error: Exception = ConfigurationError(f"not logged in{account}: run `{command} login`")
    if is_expired:
        error = AuthenticationError(f"the saved login has expired: run `{command} login`")
    missing = [name for name, value in known.items() if not value]
    if 0 < len(missing) < len(known):
        error.add_note(f"Or set the missing {' and '.join(missing)} in the environment.")
    else:
        error.add_note(f"In a program, set {_URL}, {_EMAIL} and {_PASSWORD} instead.")
    return error


def _check_url(url: str) -> None:
    """Reject a wrong URL before the account and the password are asked for."""
    with warnings.catch_warnings():
        # The client of the command gives the same warnings.
        warnings.simplefilter("ignore")
        freight_exchange.FreightExchange(url, email="-", password="-")


def _ask(question: str, problem: str, *, hidden: bool = False) -> str:
    if not is_interactive():
        raise ConfigurationError(f"{problem}; there is no terminal to ask on")
    answer: str = click.prompt(question, hide_input=hidden, err=True)
    return answer


# The client


def connect(
    options: opt.Options,
    work: Callable[[FreightExchange], Awaitable[T]],
    *,
    credentials: Credentials | None = None,
    lookup: str | None = None,
    notes: Sequence[str] = (),
    hook: Callable[[Event], None] | None = None,
) -> T:
    """Run `work` with a client and return its result.

    Args:
        options: The options before the command.
        work: The work.
        credentials: The credentials, if already resolved.
        lookup: Command that shows what `work` has written. The report of an unknown outcome names it.
        notes: Further sentences for that report, which `work` may add.
        hook: A hook of the client.
    """
    credentials = credentials or resolve(options)
    writes: list[Attempt] = []

    def note(event: Event) -> None:
        if isinstance(event, Attempt) and event.may_have_taken_effect:
            writes.append(event)
        if hook is not None:
            hook(event)

    client = _client(credentials, options, note)

    async def main() -> T:
        async with client as exchange:
            return await work(exchange)

    in_doubt, printed = ([sentence.format(lookup)] if lookup else [] for sentence in (_IN_DOUBT, _NOT_PRINTED))
    try:
        return run(main)
    except FreightExchangeError as error:
        if error.method is not None:
            error.add_note(f"The service is {credentials.url}, the account {credentials.email}.")
        for sentence in (*in_doubt, *notes) if error.may_have_taken_effect else ():
            error.add_note(sentence)
        raise
    except KeyboardInterrupt:
        if not writes:
            raise
        message = "interrupted in flight: the service may or may not have taken it"
        raise Failure(message, Status.OUTCOME_UNKNOWN, *in_doubt, *notes) from None
    except OSError as error:
        # The client raises no OSError for a failed write, so this write was answered.
        if not (writes and is_output_full(error)):
            raise
        message = f"the command took effect, but its result could not be printed: {error.strerror}"
        raise Failure(message, Status.NOT_PRINTED, *printed) from None


def with_client(work: Any = None, *, lookup: str | None = None) -> Callable[..., Any]:
    """Decorate a command, which receives a client as its first argument.

    `lookup` is the command that shows what it writes, with names of its arguments in braces.
    """
    if work is None:
        return functools.partial(with_client, lookup=lookup)

    @click.pass_obj
    def command(options: opt.Options, /, **arguments: Any) -> None:
        shown = lookup and lookup.format(**arguments)
        connect(options, lambda exchange: work(exchange, **arguments), lookup=shown)

    return functools.update_wrapper(command, work)


def _client(credentials: Credentials, options: opt.Options, hook: Callable[[Event], None]) -> FreightExchange:
    pairs = (part.partition("=") for part in (options.addresses or "").split(","))
    addresses: Any = {name.strip(): address.strip() for name, _, address in pairs} if options.addresses else None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        client = freight_exchange.FreightExchange(
            credentials.url,
            email=credentials.email,
            # Never sent: `_refuse_login` stops the login.
            password=credentials.password or secrets.token_urlsafe(),
            token_store=credentials.store,
            deadline=options.timeout or DEFAULT_DEADLINE,
            get_parameters=options.get_parameters,
            addresses=addresses,
            currency_field=options.currency_field,
            carrier_field=options.carrier_field,
            proxy=options.proxy,
            verify=True if options.ca_file is None else _ssl_context(options.ca_file),
            trust_env=True,
            middleware=[_refuse_login] if credentials.password is None else [],
            hooks=[hook],
        )
    for warning in caught:
        warn(f"Warning: {clean(str(warning.message))}")
    return client


def _ssl_context(ca_file: str) -> ssl.SSLContext:
    """Create a context that trusts the authorities of a file and those of the system."""
    context = ssl.create_default_context()
    try:
        context.load_verify_locations(ca_file)
    except (OSError, ssl.SSLError) as error:
        reason = "it holds no certificate" if isinstance(error, ssl.SSLError) else error.strerror
        raise ConfigurationError(f"--ca-file {ca_file} cannot be read: {reason}") from None
    return context


async def _refuse_login(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
    """Refuse logins: middleware of a client that has a saved login and no password."""
    if request.path == "login":
        message = "the saved login has expired: run `freight-exchange login`"
        raise AuthenticationError(message, method=request.method, path=request.path)
    return await call_next(request)


def _log_warnings() -> None:
    """Print the SDK's log warnings to standard error, unless `-v` already logs them."""
    logger = logging.getLogger("freight_exchange")
    if all(isinstance(handler, logging.NullHandler) for handler in logger.handlers):
        logger.addHandler(_WarningHandler(logging.WARNING))


class _WarningHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if not record.msg.startswith(_REPORTED_ELSEWHERE):
            warn(f"Warning: {clean(record.getMessage())}")


# Commands


@click.command(cls=opt.Command)
@opt.as_json
@click.pass_obj
def login(options: opt.Options, /, out: Out) -> None:
    """Log in, and stay logged in.

    Later commands need no URL, account or password. A file that only you can read keeps the service's token, never the
    password. When the token expires, log in again. With --profile, several logins are kept beside each other.

    $ --url https://host/api login
    $ --profile shipper login
    """
    path = _path(options)
    # The old login stays until the new one has succeeded.
    new = path.with_name(f"{path.name}.new")
    with contextlib.suppress(OSError):
        new.unlink()
    try:
        credentials = resolve(options, new_file=new)
        user = connect(options, lambda exchange: exchange.login(), credentials=credentials)
        new.replace(path)
    except OSError:
        raise ConfigurationError("logged in, but the login cannot be saved: later commands cannot use it") from None
    finally:
        for left in (new, new.with_name(f"{new.name}.lock")):
            with contextlib.suppress(OSError):
                left.unlink()
    if os.environ.get(_EMAIL, credentials.email) not in ("", credentials.email) and not _profile(options):
        warn(f"{_EMAIL} names {clean(os.environ[_EMAIL])}: later commands use it unless --email is given.")
    names = " ".join(filter(None, (user.first_name, user.middle_name, user.last_name)))
    sentence = f"Logged in as {text_of(names or user.email or 'an unnamed user')} at {text_of(credentials.url)}."
    out.result(sentence, {"url": credentials.url, "user": user})


@click.command(cls=opt.Command)
@opt.as_json
@click.pass_obj
def logout(options: opt.Options, /, out: Out) -> None:
    """Forget the saved login.

    The service has no logout: a copy of the token stays valid until it expires.

    $ logout
    """
    existed = freight_exchange.TokenFile(_path(options)).forget()
    sentence = "The login is forgotten." if existed else "There was no login to forget."
    out.result(sentence, {"forgotten": existed})


@click.command(cls=opt.Command)
@opt.as_json
@click.pass_obj
def whoami(options: opt.Options, /, out: Out) -> None:
    """Show who is logged in, and where.

    The command checks with the service that the login is still valid.

    $ whoami
    """

    async def check(exchange: FreightExchange) -> User:
        # Only a call shows whether the saved login has expired, and this one is small.
        await exchange.currencies.list()
        return await exchange.login()

    credentials = resolve(options)
    user = connect(options, check, credentials=credentials)
    if out.format:
        out.json({"url": credentials.url, "user": user})
    else:
        out.details(user, service=credentials.url)
