"""Login that processes share: the content of a token file, and its age. Pure, but for clocks."""

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

__all__ = ["CachedLogin", "UnfitError"]

Kind = TypeVar("Kind")

_VERSION: Final = 2
"""Files of version 1 held the fields of `User`. They are discarded: the next login replaces them."""
_CLOCKS_APART: Final = 300.0
"""Seconds by which a login may seem to lie ahead: the clocks of two machines differ, and one is put right."""
_MOST_SECONDS: Final = 1e12


class UnfitError(Exception):
    """A file cannot be used. Says why and what to do, and quotes nothing of it."""


@attrs.frozen(kw_only=True)
class CachedLogin:
    """A login that any process of the same user may go on with.

    Attributes:
        base_url: The service that gave the token.
        account: The email that logged in.
        token: The bearer token.
        lifetime: Seconds from `obtained` that it is good for, or `None` where the service did not say.
        obtained: When the login was sent.
        user: JSON of the user in the login's reply, without its secrets.
    """

    base_url: str
    account: str
    token: Secret
    lifetime: float | None
    obtained: clock.Reading
    user: Mapping[str, object]

    def fresh(self) -> bool:
        """Whether it is not yet time to renew it."""
        if self.lifetime is None:
            return True
        age = self.age()
        return age is not None and age < self.lifetime - leeway_of(self.lifetime)

    def age(self) -> float | None:
        """Return the seconds since it was obtained, by the clock that shows most; `None` where none can tell."""
        obtained = self.obtained
        by_wall = clock.wall_time() - obtained.wall
        by_boot = clock.boot_time() - obtained.boot
        if obtained.boot_id and by_boot >= 0 and obtained.boot_id == clock.boot_id():
            return max(by_wall, by_boot)
        return None if by_wall < -_CLOCKS_APART else max(by_wall, 0.0)

    def text(self) -> bytes:
        """Return what `read` reads.

        Raises:
            UnfitError: No JSON can hold it.
        """
        content = self._text()
        if content is None:
            raise UnfitError("cannot hold what the login gave")
        return content

    def _text(self) -> bytes | None:
        said = {
            "version": _VERSION,
            "base_url": self.base_url,
            "account": self.account,
            "token": self.token.reveal(),
            "lifetime": self.lifetime,
            "wall": self.obtained.wall,
            "boot": self.obtained.boot,
            "boot_id": self.obtained.boot_id,
            # A reply may hold integers that this package never writes.
            "user": {key: value for key, value in self.user.items() if _written({key: value}) is not None},
        }
        return _written(said)

    @classmethod
    def read(cls, content: bytes, *, base_url: str | None = None, account: str | None = None) -> Self:
        """The login that was kept; of this service and account, where they are given.

        Raises:
            UnfitError: It is none, or another's.
        """
        login, problem = cls._read(content, base_url, account)
        if login is None:
            # With the content in a frame, a traceback that shows locals would show the token.
            del content
            raise UnfitError(problem)
        return login

    @classmethod
    def _read(cls, content: bytes, base_url: str | None, account: str | None) -> tuple[Self | None, str]:
        try:
            said = _mapping(wire.parse(content))
            if _as(int, said["version"]) != _VERSION:
                return None, "was written by another version of this package: the next login replaces it"
            login = cls(
                base_url=_as(str, said["base_url"]),
                account=_as(str, said["account"]),
                token=Secret(_header_word(said["token"])),
                lifetime=None if said["lifetime"] is None else _seconds(said["lifetime"]),
                obtained=clock.Reading(
                    wall=_seconds(said["wall"]), boot=_seconds(said["boot"]), boot_id=_as(str, said["boot_id"])
                ),
                user=_mapping(said["user"]),
            )
        except (DecodeError, KeyError, TypeError, ValueError):
            return None, "holds no login that can be read: the next login replaces it"
        if base_url not in (None, login.base_url) or account not in (None, login.account):
            return None, "holds the login of another account or service: give each a file of its own"
        return login, ""


def _written(value: object) -> bytes | None:
    """Dump as JSON, or return `None`: no error is raised with the token in a frame."""
    with suppress(ValidationError):
        return wire.dump(value)
    return None


def _as(kind: type[Kind], value: object) -> Kind:
    # Exactly: a bool is an int to `isinstance`.
    if type(value) is not kind:
        raise ValueError
    return value


def _mapping(value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise ValueError  # noqa: TRY004 - of a file's content, like every other fault in it
    return value


def _header_word(value: object) -> str:
    token = _as(str, value)
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise ValueError
    return token


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | Decimal) or not 0 <= value < _MOST_SECONDS:
        raise ValueError
    return float(value)
