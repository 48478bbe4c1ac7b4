"""Status of a running bot, for tests of operators' views."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from freight_exchange import BotStatus, FeedStatus, Gap

NOW = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
FEED = FeedStatus(
    state="live",
    cover_age=timedelta(seconds=12.5),
    last_success=NOW,
    window=timedelta(minutes=2),
    pages=1,
    clamp=None,
    allowance=timedelta(minutes=1),
    late=3,
    unacknowledged=7,
    gaps=(Gap(since=NOW, until=NOW),),
)
STATUS = BotStatus(
    state="running",
    live=True,
    age=timedelta(seconds=12.5),
    feed=FEED,
    in_flight=5,
    waiting=6,
    waited=timedelta(seconds=7.5),
    handled=0,
    retried=0,
    dead=0,
    offers={},
    in_doubt=2,
    parked=1,
    address=None,
)
STATES = ["starting", "standby", "running", "draining", "login-rejected", "stopped"]
