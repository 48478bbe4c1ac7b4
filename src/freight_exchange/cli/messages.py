"""Translation of the SDK's messages: option and field names replace those of Python."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import click

from freight_exchange.errors import ConfigurationError, FreightExchangeError, ValidationError

__all__ = ["explain_misplaced_option", "translate_error", "translate_warning"]

_OPTION_NAMES: Final = (
    (r"\bbase_url\b", "the URL"),
    # Exception name of the HTTP library.
    (r" \([A-Z][A-Za-z]+(?:Error|Timeout)\)", ""),
    (
        r"\b(?:load that authority into an ssl\.SSLContext and pass it as verify="
        r"|load it into an ssl\.SSLContext and pass that as verify=)",
        "give its file by --ca-file",
    ),
    (r"\bsee verify= if its authority is a private one", "see --ca-file if its authority is a private one"),
    (r"\bthe deadline of (\S+ s)\b", r"the --timeout of \1"),
    (r"\bTokenFile needs\b", "--token-file needs"),
    (r"\bgive TokenFile a path\b", "give --token-file a path"),
    (r"\bpass name=; the file\b", "give --name; the file"),
    (
        r"\bmust not contain a user name or password: give email and password",
        "must not contain a user name or password: give --email, and set FREIGHT_EXCHANGE_PASSWORD",
    ),
)
_PYTHON_TERMS: Final = (
    (r"\ba finite number \(Decimal, int, float or numeric text\)", "a number"),
    (r"\bDecimal\('([^']*)'\)", r"\1"),
    (r"\bmust be a datetime\b", "must be a date such as 2027-03-01 or '2027-03-01 17:00'"),
    (r"\bmust have no zone\b", "takes no offset"),
    (r"\bgive the wall time, without tzinfo\b", "give the time as the clocks there show it"),
    (r"\bis compared with need_date, which has no zone\b", "takes no offset"),
    (r"\bmust be True or False\b", "must be true or false"),
    (r"\bnot True\b", "not true"),
    (r"\bnot False\b", "not false"),
    (r"\bnot a str\b", "not a text"),
    (r"\bnot a (?:Decimal|float)\b", "not a number with decimals"),
    (r"\bnot a bool\b", "not true or false"),
    (r"\bnot a dict\b", "not an object"),
    (r"\bmust be a Carrier or its index\b", "must be a carrier's index"),
    (r"\bhalf a character \(a lone surrogate\)", "a byte that is not text"),
    (r"\brates\[('[^']*')\]", r"the rate \1"),
    (r"\brates=\{'([^']*)': \.\.\.\}", r"--rate \1=1.08"),
    (r"^to must be a currency code\b", "--to must be a currency code"),
    (r"^rates must be a currency code\b", "--rate must begin with a currency code"),
    # Options only; no file has these fields.
    (r"^(max|need|departs|arrives)_(volume|weight|by|from|until)\b", r"--\1-\2"),
)


def translate_error(error: FreightExchangeError) -> str:
    """Return the message of an error with the names of options and fields."""
    # Other errors may quote the service, whose words stay unchanged.
    is_about_arguments = isinstance(error, ConfigurationError | ValidationError)
    return _substitute(str(error), (*_OPTION_NAMES, *_PYTHON_TERMS) if is_about_arguments else _OPTION_NAMES)


def translate_warning(message: str) -> str:
    """Return a warning with the names of options."""
    return _substitute(message, _OPTION_NAMES)


def explain_misplaced_option(error: click.UsageError) -> str | None:
    """Explain where a misplaced option belongs; return `None` for any other error."""
    context = error.ctx
    if not isinstance(error, click.NoSuchOption) or context is None or context.parent is None:
        return None
    name = error.option_name
    if any(name in option.opts for option in context.find_root().command.params):
        return f"{name} belongs before the command: {context.find_root().command_path} {name} ..."
    if isinstance(context.command, click.Group):
        commands = ", ".join(context.command.list_commands(context))
        return f"{name} belongs behind a command of `{context.command_path}`: {commands}"
    return None


def _substitute(message: str, substitutions: Sequence[tuple[str, str]]) -> str:
    for pattern, replacement in substitutions:
        message = re.sub(pattern, replacement, message)
    return message
