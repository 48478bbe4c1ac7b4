"""Commands `login`, `logout` and `whoami`."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

import freight_exchange
from freight_exchange.cli import options as opt
from freight_exchange.cli.client import EMAIL, Command, connect, path_of, profile_of, resolve
from freight_exchange.cli.run import warn
from freight_exchange.cli.show import Out, text_of
from freight_exchange.errors import ConfigurationError
from freight_exchange.platform.text import clean

if TYPE_CHECKING:
    from freight_exchange import FreightExchange, User


@click.command(cls=Command)
@click.pass_obj
def login(options: opt.Options, /, out: Out) -> None:
    """Log in, and stay logged in.

    Later commands need no URL, account or password until the token expires. A file that only you can read keeps it,
    never the password. With --profile, several logins are kept beside each other.

    $ --url https://host/api login
    $ --profile shipper login
    """
    path = path_of(options)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # The old login stays until the new one has succeeded.
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            credentials = resolve(options, new_file=Path(folder, path.name))
            user = connect(options, lambda exchange: exchange.login(), credentials=credentials)
            Path(folder, path.name).replace(path)
    except OSError as error:
        raise ConfigurationError(f"the login cannot be saved in {path.parent}: {error.strerror}") from None
    if os.environ.get(EMAIL, credentials.email) not in ("", credentials.email) and not profile_of(options):
        warn(f"{EMAIL} names {clean(os.environ[EMAIL])}: later commands use it unless --email is given.")
    names = " ".join(filter(None, (user.first_name, user.middle_name, user.last_name)))
    sentence = f"Logged in as {text_of(names or user.email or 'an unnamed user')} at {text_of(credentials.url)}."
    out.result(sentence, {"url": credentials.url, "user": user})


@click.command(cls=Command)
@click.pass_obj
def logout(options: opt.Options, /, out: Out) -> None:
    """Forget the saved login. The service has no logout: a copy of the token stays valid.

    $ logout
    """
    existed = freight_exchange.TokenFile(path_of(options)).forget()
    sentence = "The login is forgotten." if existed else "There was no login to forget."
    out.result(sentence, {"forgotten": existed})


@click.command(cls=Command)
@click.pass_obj
def whoami(options: opt.Options, /, out: Out) -> None:
    """Show who is logged in, and where. The service confirms that the login is still valid.

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
