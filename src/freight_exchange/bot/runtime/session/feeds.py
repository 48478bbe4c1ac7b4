"""Feeds of a bot: the open requests, and the offers on the shipper's requests, as its handlers need them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from freight_exchange.bot.handlers.handler import OFFER_KINDS, REQUEST_KINDS
from freight_exchange.bot.unit_of_work import offer_feed_name
from freight_exchange.offer_feed.options import WatchOffersOptions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from freight_exchange.bot.handlers.handler import Handler
    from freight_exchange.bot.runtime.fleet.membership import Membership
    from freight_exchange.bot.runtime.options import BotOptions
    from freight_exchange.client import FreightExchange
    from freight_exchange.feed.feed import Feed
    from freight_exchange.offer_feed.feed import OfferFeed

__all__ = ["make_feeds"]


def make_feeds(
    exchange: FreightExchange, options: BotOptions, handlers: Iterable[Handler], membership: Membership
) -> tuple[Feed, OfferFeed | None]:
    """Return the feed of requests, which is idle in a bot of offers only, and the feed of offers, if needed.

    Args:
        exchange: The client.
        options: Options of the bot.
        handlers: Its handlers.
        membership: Its seat in the store.
    """
    kinds = {kind for handler in handlers for kind in handler.filters}
    is_idle = kinds.isdisjoint(REQUEST_KINDS) and not kinds.isdisjoint(OFFER_KINDS.values())
    feed = exchange._feed(options.watch_options(membership, is_idle=is_idle))
    if kinds.isdisjoint(OFFER_KINDS.values()):
        return feed, None
    offers = exchange._offer_feed(
        WatchOffersOptions(
            store=membership.further_feeds,
            interval=options.interval,
            name=offer_feed_name(options.name),
            # The replica that scanned before may be about to leave it.
            standby=True,
            retention=options.retention,
        )
    )
    return feed, offers
