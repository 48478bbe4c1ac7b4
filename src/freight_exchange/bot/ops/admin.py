"""Administration of a bot's store: a file is changeable while no process holds it, a database at any time."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, cast, get_args

import attrs

from freight_exchange.bot.answers.record import AnswerRecord, answer_prefix, is_answer
from freight_exchange.bot.offers.record import UNSETTLED, OfferRecord, State, is_offer, offer_prefix
from freight_exchange.bot.ops.decisions import OnWait, decide_answer, decide_offer
from freight_exchange.bot.ops.feed_state import covered_until, explain_handling, request_state, to_utc
from freight_exchange.bot.ops.status import DeadLetter, Doubt, FileStatus, Handling
from freight_exchange.bot.unit_of_work import DEFAULT_NAME, offer_feed_name
from freight_exchange.errors import ConfigurationError
from freight_exchange.feed.core import state as feed_state
from freight_exchange.feed.events import Gap
from freight_exchange.feed.serialization import unpack
from freight_exchange.store.database_url import is_database, masked
from freight_exchange.store.factory import make_store
from freight_exchange.store.work import NO_LIMIT, DeliveryState

if TYPE_CHECKING:
    from freight_exchange.store.seat import BotStore, Seat
    from freight_exchange.store.snapshot import Snapshot

__all__ = ["BotFile"]

_logger = logging.getLogger("freight_exchange.bot")

_LEASE_SECONDS: Final = 30.0


class BotFile:
    """File or database of a bot.

    A read sees the last commit of the bot, at any time. A change of a file takes the lease that a running bot has;
    while a bot runs it raises `HeldError`, which names the holder. A database can be changed while replicas run. All
    methods block: call them outside of an event loop. Inside the bot's own program use `Bot`, which has the same
    methods.

    Args:
        path: The file, or the URL of the database.
        name: Name of the bot; needed if the store has several, and none has the default name.
    """

    def __init__(self, path: str | os.PathLike[str], *, name: str | None = None) -> None:
        self._path = masked(path)
        self._name = name

    def status(self) -> FileStatus:
        """Return the status of the bot in its store.

        Raises:
            StoreError: There is no store of this version, or it cannot be read.
            ConfigurationError: The store has no such bot, or several and no name was given.
        """
        with self._open_snapshots() as (feed, offer_feed):
            # Only records in doubt can be parked. The others are not read: a bot keeps all offers that it ever made.
            effects = feed.effects(*UNSETTLED)
            records = [OfferRecord.from_effect(effect) for effect in effects if is_offer(effect)]
            answers = [AnswerRecord.from_effect(effect) for effect in effects if is_answer(effect)]
            counts = feed.count_deliveries()
            offers, replies = feed.count_effects(offer_prefix()), feed.count_effects(answer_prefix())
            return FileStatus(
                name=feed.binding.feed,
                base_url=feed.binding.base_url,
                account=feed.binding.account,
                holder=feed.holder,
                replicas=feed.replicas,
                is_restored=feed.is_restored,
                covered_until=covered_until(feed, offer_feed),
                unacknowledged=feed.count_unacknowledged(),
                deliveries={state: counts.get(state, 0) for state in get_args(DeliveryState)},
                offers={state: offers.get(state, 0) for state in get_args(State)},
                answers={state: replies.get(state, 0) for state in get_args(State)},
                parked=sum(record.parked for record in records) + sum(record.parked for record in answers),
                gaps=[*_gaps(feed).values()],
            )

    def dead_letters(self) -> Sequence[DeadLetter]:
        """Return the dead letters, like `Bot.dead_letters`."""
        with self._open_snapshot() as (feed, _):
            return [DeadLetter.from_delivery(dead) for dead in feed.deliveries(state="dead", limit=NO_LIMIT)]

    def doubts(self) -> Sequence[Doubt]:
        """Return the doubts, like `Bot.doubts`, and the writes that are being sent, or were when the bot ended."""
        with self._open_snapshot() as (feed, state):
            if state is None:
                return []
            effects, when = feed.effects(*UNSETTLED), partial(to_utc, state)
            offers = [OfferRecord.from_effect(effect) for effect in effects if is_offer(effect)]
            answers = [AnswerRecord.from_effect(effect) for effect in effects if is_answer(effect)]
            found = [Doubt.from_record(record, when) for record in offers]
            return [*found, *(Doubt.from_answer(record, when) for record in answers)]

    def gaps(self) -> Sequence[Gap]:
        """Return the gaps that were not acknowledged."""
        with self._open_snapshot() as (feed, _):
            return [*_gaps(feed).values()]

    def explain(self, index: int) -> Handling:
        """Return the history of a request.

        Raises:
            ConfigurationError: The store has no complete scan yet.
        """
        with self._open_snapshots() as (feed, offer_feed):
            offers = map(OfferRecord.from_effect, feed.effects_under(offer_prefix(index)))
            answers = feed.effects_under(answer_prefix(index))
            return Handling(
                explanation=explain_handling(index, feed, offer_feed),
                deliveries=feed.deliveries_of(index),
                offers=sorted(offers, key=lambda record: record.revision),
                answers=[AnswerRecord.from_effect(effect) for effect in sorted(answers, key=lambda effect: effect.at)],
            )

    def replay(self, event: int, handler: str) -> bool:
        """Replay a dead letter in the next run, like `Bot.replay`.

        The file does not list the bot's handlers. A letter of a removed handler is then no dead letter any more, and
        waits for a handler of that id.

        Raises:
            HeldError: The bot, or another process, holds the file.
        """
        with self._open_for_change() as (seat, time):
            return seat.work.replay(event, handler, at=time)

    def resolve(
        self,
        request: int,
        *,
        taken: bool,
        revision: int = 0,
        offer: int | None = None,
        on_wait: OnWait = _logger.warning,
    ) -> bool:
        """Resolve a doubt or undo a refusal for the next run, like `Bot.resolve`. Blocks for 20.2 seconds at times.

        The file does not list the bot's handlers: the log names the one that must send the offer again.

        Args:
            request, taken, revision, offer: As for `Bot.resolve`.
            on_wait: Called with a sentence before a wait of 20.2 seconds: what counts as not taken may still arrive if
                a replica has sent it, and none has checked it since.

        Returns:
            Whether nothing is left to do. False for a refused offer to make again, until its dead letter is replayed;
            and for an absent offer that perhaps no handler sends again, which is logged as an error.

        Raises:
            HeldError: The bot, or another process, holds the file.
            ValidationError: The offer is neither in doubt nor refused, a replica is sending it, or an argument is
                invalid.
            StoreError: A replica has changed it meanwhile.
        """
        if offer is None:
            return decide_offer(self._open_for_change, on_wait, request, revision, taken=taken)
        return decide_answer(self._open_for_change, on_wait, request, offer, taken=taken)

    def acknowledge_gaps(self) -> int:
        """Acknowledge all gaps, like `Bot.acknowledge_gaps`, and return their number.

        Raises:
            HeldError: The bot, or another process, holds the file.
        """
        with self._open_for_change() as (seat, time):
            return seat.acknowledge(Gap.kind, at=time)

    @contextlib.contextmanager
    def _open_snapshot(self) -> Iterator[tuple[Snapshot, feed_state.State | None]]:
        with self._open_snapshots() as (feed, _):
            yield feed, request_state(feed)

    @contextlib.contextmanager
    def _open_snapshots(self) -> Iterator[tuple[Snapshot, Snapshot | None]]:
        """Open the bot, and its feed of offers if it has one."""
        if is_database(self._path):
            from freight_exchange.store.postgres.snapshot import snapshots
        else:
            from freight_exchange.store.sqlite.snapshot import snapshots  # type: ignore[assignment]
        with snapshots(self._path) as found:  # type: ignore[arg-type]  # the one kind of path or the other
            feed = self._choose(found)
            binding = attrs.evolve(feed.binding, feed=offer_feed_name(feed.binding.feed))
            yield feed, next((row for row in found if row.binding == binding), None)

    @contextlib.contextmanager
    def _open_for_change(self) -> Iterator[tuple[Seat, float]]:
        with self._open_snapshot() as (feed, _):
            binding, state = feed.binding, feed.state
        store, _ = make_store(self._path)
        try:
            seat = cast("BotStore", store).join(binding, handlers=(), version="", lease=_LEASE_SECONDS)
            try:
                # The time of the last scan, which is past for each replica. The clocks of this machine may be wrong.
                yield seat, 0.0 if state is None else feed_state.State.load(state).watermark.time
            finally:
                seat.leave()
        finally:
            store.close()

    def _choose(self, rows: Sequence[Snapshot]) -> Snapshot:
        offer_feeds = {offer_feed_name(feed.binding.feed) for feed in rows}
        rows = [feed for feed in rows if feed.binding.feed not in offer_feeds]
        chosen = [feed for feed in rows if self._name in (None, feed.binding.feed)]
        if self._name is None and len(chosen) > 1:
            # The others belong to `exchange.watch`.
            chosen = [feed for feed in chosen if feed.binding.feed == DEFAULT_NAME]
        if len(chosen) == 1:
            return chosen[0]
        names = ", ".join(repr(feed.binding.feed) for feed in rows) or "none at all"
        raise ConfigurationError(f"the name of a bot is needed: pass name=; the file has {names}")


def _gaps(feed: Snapshot) -> dict[int, Gap]:
    events = {stored.id: unpack(stored.kind, stored.payload) for stored in feed.pending_of_kind(Gap.kind)}
    return {number: gap for number, gap in events.items() if isinstance(gap, Gap)}
