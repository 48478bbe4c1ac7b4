"""Cached login: the content of a token file, and its age. No I/O except for the clocks."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from decimal import Decimal
from typing import Final, Self, TypeVar

import attrs

from freight_exchange import wire
from freight_exchange.errors import DecodeError, ValidationError
from freight_exchange.platform import clock
from freight_exchange.transport.auth.token import leeway_of
from freight_exchange.transport.secrets import Secret

__all__ = ["CachedLogin", "InvalidLoginFileError"]

T = TypeVar("T")

_VERSION: Final = 2
"""Files of version 1 held the fields of `User`. They are discarded: the next login replaces them."""
_MAX_CLOCK_SKEW: Final = 300.0
"""Seconds by which a login may seem to be in the future, as the clocks of two machines differ."""
_MAX_SECONDS: Final = 1e12


class InvalidLoginFileError(Exception):
    """Unusable token file. The message has the reason and advice, and does not quote the file."""


@attrs.frozen(kw_only=True)
class CachedLogin:
    """Login that any process of the same user may use.

    Attributes:
        base_url: The service that gave the token.
        account: The email that logged in.
        token: The bearer token.
        lifetime: Seconds from `obtained` until it expires, or `None` if the service gave none.
        obtained: When the login was sent.
        user: JSON of the user in the login's reply, without its secrets.
    """

    base_url: str
    account: str
    token: Secret
    lifetime: float | None
    obtained: clock.Reading
    user: Mapping[str, object]

    def is_fresh(self) -> bool:
        """Return whether the login can be used without a refresh."""
        if self.lifetime is None:
            return True
        age = self.age()
        return age is not None and age < self.lifetime - leeway_of(self.lifetime)

    def age(self) -> float | None:
        """Return the seconds since it was obtained, the maximum of all clocks; `None` if no clock is valid."""
        obtained = self.obtained
        by_wall = clock.wall_time() - obtained.wall
        by_boot = clock.boot_time() - obtained.boot
        if obtained.boot_id and by_boot >= 0 and obtained.boot_id == clock.boot_id():
            return max(by_wall, by_boot)
        return None if by_wall < -_MAX_CLOCK_SKEW else max(by_wall, 0.0)

    def to_bytes(self) -> bytes:
        """Return the content of a token file.

        Raises:
            InvalidLoginFileError: It cannot be written as JSON.
        """
        content = self._dump()
        if content is None:
            raise InvalidLoginFileError("cannot hold the result of the login")
        return content

    def _dump(self) -> bytes | None:
        values = {
            "version": _VERSION,
            "base_url": self.base_url,
            "account": self.account,
            "token": self.token.reveal(),
            "lifetime": self.lifetime,
            "wall": self.obtained.wall,
            "boot": self.obtained.boot,
            "boot_id": self.obtained.boot_id,
            # A reply may contain integers that this package cannot write.
            "user": {key: value for key, value in self.user.items() if _dumped({key: value}) is not None},
        }
        return _dumped(values)

    @classmethod
    def from_bytes(cls, content: bytes, *, base_url: str | None = None, account: str | None = None) -> Self:
        """Return the login in a token file. If a service and account are given, it must be theirs.

        Raises:
            InvalidLoginFileError: The file has no login, or that of another account or service.
        """
        login, problem = cls._parse(content, base_url, account)
        if login is None:
            # A traceback with locals would show the token.
            del content
            raise InvalidLoginFileError(problem)
        return login

    @classmethod
    def _parse(cls, content: bytes, base_url: str | None, account: str | None) -> tuple[Self | None, str]:
        try:
            values = _mapping(wire.parse(content))
            if _exactly(int, values["version"]) != _VERSION:
                return None, "was written by another version of this package: the next login replaces it"
            login = cls(
                base_url=_exactly(str, values["base_url"]),
                account=_exactly(str, values["account"]),
                token=Secret(_header_word(values["token"])),
                lifetime=None if values["lifetime"] is None else _seconds(values["lifetime"]),
                obtained=clock.Reading(
                    wall=_seconds(values["wall"]),
                    boot=_seconds(values["boot"]),
                    boot_id=_exactly(str, values["boot_id"]),
                ),
                user=_mapping(values["user"]),
            )
        except (DecodeError, KeyError, TypeError, ValueError):
            return None, "holds no login that can be read: the next login replaces it"
        if base_url not in (None, login.base_url) or account not in (None, login.account):
            return None, "holds the login of another account or service: give each a file of its own"
        return login, ""


def _dumped(value: object) -> bytes | None:
    """Return the value as JSON, or `None` if that fails: an error would have the token in its frames."""
    with suppress(ValidationError):
        return wire.dump(value)
    return None


def _exactly(kind: type[T], value: object) -> T:
    # `isinstance` would accept a bool as an int.
    if type(value) is not kind:
        raise ValueError
    return value


def _mapping(value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise ValueError  # noqa: TRY004 - of a file's content, like every other fault in it
    return value


def _header_word(value: object) -> str:
    token = _exactly(str, value)
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise ValueError
    return token


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | Decimal) or not 0 <= value < _MAX_SECONDS:
        raise ValueError
    return float(value)
