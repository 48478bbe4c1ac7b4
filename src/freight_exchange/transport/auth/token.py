"""Access token and its lifetime. No I/O except for the clocks."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from freight_exchange.platform.clock import Reading
    from freight_exchange.transport.secrets import Secret

__all__ = ["AccessToken", "Grant", "leeway_of"]

_LEEWAY = 300.0
_LEEWAY_SHARE = 0.1
_REPLACEMENT_AGE = 30.0


def leeway_of(lifetime: float) -> float:
    """Return how many seconds before its end a token is refreshed at the earliest."""
    return min(_LEEWAY, _LEEWAY_SHARE * lifetime)


@attrs.frozen(kw_only=True)
class Grant:
    """Result of a login.

    Attributes:
        token: The bearer token; opaque.
        lifetime: Seconds until it expires, or `None` if the service gave none.
        user: JSON of the user in the login's reply, for a token file.
        obtained: Time at which the login was sent; `None` for a login that has just ended.
        adopted: Whether another process logged in.
    """

    token: Secret
    lifetime: float | None
    user: Mapping[str, object] | None = None
    obtained: Reading | None = None
    adopted: bool = False


@attrs.frozen(kw_only=True)
class AccessToken:
    """Token that calls use.

    Attributes:
        generation: 1 for the client's first token, one more for each later one.
        token: The bearer token.
        lifetime: Seconds from `obtained` until it expires; `None` if it is valid until the service refuses it.
        leeway: Seconds before its end in which it is refreshed early.
        obtained: When its login was sent.
        after_refusal: Whether it replaced a refused token.
        adopted: Whether another process obtained it. The service may have refused it since then.
    """

    generation: int
    token: Secret
    lifetime: float | None
    leeway: float
    obtained: Reading
    after_refusal: bool
    adopted: bool = False

    @classmethod
    def from_grant(cls, generation: int, grant: Grant, *, obtained: Reading, after_refusal: bool) -> AccessToken:
        lifetime = grant.lifetime if grant.lifetime is not None and grant.lifetime > 0 else None
        leeway = 0.0 if lifetime is None else leeway_of(lifetime) * random.uniform(0.8, 1.0)
        return cls(
            generation=generation,
            token=grant.token,
            lifetime=lifetime,
            leeway=leeway,
            obtained=obtained if grant.obtained is None else grant.obtained,
            # For an adopted token this process has not logged in yet, so it may do so after the refusal.
            after_refusal=after_refusal and not grant.adopted,
            adopted=grant.adopted,
        )

    def is_expired(self) -> bool:
        return self.lifetime is not None and self.obtained.elapsed() >= self.lifetime

    def is_refresh_due(self) -> bool:
        """Return whether to refresh the token, although it may still be valid."""
        return self.lifetime is not None and self.obtained.elapsed() >= self.lifetime - self.leeway

    def replaced_refused_token(self) -> bool:
        """Return whether the token has just replaced a refused one, so that another login would be the second."""
        return self.after_refusal and self.obtained.elapsed() < _REPLACEMENT_AGE
