"""Quirks of servers: behaviour that the service's document leaves open, and failures of real services."""

from __future__ import annotations

from typing import Final, Literal

import attrs

__all__ = ["FORMS", "PICKS", "Cache", "Empty", "Failure", "Freeze", "Quirks", "Replicas", "Span", "Windows"]

Pick = Literal["request", "minute", "hour", "kind"]
Form = Literal["object", "list", "null"]
PICKS: Final[tuple[Pick, ...]] = ("request", "minute", "hour", "kind")
FORMS: Final[tuple[Form, ...]] = ("object", "list", "null")
Windows = Literal["exact", "minutes down", "minutes up", "hours down", "hours up", "ignored", "an hour", "capped"]


@attrs.frozen
class Span:
    """Span of true time."""

    start: float
    end: float

    def __contains__(self, at: float) -> bool:
        return self.start <= at < self.end


@attrs.frozen
class Cache:
    """Cache of replies.

    Attributes:
        key: Part of a request that selects the cached reply: the whole `body`, or the `page` (all but the window).
    """

    ttl: float
    listings: bool
    lookups: bool
    key: Literal["body", "page"]
    until: float


@attrs.frozen
class Replicas:
    """Copies of the database, each with its own lag; look-ups under `kind` use the first one."""

    lags: tuple[float, ...]
    pick: Pick
    until: float


@attrs.frozen
class Freeze:
    """Period in which replies show the data of one moment; `moves` means that windows still count from the present."""

    span: Span
    listings: bool
    lookups: bool
    moves: bool


@attrs.frozen
class Empty:
    """Failure in which replies are empty; with a `share` below 1, only the rows of some shards are missing."""

    span: Span
    listings: bool
    lookups: bool
    share: float
    form: Form

    def hides(self, index: int) -> bool:
        """Return whether a request is in a shard that fails."""
        return index * 7919 % 1000 < self.share * 1000


@attrs.frozen
class Failure:
    """Failure in which requests get an error reply."""

    span: Span
    kind: Literal["503", "429", "429 retry", "refused", "timeout", "400", "html", "token"]
    share: float


@attrs.frozen
class Quirks:
    """All quirks of one server.

    Attributes:
        clamps: Page limits in rows, each with the time from which it holds.
        jumps: Steps of the service's clock: the time and the seconds of each.
        drift: Seconds that the service's clock gains in a second.
    """

    cache: Cache | None = None
    replicas: Replicas | None = None
    freezes: tuple[Freeze, ...] = ()
    empties: tuple[Empty, ...] = ()
    failures: tuple[Failure, ...] = ()
    shuffled: bool = False
    clamps: tuple[tuple[float, int], ...] = ((0.0, 1000),)
    texts: Literal["never", "always", "at times"] = "never"
    cases: Literal["never", "always", "at times"] = "never"
    releases: bool = False
    duplicates: bool = False
    windows: Windows = "exact"
    cap: int = 432_000
    lookups_have_windows: bool = False
    past_end: Literal["empty", "again", "refused"] = "empty"
    jumps: tuple[tuple[float, float], ...] = ()
    drift: float = 0.0
    latency: float = 0.2
    token_lifetime: int = 86_400

    @property
    def has_cache_of_pages(self) -> bool:
        return self.cache is not None and self.cache.listings and self.cache.key == "page"

    def service_clock(self, at: float) -> float:
        return at * (1 + self.drift) + sum(by for since, by in self.jumps if since <= at)

    def clamp(self, at: float) -> int:
        return [rows for since, rows in self.clamps if since <= at][-1]

    def stale_in_quiet(self, quiet: float) -> float:
        """Return the greatest age of a reply after `quiet` began, beyond the usual time of a withdrawal."""
        age = 0.0
        if self.cache is not None:
            age += self.cache.ttl
        if self.replicas is not None and self.replicas.until > quiet:
            age += max(self.replicas.lags)
        return age

    def stale(self) -> float:
        """Return the greatest age of a reply at any time."""
        age = 0.0
        if self.cache is not None:
            age += self.cache.ttl
        if self.replicas is not None:
            age += max(self.replicas.lags)
        return age + max((freeze.span.end - freeze.span.start for freeze in self.freezes), default=0.0)
