"""Meaning of a reply: an error, or none. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Final

from freight_exchange import wire
from freight_exchange.errors import (
    APIStatusError,
    AuthenticationError,
    BadRequestError,
    DecodeError,
    LoginRejectedError,
    NotFoundError,
    RateLimitedError,
    ServerError,
)
from freight_exchange.transport.redact import MASK

if TYPE_CHECKING:
    from freight_exchange.transport.call import Response
    from freight_exchange.transport.redact import Redactor

MAX_HONOURED: Final = 3600.0
"""Longest `Retry-After` to obey, in seconds: one of years may be a mistake, and must not end all calls."""
_MAX_SECONDS: Final = 10.0**9
_MAX_PARSED: Final = 262_144
"""Longest body of an error to parse. A longer one is a dump of something else, and parsing it takes long."""
_REJECTED: Final = frozenset({200, 400, 401, 403, 422})
"""Statuses at which a login's reply can report wrong credentials."""
_TOKEN: Final = r".{20}|(?=.*\d)(?=.*[A-Za-z]).{6}|\d{8}"
"""Long word, mixture of letters and digits, or long number: it could be a token."""


def retry_after(response: Response, *, wall: float) -> float | None:
    """Return the seconds of `Retry-After`, a date against the reply's own `Date` or `wall`; `None` if unreadable."""
    text = (response.header("retry-after") or "").strip()
    if re.fullmatch(r"\d+(\.\d+)?", text, re.ASCII):
        return min(float(text), _MAX_SECONDS)
    at = _date(text)
    if at is None:
        return None
    now = _date(response.header("date") or "")
    return min(max(0.0, at.timestamp() - (wall if now is None else now.timestamp())), _MAX_SECONDS)


def _date(text: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def format_seconds(seconds: float) -> str:
    if seconds > 86_400:
        return "more than a day"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.2g} s"


def is_unauthorized(response: Response) -> bool:
    """Return whether the reply only refuses the token: status 401, or a body with `Unauthorized` and no result."""
    status = response.status
    if status == 401:
        return True
    if (status != 200 and not 400 <= status < 500) or b"nauthorized" not in response.content[:_MAX_PARSED]:
        return False
    return wire.is_unauthorized(_json(response), success=status == 200)


def error_of(response: Response, redactor: Redactor, *, wait: float | None) -> APIStatusError | None:
    """Return the error for a reply, or `None` if the call succeeded. `wait` is its `Retry-After` in seconds."""
    refused = is_unauthorized(response)
    if 200 <= response.status < 300 and not refused:
        return None
    data = _json(response)
    body = redactor.excerpt(response.content) if data is None else redactor.value(data)
    sentence = wire.find_sentence_in_text(str(body)) if data is None else wire.find_sentence(body)
    if refused:
        words = f": {sentence}" if sentence else ""
        return AuthenticationError(
            f"the service does not accept the token{words}; if each login ends the account's older tokens, share one"
            " login among all processes of the account: see token_store",
            status=response.status,
            body=body,
        )
    return _status_error(response, redactor, sentence, body, wait)


def login_error(response: Response, redactor: Redactor, *, wait: float | None) -> APIStatusError | None:
    """Map the reply to a login to an error, or to none.

    A rejection ends all logins, so it needs a JSON object with a reason and without a token, and a suitable status. The
    reply may contain a token that is not known yet: the error quotes one sentence, and masks words that could be one.
    """
    data = _json(response)
    sentence = wire.find_sentence(redactor.value(data)) if isinstance(data, dict) else None
    if sentence is not None:
        sentence = re.sub(r"\S+", lambda found: MASK if re.search(_TOKEN, found.group()) else found.group(), sentence)
    body: object = None if sentence is None else {"message": sentence}
    if response.status in _REJECTED:
        if wire.find_rejection(data) is not None:
            reason = (sentence or "it gave no reason").rstrip(".")
            return LoginRejectedError(
                f"the service rejected the email or password: {reason}", status=response.status, body=body
            )
        if response.status == 401:
            return AuthenticationError("the login was refused", status=401)
    # A login sends no token that could be refused, so the status decides.
    if 200 <= response.status < 300:
        return None
    error = _status_error(response, redactor, sentence, body, wait)
    if isinstance(error, NotFoundError):
        error.args = (f"{error.message}; base_url may be wrong",)
    return error


def _status_error(
    response: Response, redactor: Redactor, sentence: str | None, body: object, wait: float | None
) -> APIStatusError:
    status = response.status
    kind, what = _MEANINGS.get(status, (APIStatusError, "the service refused the call"))
    if status == 429:
        until = "" if wait is None else f", and to wait {format_seconds(wait)}"
        kind, what = RateLimitedError, f"the service asks for fewer calls{until}"
    elif status >= 500:
        kind, what = ServerError, "the service failed"
    elif 300 <= status < 400:
        origin = re.match(r"https?://[\w.-]+(:\d+)?(?=[/?#]|$)", response.header("location") or "")
        target = f" to {redactor.text(origin[0])}" if origin else ""
        what = f"the service redirects{target}, and redirects are never followed: check base_url"
    error = kind(f"{what}: {sentence}" if sentence else what, status=status, body=body)
    if isinstance(error, RateLimitedError | ServerError):
        error.retry_after = wait
    return error


_MEANINGS: Final[dict[int, tuple[type[APIStatusError], str]]] = {
    **dict.fromkeys((400, 413, 422), (BadRequestError, "the service found the request wrong")),
    404: (NotFoundError, "the service has nothing there"),
    407: (APIStatusError, "a proxy asks for a user and password: put them into the proxy's URL"),
    # This is not a refusal: the outcome of a write is unknown.
    408: (APIStatusError, "the service gave up waiting for the request"),
}


def _json(response: Response) -> object:
    """Return the body as JSON; `None` if it is not JSON, or too long to parse."""
    if len(response.content) > _MAX_PARSED:
        return None
    try:
        return wire.parse(response.content)
    except DecodeError:
        return None
