"""`login`, `logout` and `whoami`: who uses the exchange."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from freight_exchange.cli.options import json_option
from freight_exchange.cli.render.tables import said, show_details, show_json, tell
from freight_exchange.cli.session import another_in_environment, caller, connected, token_file
from freight_exchange.cli.warn import aside
from freight_exchange.errors import ConfigurationError
from freight_exchange.settings import EMAIL_VARIABLE

if TYPE_CHECKING:
    from freight_exchange import FreightExchange, User
    from freight_exchange.cli.settings import Settings

__all__ = ["login", "logout", "whoami"]


@click.command
@json_option
@click.pass_obj
def login(settings: Settings, /, as_json: bool) -> None:
    """Log in, and stay logged in.

    Later commands need neither the URL nor the account nor the password. What is kept, in a file that nobody but you
    can read, is the service's token, and never the password. When the token has ended, log in again.

    \b
    Example:
      freight-exchange --url https://host/api login
    """
    who = caller(settings, logs_in=True)
    user = connected(settings, _user, who=who)
    if token_file(settings).read() in (None, who.kept):
        raise ConfigurationError("logged in, but the login cannot be kept: later commands would not have it")
    if (beside := another_in_environment(who.email)) is not None:
        aside(f"{EMAIL_VARIABLE} names {said(beside)}: other commands are that account's, unless --email says another.")
    tell(f"Logged in as {_name(user)} at {said(who.url)}.", {"url": who.url, "user": user}, as_json=as_json)


@click.command
@json_option
@click.pass_obj
def logout(settings: Settings, /, as_json: bool) -> None:
    """Forget the login that is kept.

    The service has no logout: a token that somebody else has is good until it ends.

    \b
    Example:
      freight-exchange logout
    """
    was_there = token_file(settings).forget()
    sentence = "The login is forgotten." if was_there else "There was no login to forget."
    tell(sentence, {"forgotten": was_there}, as_json=as_json)


@click.command
@json_option
@click.pass_obj
def whoami(settings: Settings, /, as_json: bool) -> None:
    """Show who is logged in, and where.

    The service is asked whether it still takes the login.

    \b
    Example:
      freight-exchange whoami
    """
    who = caller(settings)
    user = connected(settings, _user_by_now, who=who)
    if as_json:
        show_json({"url": who.url, "user": user})
        return
    company = user.company
    show_details(
        [
            ("name", _name(user)),
            ("title", user.title),
            ("email", user.email),
            ("company", None if company is None else company.name),
            ("phone", None if company is None else company.phone),
            ("last login", user.last_login),
            ("service", who.url),
        ]
    )


async def _user(exchange: FreightExchange) -> User:
    return await exchange.login()


async def _user_by_now(exchange: FreightExchange) -> User:
    # The login that is kept may have ended, and only a call shows it: this one is small.
    await exchange.currencies.list()
    return await exchange.login()


def _name(user: User) -> str:
    names = " ".join(name for name in (user.first_name, user.middle_name, user.last_name) if name)
    return said(names or user.email or "somebody without a name")
