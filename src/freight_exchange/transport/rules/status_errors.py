"""Map the status and body of a reply to an error, or to none. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

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
from freight_exchange.transport.http.connect_errors import destination
from freight_exchange.transport.rules.retry_after import format_seconds
from freight_exchange.transport.secrets import LONGEST, MASK

if TYPE_CHECKING:
    from freight_exchange.transport.message import Response
    from freight_exchange.transport.secrets import Redactor

__all__ = ["UNTIL_CHANGED", "error_of", "is_unauthorized", "login_error"]

# A reply with `Unauthorized` is short; a longer one is a listing.
_MAX_REFUSAL = 4096
# With an error status the body may contain a trace; parsing this much takes a few milliseconds.
_MAX_VERBOSE_REFUSAL = 262_144

_WORD = re.compile(r"\S+")
_STEP = re.compile(r"(?<=^/)[^/]+|(?<=[^/]/)[^/]+")
"""One step of the path of a URL."""
_TOKEN = re.compile(r".{20}|(?=.*\d)(?=.*[A-Za-z]).{6}|\d{8}")
"""Long word, mixture of letters and digits, or long number: it could be a token."""

UNTIL_CHANGED = "; no other login is tried until the credentials change, or reset_login() allows it"

_REJECTED = frozenset({200, 400, 401, 403, 422})
"""Statuses at which a login's reply can report wrong credentials."""


def is_unauthorized(response: Response) -> bool:
    """Return whether the reply only refuses the token.

    Such a reply has status 401, or status 200 or 4xx and a body with the key `Unauthorized` and no result.
    """
    status = response.status
    if status == 401:
        return True
    if status != 200 and not 400 <= status < 500:
        return False
    content = response.content
    longest = _MAX_REFUSAL if status == 200 else _MAX_VERBOSE_REFUSAL
    if len(content) > longest or b"nauthorized" not in content:
        return False
    return wire.is_unauthorized(_json(response, longest), success=status == 200)


def error_of(response: Response, redactor: Redactor, *, retry_after: float | None) -> APIStatusError | None:
    """Return the error for a reply, or `None` if the call succeeded."""
    return _error(response, redactor, retry_after, refused=is_unauthorized(response))


def _error(
    response: Response,
    redactor: Redactor,
    retry_after: float | None,
    *,
    refused: bool,
    login_excerpt: tuple[str | None, object] | None = None,
) -> APIStatusError | None:
    """Map a status to an error.

    `login_excerpt` is the sentence and body to show of a login's reply, which may contain a token not known yet.
    """
    status = response.status
    if 200 <= status < 300 and not refused:
        return None
    # Masked before the sentence is shortened, since half a token would not be recognised.
    sentence: str | None
    body: object
    if login_excerpt is not None:
        sentence, body = login_excerpt
    elif (data := _json(response)) is None:
        body = (text := redactor.excerpt(response.content))
        sentence = wire.find_sentence_in_text(text)
    else:
        body = redactor.value(data)
        sentence = wire.find_sentence(body)
    words = f": {sentence}" if sentence else ""
    if refused:
        return AuthenticationError(
            f"the service does not accept the token{words}; if each login ends the account's older tokens, share one"
            " login among all processes of the account: see token_store",
            status=status,
            body=body,
        )
    if status == 429:
        until = "" if retry_after is None else f", and to wait {format_seconds(retry_after)}"
        return RateLimitedError(
            f"the service asks for fewer calls{until}{words}", retry_after=retry_after, status=status, body=body
        )
    if status in (400, 413, 422):
        return BadRequestError(f"the service found the request wrong{words}", status=status, body=body)
    if status == 404:
        return NotFoundError(f"the service has nothing there{words}", status=status, body=body)
    if status >= 500:
        failed = ServerError(f"the service failed{words}", status=status, body=body)
        failed.retry_after = retry_after
        return failed
    if 300 <= status < 400:
        where = destination(response.header("location"))
        if where and login_excerpt is not None:
            where = _without_tokens(where, _STEP)
        target = f" to {redactor.text(where)}" if where else ""
        return APIStatusError(
            f"the service redirects{target}, and redirects are never followed: check base_url", status=status, body=body
        )
    if status == 407:
        return APIStatusError(
            f"a proxy asks for a user and password: put them into the proxy's URL{words}", status=status, body=body
        )
    if status == 408:
        # This is not a refusal: the outcome of a write is unknown.
        return APIStatusError(f"the service gave up waiting for the request{words}", status=status, body=body)
    if status < 200:
        return APIStatusError(f"the service gave no final answer{words}", status=status, body=body)
    return APIStatusError(f"the service refused the call{words}", status=status, body=body)


def login_error(response: Response, redactor: Redactor, *, retry_after: float | None) -> APIStatusError | None:
    """Map the reply to a login to an error, or to none.

    A rejection ends all logins, so a wrong address, a proxy's page or an outage must not count as one. It needs a JSON
    object with a reason and without a token, and a suitable status.

    The reply may contain a token that is not known yet. So the error quotes at most one sentence of its JSON, and masks
    every word that could be a token.
    """
    data = _json(response)
    sentence = wire.find_sentence(redactor.value(data)) if isinstance(data, dict) else None
    sentence = None if sentence is None else _without_tokens(sentence)
    body: object = None if sentence is None else {"message": sentence}
    if response.status in _REJECTED:
        if wire.find_rejection(data) is not None:
            reason = (sentence or "it gave no reason").rstrip(".")
            return LoginRejectedError(
                f"the service rejected the email or password: {reason}{UNTIL_CHANGED}",
                status=response.status,
                body=body,
            )
        if response.status == 401:
            return AuthenticationError("the login was refused", status=401)
    # A login sends no token that could be refused, so the status decides.
    error = _error(response, redactor, retry_after, refused=False, login_excerpt=(sentence, body))
    if isinstance(error, NotFoundError):
        error.args = (f"{error.message}; base_url may be wrong",)
    return error


def _without_tokens(sentence: str, word: re.Pattern[str] = _WORD) -> str:
    """Mask every word of a sentence that is long, or mixes letters and digits, as tokens do."""
    return word.sub(lambda found: MASK if _TOKEN.search(found.group()) else found.group(), sentence)


def _json(response: Response, longest: int = LONGEST) -> object:
    """Return the body as JSON; `None` if it is not JSON, or longer than `longest`."""
    if len(response.content) > longest:
        return None
    try:
        return wire.parse(response.content)
    except DecodeError:
        return None
