"""Composition of a client: connects its options, its connection, its endpoints and its feeds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from freight_exchange.endpoints.bids import SeenBids
from freight_exchange.endpoints.currencies import KnownCurrencies
from freight_exchange.endpoints.offers import SeenOffers
from freight_exchange.endpoints.reconcile.shared_readings import SharedReadings
from freight_exchange.endpoints.routes import SeenRoutes
from freight_exchange.endpoints.shared.service import Service
from freight_exchange.errors import ConfigurationError
from freight_exchange.options import DEFAULT_DEADLINE
from freight_exchange.platform.clock import Clock, SystemClock
from freight_exchange.transport.send import Transport, TransportOptions

if TYPE_CHECKING:
    from freight_exchange.endpoints.shared.conventions import Conventions
    from freight_exchange.errors.outcome import Reconciler
    from freight_exchange.feed.feed import Feed, OfferFeed
    from freight_exchange.feed.options import WatchOffersOptions, WatchOptions
    from freight_exchange.feed.poller import ClientParts
    from freight_exchange.hooks import Hooks
    from freight_exchange.transport.call import Limits
    from freight_exchange.transport.token import Credentials

__all__ = [
    "SharedState",
    "ViewOptions",
    "feed_of",
    "offer_feed_of",
    "option",
    "parts_for_feeds",
    "service_of",
]

T = TypeVar("T")


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ViewOptions:
    """Options of a view: those that `with_options()` may change, and those that are equal in all views."""

    conventions: Conventions
    limits: Limits
    hooks: Hooks
    page_size: int
    strict: bool


class SharedState:
    """State that a client shares with its views: the connection, the user, and records seen in listings."""

    def __init__(self, base_url: str, credentials: Credentials, options: ViewOptions, **network: Any) -> None:
        self.base_url = base_url
        self.credentials = credentials
        self.clock: Clock | None = None
        self.readings = SharedReadings()
        self.bids = SeenBids()
        self.currencies = KnownCurrencies()
        self.offers = SeenOffers()
        self.routes = SeenRoutes()
        # One login serves all views, whose deadlines may differ.
        login_limits = attrs.evolve(options.limits, deadline=max(options.limits.deadline, DEFAULT_DEADLINE))
        self.connection = Transport(
            TransportOptions(
                base_url=base_url,
                credentials=credentials,
                hooks=options.hooks,
                retry_tokens=options.limits.retries.budget,
                login_limits=login_limits,
                **network,
            )
        )

    async def account(self) -> str:
        """Return the account's email."""
        email, _ = await self.credentials()
        return email


def service_of(shared: SharedState, options: ViewOptions, reconciler: Reconciler) -> Service:
    """Return the access to the service that the endpoints of a view use."""
    return Service(
        connection=shared.connection,
        limits=options.limits,
        conventions=options.conventions,
        hooks=options.hooks,
        page_size=options.page_size,
        strict=options.strict,
        reconciler=reconciler,
    )


def feed_of(shared: SharedState, options: ViewOptions, reconciler: Reconciler, watch: WatchOptions) -> Feed:
    """Return a feed that reads through a view; raise `ConfigurationError` for an option that is invalid."""
    # Imported here: most programs never watch.
    from freight_exchange.feed.feed import Feed
    from freight_exchange.feed.sources import Requests

    service, client = parts_for_feeds(shared, options, reconciler)
    return Feed(Requests(service), client, watch)


def offer_feed_of(
    shared: SharedState, options: ViewOptions, reconciler: Reconciler, watch: WatchOffersOptions
) -> OfferFeed:
    """Return a feed of offers that reads through a view; raise `ConfigurationError` as `feed_of` does."""
    # Imported here, as above.
    from freight_exchange.feed.feed import OfferFeed
    from freight_exchange.feed.sources import Offers

    service, client = parts_for_feeds(shared, options, reconciler)
    return OfferFeed(Offers(service, shared.offers), client, watch)


def parts_for_feeds(shared: SharedState, options: ViewOptions, reconciler: Reconciler) -> tuple[Service, ClientParts]:
    """Return what a feed uses of a client. Its calls are not retried, since the feed repeats pages itself."""
    from freight_exchange.feed.poller import ClientParts

    limits = attrs.evolve(options.limits, retries=attrs.evolve(options.limits.retries, attempts=1))
    client = ClientParts(
        base_url=shared.base_url,
        account=shared.account,
        account_timeout=options.limits.deadline,
        clock=SystemClock() if shared.clock is None else shared.clock,
        hooks=options.hooks,
        instruments=options.limits.instruments,
    )
    return service_of(shared, attrs.evolve(options, limits=limits, strict=False), reconciler), client


def option(value: T | None, kind: type[T], name: str) -> T:
    """Return an option, or its default; raise `ConfigurationError` for a value of another type."""
    if value is None:
        return kind()
    if not isinstance(value, kind):
        raise ConfigurationError(f"{name} must be {kind.__name__}(...), not {type(value).__name__}")
    return value
