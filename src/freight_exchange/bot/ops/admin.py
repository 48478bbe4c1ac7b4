"""A bot's file, for whoever looks after it from a shell: read at any time, changed while no bot holds it."""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final, get_args

import anyio
import attrs

from freight_exchange.bot.offers.record import (
    UNSETTLED,
    OfferRecord,
    State,
    decision,
    forsaken,
    is_entry,
    key_of,
    revision_of,
)
from freight_exchange.bot.offers.repository import call_again
from freight_exchange.bot.ops.status import DeadLetter, Doubt, FileStatus, Handling
from freight_exchange.bot.session import NAME
from freight_exchange.errors import ConfigurationError
from freight_exchange.feed.core import state as feed_state
from freight_exchange.feed.events import Gap
from freight_exchange.feed.serialization import unpack
from freight_exchange.feed.status import explain
from freight_exchange.models import validation
from freight_exchange.platform.clock import SystemClock
from freight_exchange.store import SQLiteStore
from freight_exchange.store.sqlite import feed_sql, work_sql
from freight_exchange.store.sqlite.inspect import FeedRow, feeds, open_snapshot
from freight_exchange.store.work import NO_LIMIT, DeliveryState

if TYPE_CHECKING:
    from freight_exchange.platform.clock import Reading
    from freight_exchange.store.sqlite.feed import SQLiteFeed

__all__ = ["BotFile"]

_logger = logging.getLogger("freight_exchange.bot")

_LEASE: Final = 30.0


class BotFile:
    """The file of a bot.

    Reading is possible at any time, and sees what the bot last committed. Changing takes the lease that the bot has
    while it runs: then it raises `HeldError`, which says who holds it. Every method blocks, and is to be called
    outside of an event loop; inside of the bot's own program, `Bot` has the same.

    Args:
        path: The file.
        name: The bot's name; needed where the file has several, and none of them has the usual one.
    """

    def __init__(self, path: str | os.PathLike[str], *, name: str | None = None) -> None:
        self._path = path
        self._name = name

    def status(self) -> FileStatus:
        """What the file says of the bot.

        Raises:
            StoreError: There is no store of this version, or it cannot be read.
            ConfigurationError: There is no such bot in it, or there are several and no name was given.
        """
        with self._looking() as (connection, feed, kept):
            entries = [
                OfferRecord.of(effect) for effect in work_sql.effects(connection, feed.id, ()) if is_entry(effect)
            ]
            covered = None if kept is None or not kept.primed else _moment(kept, kept.cover.time)
            return FileStatus(
                name=feed.binding.feed,
                base_url=feed.binding.base_url,
                account=feed.binding.account,
                holder=None if feed.holder is None else str(feed.holder),
                covered_until=covered,
                unacknowledged=feed_sql.unacknowledged(connection, feed.id),
                deliveries=_counts(connection, feed.id),
                offers={state: sum(entry.state == state for entry in entries) for state in get_args(State)},
                parked=sum(entry.parked for entry in entries),
                gaps=[*_gaps(connection, feed.id).values()],
            )

    def dead_letters(self) -> Sequence[DeadLetter]:
        """As `Bot.dead_letters`."""
        with self._looking() as (connection, feed, _):
            return [DeadLetter.of(dead) for dead in work_sql.deliveries(connection, feed.id, "dead", NO_LIMIT)]

    def doubts(self) -> Sequence[Doubt]:
        """As `Bot.doubts`; an offer that was on its way when the bot was killed, or is now, is among them."""
        with self._looking() as (connection, feed, kept):
            entries = [OfferRecord.of(effect) for effect in work_sql.effects(connection, feed.id, UNSETTLED)]
            return [] if kept is None else [Doubt.of(entry, partial(_moment, kept)) for entry in entries]

    def gaps(self) -> Sequence[Gap]:
        """The gaps that were not acknowledged."""
        with self._looking() as (connection, feed, _):
            return [*_gaps(connection, feed.id).values()]

    def explain(self, index: int) -> Handling:
        """What became of a request.

        Raises:
            ConfigurationError: The first scan was never written down: the file knows nothing yet.
        """
        with self._looking() as (connection, feed, kept):
            if kept is None:
                raise ConfigurationError("the file knows nothing yet: its first scan was never complete")
            now, events = _now(), feed_sql.events_of_request(connection, feed.id, index)
            told = explain(
                index,
                feed_sql.tracked(connection, feed.id, (index,)).get(index),
                events,
                state=kept,
                time=kept.cover.time_at(now),
                wall=now.wall,
                where=None,
            )
            found = connection.execute(
                "SELECT event.kind, delivery.handler, delivery.state, delivery.error FROM delivery JOIN event"
                ' ON event.id = delivery.event WHERE delivery.feed = ? AND event."index" = ?'
                " ORDER BY delivery.event, delivery.handler",
                (feed.id, index),
            ).fetchall()
            made = work_sql.effects(connection, feed.id, ())
            offers = [OfferRecord.of(effect) for effect in made if is_entry(effect, index)]
            return Handling(
                explanation=told,
                deliveries=[tuple(row) for row in found],
                offers=sorted(offers, key=lambda entry: entry.revision),
            )

    def replay(self, event: int, handler: str) -> bool:
        """As `Bot.replay`: the next run of the bot tries it. The file does not know which handlers the bot has: where
        there is none of that id any more, the delivery is no dead letter then, and waits until there is one.

        Raises:
            HeldError: The bot, or another process, holds the file.
        """
        with self._holding() as (work, time):
            return work.replay(event, handler, at=time)

    def resolve(self, request: int, *, taken: bool, revision: int = 0) -> bool:
        """As `Bot.resolve`: the next run of the bot goes by it.

        Returns:
            Whether nothing is left to do: not so for an offer that was refused, if it is to be made again, before the
            dead letter is replayed, nor for one that nothing makes again, or perhaps nothing, of which an error is
            logged. The file does not know which handlers the bot has: which one is to make the offer is logged, and if
            the bot has none of that name any more, it is not made.

        Raises:
            HeldError: The bot, or another process, holds the file.
            ValidationError: That offer is not in doubt, nor was it refused; or an argument cannot be right.
        """
        with self._holding() as (work, time):
            effect = work.effect(key_of(validation.identifier(request, "request"), revision_of(revision)))
            entry = None if effect is None else OfferRecord.of(effect)
            facts = decision(entry, taken=taken)
            assert entry is not None
            further = attrs.evolve(entry, at=time, **facts)
            # Before it is noted, as the bot does it.
            is_made = taken or (entry.state in UNSETTLED and call_again(work, further, at=time))
            work.put_effect(further.effect(), expected_state=entry.state)
        if entry.state in UNSETTLED and not taken:
            _tell(entry, is_made=is_made)
        return bool(is_made)

    def acknowledge_gaps(self) -> int:
        """As `Bot.acknowledge_gaps`.

        Raises:
            HeldError: The bot, or another process, holds the file.
        """
        with self._holding() as (work, time):
            numbers = [stored.id for stored in work.pending_of_kind(Gap.kind)]
            work.acknowledge(numbers, at=time)
            return len(numbers)

    @contextlib.contextmanager
    def _looking(self) -> Iterator[tuple[sqlite3.Connection, FeedRow, feed_state.State | None]]:
        with open_snapshot(self._path) as connection:
            feed = self._chosen(feeds(connection))
            yield connection, feed, None if feed.state is None else feed_state.State.load(feed.state)

    @contextlib.contextmanager
    def _holding(self) -> Iterator[tuple[SQLiteFeed, float]]:
        with self._looking() as (_, feed, _):
            binding = feed.binding
        store = SQLiteStore(self._path)
        try:
            work = store.open(binding, lease=_LEASE)
            yield work, 0.0 if work.state is None else feed_state.State.load(work.state).cover.time_at(_now())
        finally:
            store.close()

    def _chosen(self, there: Sequence[FeedRow]) -> FeedRow:
        named = [feed for feed in there if self._name in (None, feed.binding.feed)]
        if self._name is None and len(named) > 1:
            # A feed that somebody watches beside the bot is none.
            named = [feed for feed in named if feed.binding.feed == NAME]
        if len(named) == 1:
            return named[0]
        names = ", ".join(repr(feed.binding.feed) for feed in there) or "none at all"
        raise ConfigurationError(f"say which of the file's bots by its name: there is {names}")


def _tell(entry: OfferRecord, *, is_made: bool | None) -> None:
    said, about = "%s is in doubt no more: %s", {"request": entry.request}
    if is_made:
        then = f"it was not taken, and the handler {entry.handler!r} makes it again, if the bot still has it"
        _logger.warning(said, entry, then, extra=about)
    else:
        _logger.error(said, entry, forsaken(entry, by_all=is_made is False), extra=about)


def _now() -> Reading:
    async def read() -> Reading:
        return SystemClock().read()

    return anyio.run(read)


def _moment(kept: feed_state.State, time: float) -> datetime:
    now = _now()
    return datetime.fromtimestamp(now.wall - (kept.cover.time_at(now) - time), UTC)


def _gaps(connection: sqlite3.Connection, feed: int) -> dict[int, Gap]:
    told = {
        stored.id: unpack(stored.kind, stored.payload)
        for stored in feed_sql.pending_of_kind(connection, feed, Gap.kind)
    }
    return {number: gap for number, gap in told.items() if isinstance(gap, Gap)}


def _counts(connection: sqlite3.Connection, feed: int) -> dict[str, int]:
    found = connection.execute("SELECT state, count(*) FROM delivery WHERE feed = ? GROUP BY state", (feed,)).fetchall()
    return {state: dict(found).get(state, 0) for state in get_args(DeliveryState)}
