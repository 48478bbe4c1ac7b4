"""Commands `login`, `logout` and `whoami`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from freight_exchange.cli.client.credentials import conflicting_account, resolve_credentials, token_file
from freight_exchange.cli.client.session import run_with_client
from freight_exchange.cli.options import json_option
from freight_exchange.cli.render.record import format_value, print_details, print_json, print_result
from freight_exchange.cli.terminal import warn
from freight_exchange.errors import ConfigurationError
from freight_exchange.options import EMAIL_VARIABLE

if TYPE_CHECKING:
    from freight_exchange import FreightExchange, User
    from freight_exchange.cli.options import GlobalOptions

__all__ = ["login", "logout", "whoami"]


@click.command
@json_option
@click.pass_obj
def login(options: GlobalOptions, /, as_json: bool) -> None:
    """Log in, and stay logged in.

    Later commands need no URL, account or password. A file that only you can read keeps the service's token, never the
    password. When the token expires, log in again.

    \b
    Example:
      freight-exchange --url https://host/api login
    """
    credentials = resolve_credentials(options, new_login=True)
    user = run_with_client(options, lambda exchange: exchange.login(), credentials=credentials)
    if token_file(options).read() in (None, credentials.cached):
        raise ConfigurationError("logged in, but the login cannot be saved: later commands cannot use it")
    if (account := conflicting_account(credentials.email)) is not None:
        warn(f"{EMAIL_VARIABLE} names {format_value(account)}: later commands use it unless --email is given.")
    url = credentials.url
    print_result(f"Logged in as {_name(user)} at {format_value(url)}.", {"url": url, "user": user}, as_json=as_json)


@click.command
@json_option
@click.pass_obj
def logout(options: GlobalOptions, /, as_json: bool) -> None:
    """Forget the saved login.

    The service has no logout: a copy of the token stays valid until it expires.

    \b
    Example:
      freight-exchange logout
    """
    existed = token_file(options).forget()
    sentence = "The login is forgotten." if existed else "There was no login to forget."
    print_result(sentence, {"forgotten": existed}, as_json=as_json)


@click.command
@json_option
@click.pass_obj
def whoami(options: GlobalOptions, /, as_json: bool) -> None:
    """Show who is logged in, and where.

    The command checks with the service that the login is still valid.

    \b
    Example:
      freight-exchange whoami
    """
    credentials = resolve_credentials(options)
    user = run_with_client(options, _check_login, credentials=credentials)
    if as_json:
        print_json({"url": credentials.url, "user": user})
        return
    company = user.company
    print_details(
        [
            ("name", _name(user)),
            ("title", user.title),
            ("email", user.email),
            ("company", None if company is None else company.name),
            ("phone", None if company is None else company.phone),
            ("last login", user.last_login),
            ("service", credentials.url),
        ]
    )


async def _check_login(exchange: FreightExchange) -> User:
    # Only a call shows whether the saved login has expired, and this one is small.
    await exchange.currencies.list()
    return await exchange.login()


def _name(user: User) -> str:
    names = " ".join(name for name in (user.first_name, user.middle_name, user.last_name) if name)
    return format_value(names or user.email or "an unnamed user")
