"""Access token and its lifetime. No I/O but the clocks."""

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
    """Return the most seconds before the end of a lifetime in which a token is refreshed early."""
    return min(_LEEWAY, _LEEWAY_SHARE * lifetime)


@attrs.frozen(kw_only=True)
class Grant:
    """Result of a login.

    Attributes:
        token: The bearer token; opaque.
        lifetime: Seconds until it expires, or `None` if the service gave none.
        user: JSON of the user in the login's reply, for a token file.
        obtained: Time at which the login was sent, if not just now.
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
        lifetime: Seconds from `obtained` until it expires; `None`: until the service refuses it.
        leeway: Seconds before that in which it is refreshed early.
        obtained: When the login that gave it was sent.
        after_refusal: Whether it was obtained because the one before was refused.
        adopted: Whether another process obtained it; the service may have refused it since.
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
            # This process has not logged in yet: after a refusal it still may.
            after_refusal=after_refusal and not grant.adopted,
            adopted=grant.adopted,
        )

    def is_expired(self) -> bool:
        return self.lifetime is not None and self.obtained.elapsed() >= self.lifetime

    def is_refresh_due(self) -> bool:
        """Return whether to refresh it, though it may still serve."""
        return self.lifetime is not None and self.obtained.elapsed() >= self.lifetime - self.leeway

    def replaced_refused_token(self) -> bool:
        """Return whether it has just replaced a refused token: another login would be the second for one refusal."""
        return self.after_refusal and self.obtained.elapsed() < _REPLACEMENT_AGE
