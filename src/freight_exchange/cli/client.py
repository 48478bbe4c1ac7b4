"""Credentials and client of a command, the classes of commands and groups, and `login`, `logout` and `whoami`.

Credentials come from options, the environment and a saved login; `login` asks for the rest. A profile is a saved login
with a name of its own: with one, the saved account comes before that of the environment.
"""

from __future__ import annotations

import inspect
import logging
import os
import re
import secrets
import sys
import tempfile
import warnings
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import click

import freight_exchange
from freight_exchange.cli import options as opt
from freight_exchange.cli.run import Failure, Status, is_interactive, not_printed, run, warn
from freight_exchange.cli.show import Out, text_of
from freight_exchange.errors import AuthenticationError, ConfigurationError, FreightExchangeError, ValidationError
from freight_exchange.options import DEFAULT_DEADLINE
from freight_exchange.platform.text import CleanFormatter, clean

if TYPE_CHECKING:
    from freight_exchange import FreightExchange, Request, Response, TokenFile, User
    from freight_exchange.hooks import Event

T = TypeVar("T")

_URL, _EMAIL, _PASSWORD = (f"FREIGHT_EXCHANGE_{name}" for name in ("URL", "EMAIL", "PASSWORD"))
_TOKEN_FILE: Final = "FREIGHT_EXCHANGE_TOKEN_FILE"
_REPORTED_ELSEWHERE: Final = ("login failed", "a write whose caller was cancelled")


def _credentials(options: opt.Options, new_file: Path | None) -> tuple[str, str, str | None, TokenFile | None]:
    """Return URL, account, password and saved login. Without a password, the saved login is enough.

    For a new login, which `new_file` keeps, missing values are asked for. Otherwise the error names the command.
    """
    profile = _profile(options)
    from_url, from_email, password = (os.environ.get(name) or None for name in (_URL, _EMAIL, _PASSWORD))
    url, email = options.url, options.email
    if not profile:
        url, email = url or from_url, email or from_email
    url = (url or "").strip().rstrip("/")
    file, saved = None, None
    try:
        file = freight_exchange.TokenFile(_path(options))
        saved = file.read()
    except ConfigurationError:
        # Only a saved login needs the file, which has no place without a home directory.
        if new_file or not (url and email and password):
            raise
    if saved is not None:
        url = url or saved.base_url
        email = email or (saved.account if saved.base_url == url else None)
    if new_file:
        url = url or from_url or _ask("URL of the service", f"no URL: give --url or set {_URL}")
        email = email or from_email or _ask("Email", f"no account: give --email or set {_EMAIL}")
    if from_email not in (None, email) and (profile or is_interactive()):
        # It belongs to another account, and a wrong password may lock this one.
        password = None
    if new_file and email:
        password = password or _ask(f"Password of {email}", f"no password: set {_PASSWORD}", hidden=True)
        return url, email, password, freight_exchange.TokenFile(new_file)
    is_saved = saved is not None and (saved.base_url, saved.account) == (url, email)
    if url and email and (password or is_saved):
        is_kept = is_saved or options.token_file or os.environ.get(_TOKEN_FILE)
        return url, email, password, file if is_kept else None
    error = ConfigurationError(f"not logged in: run `{_login_of(options)}`")
    if saved is not None:
        error.add_note(f"The saved login is that of {saved.account} at {saved.base_url}.")
    error.add_note(f"In a program, set {_URL}, {_EMAIL} and {_PASSWORD} instead.")
    raise error


def _login_of(options: opt.Options) -> str:
    profile = _profile(options)
    return f"freight-exchange{f' --profile {profile}' if profile else ''} login"


def _profile(options: opt.Options) -> str | None:
    profile = options.profile or os.environ.get("FREIGHT_EXCHANGE_PROFILE") or None
    if profile is not None and not re.fullmatch(r"[\w-]+", profile):
        raise ConfigurationError(f"the name of a profile has letters, digits, - and _ only, not {profile!r}")
    if profile is not None and options.token_file:
        raise ConfigurationError("give --profile or --token-file: each names a saved login")
    return profile


def _path(options: opt.Options) -> Path:
    import platformdirs

    profile, given = _profile(options), options.token_file or os.environ.get(_TOKEN_FILE)
    if given and not profile:
        return Path(given)
    try:
        folder = platformdirs.user_state_path("freight-exchange", appauthor=False)
    except RuntimeError:
        raise ConfigurationError("there is no home directory for the saved login: give --token-file a path") from None
    return folder / (f"login-{profile}.json" if profile else "login.json")


def _ask(question: str, problem: str, *, hidden: bool = False) -> str:
    if not is_interactive():
        raise ConfigurationError(f"{problem}; there is no terminal to ask on")
    answer: str = click.prompt(question, hide_input=hidden, err=True)
    return answer


def _print_warnings() -> None:
    """Print the SDK's warnings to standard error, unless `-v` prints more."""
    logger = logging.getLogger("freight_exchange")
    if all(isinstance(handler, logging.NullHandler) for handler in logger.handlers):
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(CleanFormatter("Warning: %(message)s"))
        handler.addFilter(lambda record: not record.msg.startswith(_REPORTED_ELSEWHERE))
        logger.addHandler(handler)


def connect(
    options: opt.Options,
    work: Callable[[FreightExchange], Awaitable[T]],
    *,
    lookup: str = "",
    new_file: Path | None = None,
) -> T:
    """Run `work` with a client and return its result.

    `lookup` is the command that shows what it has written, and `new_file` the place of a new login.
    """
    from freight_exchange.hooks import Attempt

    _print_warnings()
    writes: list[Attempt] = []

    def note(event: Event) -> None:
        if isinstance(event, Attempt) and event.may_have_taken_effect:
            writes.append(event)

    client = _client(options, new_file, note)

    async def main() -> T:
        async with client as exchange:
            return await work(exchange)

    in_doubt = f"Check with `freight-exchange {lookup}` in a minute, before you send it again."
    try:
        return run(main)
    except FreightExchangeError as error:
        if error.method is not None:
            error.add_note(f"The service is {client._base_url}, the account {run(client._account)}.")
        if lookup and error.may_have_taken_effect:
            error.add_note(in_doubt)
        raise
    except (KeyboardInterrupt, OSError) as error:
        if not writes:
            raise
        if isinstance(error, KeyboardInterrupt):
            message = "interrupted in flight: the service may or may not have taken it"
            raise Failure(message, Status.OUTCOME_UNKNOWN, in_doubt) from None
        # The client raises no OSError for a failed write, so this write was answered.
        raise not_printed(error, f"See it with `freight-exchange {lookup}`, and do not send it again.") from None


def _client(options: opt.Options, new_file: Path | None, hook: Callable[[Event], None]) -> FreightExchange:
    url, email, password, saved_login = _credentials(options, new_file)

    async def refuse_login(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        if request.path == "login":
            raise AuthenticationError(f"the saved login has expired: run `{_login_of(options)}`")
        return await call_next(request)

    with warnings.catch_warnings(record=True, action="always") as caught:
        client = freight_exchange.FreightExchange(
            url,
            email=email,
            # Never sent: `refuse_login` stops the login.
            password=password or secrets.token_urlsafe(),
            token_store=saved_login,
            deadline=options.timeout or DEFAULT_DEADLINE,
            get_parameters=options.get_parameters,
            # In the form of its variable, which the client reads as well.
            addresses=cast("Any", options.addresses),
            currency_field=options.currency_field,
            carrier_field=options.carrier_field,
            proxy=options.proxy,
            verify=True if options.ca_file is None else _ssl_context(options.ca_file),
            trust_env=True,
            middleware=[refuse_login] if password is None else [],
            hooks=[hook],
        )
    for warning in caught:
        warn(f"Warning: {clean(str(warning.message))}")
    return client


def _ssl_context(ca_file: str) -> Any:
    import ssl

    context = ssl.create_default_context()
    try:
        context.load_verify_locations(ca_file)
    except OSError as error:
        raise ConfigurationError(f"--ca-file {ca_file} cannot be read: {error.strerror}") from None
    return context


# Commands and groups

_ARGUMENTS: Final = {"base_url": "--url", "deadline": "--timeout", "proxy": "--proxy", "addresses": "--addresses"}
"""Options by the client's argument."""


class Command(click.Command):
    """Command that receives its output as `out`, and names the option of a value that the SDK refuses.

    An async function receives a client first, after the codes of currencies are read if it `shows_prices`. `lookup` is
    the command that shows what it writes. Lines `$ ...` at the end of its help are examples.
    """

    def __init__(
        self, *args: Any, prints_json: bool = True, lookup: str = "", shows_prices: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.lookup, self.shows_prices = lookup, shows_prices
        if prints_json:
            text = "Print one JSON object per line, for programs."
            self.params.append(click.Option(["--json", "output"], flag_value="json", default=None, help=text))
        text, *examples = re.split(r"\n\s*\$ ", inspect.cleandoc(self.help or ""))
        self.help = f"{text}\n\n\b\nExamples:" + "".join(f"\n  freight-exchange {one}" for one in examples)

    def invoke(self, ctx: click.Context) -> Any:
        if "output" in ctx.params:
            given = {name: ctx.params.pop(name) for name in ("per", "yes") if name in ctx.params}
            ctx.params["out"] = Out(ctx.params.pop("output"), **given)
        try:
            if not inspect.iscoroutinefunction(self.callback):
                return super().invoke(ctx)
            return connect(ctx.obj, partial(self._call, ctx.params), lookup=self.lookup.format(**ctx.params))
        except (ConfigurationError, ValidationError) as error:
            field = error.field if isinstance(error, ValidationError) else error.message.partition(" ")[0]
            rest = error.message.removeprefix(field)
            rest = rest if rest[:1] in (" ", "[") else f": {error.message}"
            if field in _ARGUMENTS:
                raise ConfigurationError(f"{_ARGUMENTS[field]}{rest}") from error
            parameters = {one.name: one for one in self.params}
            if (parameter := parameters.get(field)) is None:
                raise
            name = parameter.opts[0] if isinstance(parameter, click.Option) else field.upper()
            nothing = "; nothing was sent" if "yes" in parameters else ""
            raise click.UsageError(f"{name}{rest}{nothing}", ctx) from error

    async def _call(self, arguments: Mapping[str, Any], exchange: FreightExchange) -> Any:
        if self.shows_prices:
            await arguments["out"].read_codes(exchange)
        function: Any = self.callback
        return await function(exchange, **arguments)


class Group(click.Group):
    """Group of such commands, in the order of their definition."""

    command_class = Command
    group_class = type

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self.commands]


@click.command(cls=Command)
@click.pass_obj
def login(options: opt.Options, /, out: Out) -> None:
    """Log in, and stay logged in.

    Later commands need no URL, account or password until the token expires. A file that only you can read keeps it,
    never the password. With --profile, several logins are kept beside each other.

    $ --url https://host/api login
    $ --profile shipper login
    """
    path = _path(options)

    async def work(exchange: FreightExchange) -> tuple[str, str, User]:
        return exchange._base_url, await exchange._account(), await exchange.login()

    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # The old login stays until the new one has succeeded.
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            url, email, user = connect(options, work, new_file=Path(folder, path.name))
            Path(folder, path.name).replace(path)
    except OSError as error:
        raise ConfigurationError(f"the login cannot be saved in {path.parent}: {error.strerror}") from None
    if os.environ.get(_EMAIL, email) not in ("", email) and not _profile(options):
        warn(f"{_EMAIL} names {clean(os.environ[_EMAIL])}: later commands use it unless --email is given.")
    names = " ".join(filter(None, (user.first_name, user.middle_name, user.last_name)))
    sentence = f"Logged in as {text_of(names or user.email or 'an unnamed user')} at {text_of(url)}."
    out.result(sentence, {"url": url, "user": user})


@click.command(cls=Command)
@click.pass_obj
def logout(options: opt.Options, /, out: Out) -> None:
    """Forget the saved login. The service has no logout: a copy of the token stays valid.

    $ logout
    """
    existed = freight_exchange.TokenFile(_path(options)).forget()
    sentence = "The login is forgotten." if existed else "There was no login to forget."
    out.result(sentence, {"forgotten": existed})


@click.command(cls=Command)
async def whoami(exchange: FreightExchange, /, out: Out) -> None:
    """Show who is logged in, and where. The service confirms that the login is still valid.

    $ whoami
    """
    # Only a call shows whether the saved login has expired, and this one is small.
    await exchange.currencies.list()
    user, url = await exchange.login(), exchange._base_url
    if out.format:
        out.json({"url": url, "user": user})
    else:
        out.details(user, service=url)
