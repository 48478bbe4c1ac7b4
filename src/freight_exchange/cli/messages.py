"""What the SDK says of its arguments, in the words of whoever typed options or wrote a file: nothing of Python."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from freight_exchange.errors import ConfigurationError, FreightExchangeError, ValidationError

__all__ = ["reworded", "worded"]

_NAMES: Final = (
    (r"\bbase_url\b", "--url"),
    # The HTTP library's own name for it.
    (r" \([A-Z][A-Za-z]+(?:Error|Timeout)\)", ""),
    (r"\bthe deadline of (\S+ s)\b", r"the --timeout of \1"),
    (r"\bTokenFile needs\b", "--token-file needs"),
    (r"\bgive TokenFile a path\b", "give --token-file a path"),
    (r"\bby its name: there\b", "by --name: there"),
    (
        r"\bmust not contain a user name or password: give email and password",
        "must not contain a user name or password: give --email, and set FREIGHT_EXCHANGE_PASSWORD",
    ),
)
_PYTHON: Final = (
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
    (r"\bhalf a character \(a lone surrogate\)", "a byte that is no text"),
    (r"\brates\[('[^']*')\]", r"the rate \1"),
    # These are options alone, and never fields of a file.
    (r"^(max|need|departs|arrives)_(volume|weight|by|from|until)\b", r"--\1-\2"),
)


def worded(error: FreightExchangeError) -> str:
    """What the error says, by the names of options and files."""
    # What the service itself says stays as it is.
    of_arguments = isinstance(error, ConfigurationError | ValidationError)
    return _replaced(str(error), (*_NAMES, *_PYTHON) if of_arguments else _NAMES)


def reworded(sentence: str) -> str:
    """What the SDK warns of, by the names of options."""
    return _replaced(sentence, _NAMES)


def _replaced(sentence: str, words: Sequence[tuple[str, str]]) -> str:
    for pattern, instead in words:
        sentence = re.sub(pattern, instead, sentence)
    return sentence
