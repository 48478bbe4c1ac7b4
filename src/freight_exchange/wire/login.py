"""Decoder of the replies to logins, and of refusals (service document, 4.1 and 7)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Final, cast

import attrs

from freight_exchange.errors import DecodeError
from freight_exchange.models import User
from freight_exchange.wire import fields, shapes
from freight_exchange.wire.excerpt import is_secret
from freight_exchange.wire.repeated_keys import RepeatedKeys
from freight_exchange.wire.scalars import number

__all__ = [
    "Login",
    "decode_login",
    "decode_user",
    "find_rejection",
    "find_sentence",
    "find_sentence_in_text",
    "is_unauthorized",
    "mask_user",
]

# A lifetime of more than thirty years is a date, in seconds since 1970.
_EARLIEST_EPOCH: Final = 10**9
_MAX_SENTENCE: Final = 300
_DEEPEST_SENTENCE: Final = 4
_PERSONAL: Final = frozenset(key for field in shapes.USER.fields for key in field.keys) - set(fields.IMAGE_URL)
_COMPANY: Final = frozenset(key for field in shapes.COMPANY.fields for key in field.keys)
_NOT_FIELDS: Final = fields.ASIDES | {key.casefold() for key in fields.SENTENCES}
_HTML: Final = re.compile(r"<[a-z!/?]", re.IGNORECASE)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Login:
    """Result of a login.

    Attributes:
        user: The account.
        raw: JSON of the account without its secrets, as `decode_user()` reads it.
        token: The bearer token, opaque.
        lifetime: Seconds until the token expires, or `None` if the reply gives a date or nothing.
        expires_at: The date when it expires, in seconds since 1970, or `None`.
    """

    user: User
    raw: Mapping[str, object]
    token: str
    lifetime: float | None = None
    expires_at: float | None = None


def decode_login(data: object) -> Login:
    """Decode the account and its token.

    Raises:
        DecodeError: The reply has no account or token. `rejection` tells whether it is a rejection.
    """
    result = _login(data)
    if isinstance(result, Login):
        return result
    # A traceback with locals would show the token in the reply.
    del data
    path, reason = result
    raise DecodeError(reason, path=path)


def decode_user(raw: object) -> User:
    """Decode the user of a login's reply; fields of an unexpected type go to `extra`.

    Raises:
        DecodeError: The value is not a JSON object.
    """
    if not isinstance(raw, dict):
        raise DecodeError("no object", path=fields.USER)
    return shapes.USER.structure(raw)


def mask_user(raw: Mapping[str, object], mask: Callable[[object], object]) -> dict[str, object]:
    """Mask the fields of a user that may repeat the token or the password: the avatar's URL and unknown fields.

    The fields of the person and the company are not masked, since a short password may be a part of a name.
    """
    return _masked(raw, _PERSONAL, mask)


def _masked(raw: Mapping[str, object], known: frozenset[str], mask: Callable[[object], object]) -> dict[str, object]:
    masked: dict[str, object] = {}
    for key, value in raw.items():
        if known is _PERSONAL and key == fields.USER_COMPANY and isinstance(value, dict):
            masked[key] = _masked(value, _COMPANY, mask)
        elif key in known and not isinstance(value, dict | list):
            masked[key] = value
        else:
            masked[str(mask(key))] = mask(value)
    return masked


def find_rejection(data: object) -> str | None:
    """Return the sentence of a reply that rejects a login (a message and no token), else `None`."""
    if not isinstance(data, dict) or _token(data) is not None:
        return None
    if fields.MESSAGE in data or fields.UNAUTHORIZED in data:
        return find_sentence(data) or "the service gave no reason"
    return None


def is_unauthorized(data: object, *, success: bool) -> bool:
    """Return whether a reply only refuses the token (service document, 7).

    A reply that has a result too is not a refusal: its write may have been carried out, and a repeat would do it twice.
    With a status of `success`, an empty value of the key is not a refusal either.
    """
    if not isinstance(data, dict) or fields.UNAUTHORIZED not in data:
        return False
    if success and (not data[fields.UNAUTHORIZED] or isinstance(data, RepeatedKeys) or _reports_success(data)):
        # If a key repeats, the lost value may have been the result.
        return False
    return not any(_is_result(key, value) for key, value in data.items() if key != fields.UNAUTHORIZED)


def _is_result(key: str, value: object) -> bool:
    return (isinstance(value, dict | list) and bool(value)) or key in fields.OFFER_ID


def _reports_success(data: dict[str, object]) -> bool:
    """Return whether a reply reports success, or has the identifier of a new record."""
    return any(
        key == "id" or (key.casefold() in fields.SUCCESSES and value in (True, "true", "1"))
        for key, value in data.items()
    )


def find_sentence(data: object) -> str | None:
    """Return the sentence in the body of a refusal, or `None` if there is none."""
    found = next(_sentences(data), None)
    if found is None or len(found) <= _MAX_SENTENCE:
        return found
    return f"{found[: _MAX_SENTENCE - 3]}..."


def find_sentence_in_text(text: str) -> str | None:
    """Return the text of a refusal that is not JSON, if it is short, plain and not HTML."""
    words = " ".join(text.split())
    if not words or len(words) > _MAX_SENTENCE or not words.isprintable() or _HTML.search(words):
        return None
    return words


def _login(data: object) -> Login | tuple[str, str]:
    if not isinstance(data, dict):
        return "$", "no login reply"
    holder = data.get(fields.USER)
    if not isinstance(holder, dict):
        return fields.USER, "missing from the login reply"
    token = _token(data)
    if not isinstance(token, str):
        return f"{fields.USER}.{fields.TOKEN}", "missing from the login reply"
    if not token.isascii() or not token.isprintable() or " " in token:
        return f"{fields.USER}.{fields.TOKEN}", "no token that a header can carry"
    lifetime = _lifetime(holder) if any(holder.get(key) is not None for key in fields.LIFETIME) else _lifetime(data)
    raw = cast("dict[str, object]", _without_secrets(holder))
    is_date = lifetime is not None and lifetime > _EARLIEST_EPOCH
    return Login(
        user=decode_user(raw),
        raw=raw,
        token=token,
        lifetime=None if is_date else lifetime,
        expires_at=lifetime if is_date else None,
    )


def _without_secrets(value: object) -> object:
    if isinstance(value, dict):
        return {key: _without_secrets(item) for key, item in value.items() if not is_secret(key)}
    return [_without_secrets(item) for item in value] if isinstance(value, list) else value


def _token(data: dict[str, object]) -> object:
    """Return the value of the token's key, in the user or beside it, or `None`."""
    holder = data.get(fields.USER)
    inside = holder.get(fields.TOKEN) if isinstance(holder, dict) else None
    return inside or data.get(fields.TOKEN) or None


def _lifetime(holder: dict[str, object]) -> float | None:
    for key in fields.LIFETIME:
        try:
            seconds = number(holder.get(key))
        except ValueError:
            # An unreadable lifetime counts as unknown: the token is used until the service refuses it.
            continue
        if seconds is not None:
            return max(0.0, float(seconds))
    return None


def _sentences(data: object, depth: int = 0) -> Iterator[str]:
    """Yield the sentences in a value, the most likely first."""
    if isinstance(data, str):
        sentence = " ".join(data.split())
        if sentence:
            yield sentence
    elif depth > _DEEPEST_SENTENCE:
        return
    elif isinstance(data, list):
        # Values under known keys come first, since an error may begin with a list that is only its position.
        for item in data:
            yield from _named(item, depth + 1) if isinstance(item, dict) else _sentences(item, depth + 1)
        for item in data:
            yield from _unnamed(item, depth + 1) if isinstance(item, dict) else ()
    elif isinstance(data, dict):
        yield from _named(data, depth + 1)
        yield from _unnamed(data, depth + 1)


def _named(data: dict[str, object], depth: int) -> Iterator[str]:
    folded = {key.casefold(): value for key, value in data.items()}
    for key in fields.SENTENCES:
        yield from _sentences(folded.get(key.casefold()), depth)


def _unnamed(data: dict[str, object], depth: int) -> Iterator[str]:
    others = {key: value for key, value in data.items() if key.casefold() not in _NOT_FIELDS}
    for value in others.values():
        if isinstance(value, dict) or (isinstance(value, list) and not _is_text(value)):
            yield from _sentences(value, depth)
    # A record with numbers is probably a copy of the request, and its texts are not messages.
    record = any(isinstance(value, (int, Decimal)) and not isinstance(value, bool) for value in others.values())
    for key, value in others.items():
        if (isinstance(value, str) and not record) or (isinstance(value, list) and _is_text(value)):
            yield from (f"{key}: {sentence}" for sentence in _sentences(value, depth))


def _is_text(items: list[object]) -> bool:
    return all(isinstance(item, str) for item in items)
