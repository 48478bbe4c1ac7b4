"""One run of the watcher against a server with quirks, in virtual time."""

from __future__ import annotations

import random
from datetime import datetime
from typing import Any, Final
from unittest.mock import patch

import anyio
import attrs
import httpx
from tests.model.servers.drawing import Schedule, Session
from tests.model.servers.market import Content
from tests.model.servers.quirks import Span
from tests.model.servers.server import StormError, StrangeServer

from freight_exchange import FreightExchange, RequestEvent, RetryPolicy
from freight_exchange.hooks import Degraded, Event, Recovered, Scan
from freight_exchange.platform.clock import Reading
from freight_exchange.store import MemoryStore
from freight_exchange.testing import virtual_time_options

__all__ = ["EPOCH", "Claim", "Log", "Reported", "watch"]

EPOCH: Final = 1_800_000_000.0
"""Start of a schedule by the watcher's wall clock."""


@attrs.frozen
class Reported:
    """Event that a feed delivered.

    Attributes:
        content: Content of the request, in the words of the model; `None` for other events.
        again: Whether the same event was in hand, unacknowledged, when the watcher's last run ended.
        fields: Fields of the request that the service's document lacks.
    """

    at: float
    kind: str
    index: int | None
    content: Content | None
    returned: bool
    observed: tuple[datetime | None, datetime] | None
    again: bool
    text: str
    changed: tuple[str, ...] = ()
    session: int = 0
    fields: tuple[str, ...] = ()


@attrs.frozen
class Claim:
    """Claim of a feed at the end of a scan: nothing before `since` is missing."""

    at: float
    since: float
    tier: str


@attrs.define
class Log:
    """Log of the watcher's reports and actions.

    Attributes:
        live: Times at which its runs were entered.
        listed: Time at which the first scan had read everything that the service listed.
        slept: Times at which its reader paused.
    """

    reported: list[Reported] = attrs.field(factory=list)
    claims: list[Claim] = attrs.field(factory=list)
    degraded: list[float] = attrs.field(factory=list)
    recovered: list[float] = attrs.field(factory=list)
    live: list[float] = attrs.field(factory=list)
    listed: float | None = None
    slept: list[Span] = attrs.field(factory=list)
    errors: list[str] = attrs.field(factory=list)


class _Clock:
    """Clocks of the watcher's machine."""

    def __init__(self, schedule: Schedule, number: int, boot: str) -> None:
        self._schedule = schedule
        self._run = f"run {number}"
        self._boot = boot

    def read(self) -> Reading:
        now = anyio.current_time()
        wall = EPOCH + self._schedule.wall(now)
        return Reading(run=self._run, loop=now, boot_id=self._boot, boot=now + 1000, wall=wall)


class _Watch:
    def __init__(self, schedule: Schedule, server: StrangeServer) -> None:
        self.schedule = schedule
        self.server = server
        self.log = Log()
        self._store = MemoryStore()
        self._chance = random.Random(f"reader {schedule.seed}")
        self._in_hand: Reported | None = None
        self._feed: Any = None
        self._number = 0

    async def all_sessions(self) -> None:
        boot = 0
        for number, session in enumerate(self.schedule.sessions):
            await anyio.sleep_until(session.start)
            boot += not session.same_machine
            try:
                await self._session(session, number, f"boot {boot}")
            except (Exception, StormError) as error:  # noqa: BLE001  # any error that ends a feed is a finding
                self.log.errors.append(f"{anyio.current_time():.0f}: {error!r}")
                return

    async def _session(self, session: Session, number: int, boot: str) -> None:
        async with httpx.AsyncClient(transport=self.server.transport(), trust_env=False) as http:
            exchange = FreightExchange(
                "https://strange.example/api",
                email="f@strange.example",
                password="x",
                http_client=http,
                hooks=[self._hook],
                retries=RetryPolicy(),
            )
            self._number = number
            exchange._shared.clock = _Clock(self.schedule, number, boot)
            with anyio.CancelScope(deadline=session.end):
                async with (
                    exchange,
                    exchange.watch(
                        store=self._store,
                        start=self.schedule.start,  # type: ignore[arg-type]  # drawn among what it takes
                        interval=self.schedule.interval,
                    ) as feed,
                ):
                    self._feed = feed
                    self.log.live.append(anyio.current_time())
                    self._note_listed()
                    async for event in feed:
                        self._note(event)
                        began = anyio.current_time()
                        is_slow = self.schedule.pauses and began < self.schedule.active
                        if is_slow and self._chance.random() < 0.1:
                            await anyio.sleep(self._chance.random() * self.schedule.pauses)
                            self.log.slept.append(Span(began, anyio.current_time()))
                        if session.ending == "break" and anyio.current_time() > session.end - 300:
                            break
                        # Pulling the next event acknowledges this one.
                        self._in_hand = None
                    self._feed = None

    def _note(self, event: object) -> None:
        now = anyio.current_time()
        if isinstance(event, RequestEvent):
            request = event.request
            content = Content(
                notes=str(request.notes),
                quantity=int(request.quantity or 0),
                destination=str(request.destination),
                incoterm=request.incoterm,
                status=str(request.status).capitalize(),
            )
            reported = Reported(
                now, event.kind, request.index, content, event.returned, event.observed_between, False, ""
            )
            fields = tuple(sorted(request.extra))
            reported = attrs.evolve(reported, changed=event.changed, session=self._number, fields=fields)
        else:
            reported = Reported(
                now, type(event).__name__, None, None, False, None, False, str(event), session=self._number
            )
        if self._in_hand is not None and _same(self._in_hand, reported):
            reported = attrs.evolve(reported, again=True)
        self._in_hand = reported
        self.log.reported.append(reported)

    def _hook(self, event: Event) -> None:
        now = anyio.current_time()
        match event:
            case Degraded():
                self.log.degraded.append(now)
            case Recovered():
                self.log.recovered.append(now)
            case Scan(complete=True) if self._feed is not None:
                self._note_listed()
                age = self._feed.status().cover_age
                if age is not None:
                    self.log.claims.append(Claim(now, now - age.total_seconds(), event.tier))
            case _:
                pass

    def _note_listed(self) -> None:
        if self.log.listed is None and self._feed.status().state != "priming":
            self.log.listed = anyio.current_time()


def _same(one: Reported, other: Reported) -> bool:
    return (one.kind, one.index, one.content, one.observed, one.text) == (
        other.kind,
        other.index,
        other.content,
        other.observed,
        other.text,
    )


def watch(schedule: Schedule, backend: str = "asyncio") -> tuple[Log, StrangeServer]:
    """Run the watcher through a schedule; deterministic for its seed."""
    server = StrangeServer(schedule.market, schedule.quirks, schedule.seed)
    run = _Watch(schedule, server)
    random.seed(schedule.seed)
    jitter = random.Random(f"jitter {schedule.seed}")
    with patch("freight_exchange.feed.stream.Random", lambda: jitter):
        anyio.run(run.all_sessions, backend=backend, backend_options=virtual_time_options(backend))  # type: ignore[arg-type]  # one of two
    return run.log, server
