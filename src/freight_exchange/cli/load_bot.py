"""A bot by its name: the module that it is in, and what it is called there."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import click

import freight_exchange

if TYPE_CHECKING:
    from freight_exchange import Bot

__all__ = ["imported"]


def imported(target: str) -> Bot:
    """The bot that `MODULE:BOT` names; the current directory is looked into as well.

    Raises:
        UsageError: There is none.
    """
    module, colon, attribute = target.partition(":")
    # A name that begins with a dot is relative to a package, and there is none.
    if not (colon and attribute and all(module.split("."))):
        raise click.UsageError(f"give MODULE:BOT, such as my_bot:bot, not {target!r}")
    sys.path.insert(0, str(Path.cwd()))
    try:
        found = getattr(import_module(module), attribute, None)
    except ModuleNotFoundError as error:
        # One that the module itself imports is the module's own trouble, and shown with its traceback.
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise click.UsageError(f"there is no module {module!r} here") from None
    if not isinstance(found, freight_exchange.Bot):
        raise click.UsageError(f"{module} has no Bot that is called {attribute!r}")
    return found
