"""Calls of a client: its endpoints, its feed, raw requests and reconciliation."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, overload

import attrs

from freight_exchange import composition, feed, settings, wire
from freight_exchange.composition import SharedState, ViewOptions
from freight_exchange.endpoints.bids import Bids
from freight_exchange.endpoints.carriers import Carriers
from freight_exchange.endpoints.currencies import Currencies
from freight_exchange.endpoints.offers import Offers
from freight_exchange.endpoints.requests import Requests
from freight_exchange.endpoints.routes import Routes
from freight_exchange.endpoints.shared.service import Service
from freight_exchange.errors import ValidationError
from freight_exchange.errors.outcome import DEFAULT_SETTLE
from freight_exchange.models import (
    Bid,
    CreateRoute,
    Listing,
    Publish,
    RateRequest,
    RawWrite,
    Reconciliation,
    Respond,
    Route,
    SubmitOffer,
    UpdateRoute,
    Write,
)
from freight_exchange.models.offer_filter import OfferFilter
from freight_exchange.models.request_filter import RequestFilter
from freight_exchange.options import DEFAULT_ALLOWANCE, DEFAULT_DEADLINE, DEFAULT_INTERVAL, Start
from freight_exchange.platform.database_url import masked
from freight_exchange.transport.call import RequestKind

if TYPE_CHECKING:
    from freight_exchange.endpoints.reconcile.reconcile import Readers
    from freight_exchange.feed.options import WatchOffersOptions, WatchOptions
    from freight_exchange.feed.poller import ClientParts
    from freight_exchange.store import Store

__all__ = ["Calls"]


class Calls:
    """Calls of a client, by the options of one view."""

    def __init__(self, shared: SharedState, options: ViewOptions) -> None:
        self._shared = shared
        self._options = options

    @cached_property
    def requests(self) -> Requests:
        """Rate requests."""
        return Requests(self._service)

    @cached_property
    def offers(self) -> Offers:
        """Offers on the shipper's own requests."""
        return Offers(self._service, self._shared.offers)

    @cached_property
    def bids(self) -> Bids:
        """The forwarder's own offers."""
        return Bids(self._service, self.currencies)

    @cached_property
    def routes(self) -> Routes:
        """Routes."""
        return Routes(self._service, self._shared.routes)

    @cached_property
    def carriers(self) -> Carriers:
        """Carriers."""
        return Carriers(self._service)

    @cached_property
    def currencies(self) -> Currencies:
        """Currencies."""
        return Currencies(self._service, self._shared.currencies)

    @cached_property
    def _service(self) -> Service:
        return composition.service_of(self._shared, self._options, reconciler=self)

    def watch(
        self,
        *,
        store: Store | str | os.PathLike[str] | None = None,
        start: Start = "now",
        interval: timedelta = DEFAULT_INTERVAL,
        allowance: timedelta = DEFAULT_ALLOWANCE,
        where: RequestFilter | None = None,
        name: str = "requests",
        standby: bool = False,
    ) -> feed.Feed:
        """Return a feed of requests as they appear, change and are withdrawn (service document, 4.4).

            async with exchange.watch(store="bot.db") as feed:
                async for event in feed:
                    print(event.kind, event)

        Args:
            store: Where the feed keeps its state: the path of an SQLite file, the URL of a PostgreSQL database, or a
                store of `freight_exchange.store`; `None` keeps it in memory. One feed at a time opens a path: feeds
                that share a file share one `Store` object, and differ in `name`.
            start: Requests that the first scan with a new store reports as new: none (`now`), all that the service
                lists, which are those of five days (`backfill`), or those updated within a `timedelta`. Later runs
                ignore `start`.
            interval: Time between scans, varied by a tenth; from one second to a day.
            allowance: Time that the service may take to show an update. Set more if the log reports late updates.
            where: Filter of the events. The feed also tracks the other requests.
            name: Name of the feed, which must differ among feeds that share a store.
            standby: Wait while another process holds the feed, instead of raising `HeldError`.

        Raises:
            ConfigurationError: An argument is invalid.
        """
        from freight_exchange.feed.options import WatchOptions

        store = masked(store)
        options = WatchOptions(
            store=store, start=start, interval=interval, allowance=allowance, where=where, name=name, standby=standby
        )
        return self._feed(options)

    def watch_offers(
        self,
        *,
        store: Store | str | os.PathLike[str] | None = None,
        start: Literal["now", "backfill"] = "backfill",
        interval: timedelta = DEFAULT_INTERVAL,
        where: OfferFilter | None = None,
        name: str = "offers",
        standby: bool = False,
    ) -> feed.OfferFeed:
        """Return a feed of offers on your own requests: new, changed, answered and gone (service document, 4.7).

            async with exchange.watch_offers(store="tender.db") as feed:
                async for event in feed:
                    print(event.kind, event)

        Args:
            store: Where the feed keeps its state, as for `watch`.
            start: Offers that the first scan with a new store reports as new: all unanswered ones (`backfill`), or none
                (`now`). Later runs ignore `start`.
            interval: Time between scans, varied by a tenth; from one second to a day. Each reads the whole listing.
            where: Filter of the events. The feed also tracks the other offers.
            name: Name of the feed, which must differ among feeds that share a store.
            standby: Wait while another process holds the feed, instead of raising `HeldError`.

        Raises:
            ConfigurationError: An argument is invalid.
        """
        from freight_exchange.feed.options import WatchOffersOptions

        store = masked(store)
        options = WatchOffersOptions(
            store=store, start=start, interval=interval, where=where, name=name, standby=standby
        )
        return self._offer_feed(options)

    def _feed(self, options: WatchOptions) -> feed.Feed:
        return composition.feed_of(self._shared, self._options, self, options)

    def _feed_parts(self) -> tuple[Service, ClientParts]:
        """Return what the pollers of a bot use of this client."""
        return composition.parts_for_feeds(self._shared, self._options, self)

    def _offer_feed(self, options: WatchOffersOptions) -> feed.OfferFeed:
        return composition.offer_feed_of(self._shared, self._options, self, options)

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str | int] | None = None,
        body: object = None,
        repeatable: bool = False,
    ) -> Any:
        """Call any operation of the service: return the decoded JSON, or `None` for an empty reply.

        Args:
            method: The HTTP method.
            path: Relative to the API root.
            params: Parameters of the query string.
            body: A value that JSON can represent; numbers may be `Decimal`.
            repeatable: `True` if sending the request twice does no harm, as with GET and HEAD. Any other request is a
                write: it is sent at most once, and raises `OutcomeUnknownError` if it may have been carried out.

        Raises:
            ValidationError: The path, the parameters or the body cannot be sent, `offset` comes without `rowsperpage`,
                or `repeatable` is not a `bool`.
            OutcomeUnknownError: The request is a write that may or may not have been carried out.
            DecodeError: The reply to a read is not JSON.
        """
        verb = settings.method(method)
        relative = settings.path(path)
        pairs = settings.parameters(params)
        wire.check_paired(params)
        wire.check_paired(body)
        if not isinstance(repeatable, bool):
            raise ValidationError(f"repeatable must be True or False, not {repeatable!r}", field="repeatable")
        is_read = repeatable or verb in ("GET", "HEAD")
        return await self._service.raw(
            RequestKind.READ if is_read else RequestKind.WRITE,
            verb,
            relative,
            params=pairs,
            content=None if body is None else wire.dump(body),
            write=None if is_read else RawWrite(verb, relative),
        )

    @overload
    async def reconcile(
        self, write: SubmitOffer, *, settle: timedelta = ..., baseline: Sequence[object] | None = None
    ) -> Reconciliation[Bid]: ...
    @overload
    async def reconcile(
        self, write: Publish, *, settle: timedelta = ..., baseline: Sequence[object] | None = None
    ) -> Reconciliation[RateRequest | Listing]: ...
    @overload
    async def reconcile(
        self, write: Respond, *, settle: timedelta = ..., baseline: Sequence[object] | None = None
    ) -> Reconciliation[Listing]: ...
    @overload
    async def reconcile(
        self, write: CreateRoute | UpdateRoute, *, settle: timedelta = ..., baseline: Sequence[object] | None = None
    ) -> Reconciliation[Route]: ...
    @overload
    async def reconcile(
        self, write: Write, *, settle: timedelta = ..., baseline: Sequence[object] | None = None
    ) -> Reconciliation: ...
    async def reconcile(
        self, write: Write, *, settle: timedelta = DEFAULT_SETTLE, baseline: Sequence[object] | None = None
    ) -> Reconciliation:
        """Find out whether a write happened; `OutcomeUnknownError.reconcile()` calls this.

        It reads the listings that would show the write (service document, 4.4 to 4.7 and 4.9), and sends no write.

        Args:
            write: The `write` of an `OutcomeUnknownError`.
            settle: Time that the service may take to show a write.
            baseline: Records of the same listing, read with `sweep=True` before the write was sent, if the caller has
                them.

        Returns:
            `Applied(record)`, `NotApplied()`, `Conflict(record)` or `StillUnknown(candidates)`.

        Raises:
            ValidationError: An argument is invalid.
            LoginRejectedError: The service rejected the email or password.
        """
        if not isinstance(write, Write):
            raise ValidationError(
                f"write must be an OutcomeUnknownError's write, not {type(write).__name__}", field="write"
            )
        # Imported here, as most processes never need it.
        from freight_exchange.endpoints.reconcile import reconcile

        return await reconcile.reconcile(
            self._with_full_deadline(strict=True)._readers(),
            self._with_full_deadline(strict=False)._readers(),
            write,
            settle=settle,
            baseline=baseline,
        )

    def _with_full_deadline(self, *, strict: bool) -> Calls:
        """Return calls whose deadline is at least the default one."""
        limits = self._options.limits
        limits = attrs.evolve(limits, deadline=max(limits.deadline, DEFAULT_DEADLINE))
        return Calls(self._shared, attrs.evolve(self._options, limits=limits, strict=strict))

    async def _own_bids(self) -> list[Bid]:
        """Return the account's bids, from a reading that begins now or later and that other callers may share."""
        return await self._readers().own_bids(None)

    def _has_seen_bid_on(self, request: int) -> bool:
        """Return `True` once a reading of the account's bids has shown one on the request."""
        return request in self._shared.bids

    def _readers(self) -> Readers:
        from freight_exchange.endpoints.reconcile import reconcile

        return reconcile.Readers(
            bids=self.bids,
            offers=self.offers,
            routes=self.routes,
            shared=self._shared.readings,
            seen=self._shared.bids,
            strict=self._options.strict,
        )
