"""Model of `exchange.watch_offers()`: offers come, change, are answered and go, and a program fails.

A naive loop stands beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from functools import partial
from random import Random
from typing import Any, Final

import attrs
from tests.model.feed_checker import Span, State, Told, check
from tests.model.feeds import HIDDEN_BETWEEN, Drawing, Op, Plan, World, follow, follow_naively, plain
from tests.model.runner import Result
from tests.model.support import LISTING_FAULTS, Profile, disk, in_virtual_time

from freight_exchange import FreightExchange

__all__ = ["draw", "naive", "run"]

_LISTING: Final = "quote/getoffers"
_LOOKUPS: Final = "quote/offer"
_GOOD_REPLIES: Final = {"slow", "bom", "gzip", "bytes_after_reply", "idle_fin", "success_with_unauthorized"}
"""Faults that pass a listing on as it is, so that the amended prices are not in it."""


def draw(seed: int) -> Plan:
    """Draw the schedule of a seed."""
    random = Random(f"offers {seed}")
    drawing = _Drawing(random, random.choice((15.0, 30.0, 60.0)))
    plan: Plan = Plan.draw(
        random,
        drawing,
        random.randint(5, 14),
        seed=seed,
        profile=_profile(random, hides_between=seed >= HIDDEN_BETWEEN),
        late=random.choice((0.0, 0.0, 5.0, 30.0)),
        start=random.choice(("backfill", "backfill", "now")),
        quiet=8 if random.random() < 0.6 else 0,
    )
    return plan


def _profile(random: Random, *, hides_between: bool) -> Profile:
    """Draw the points that the document leaves open, as one service would decide them."""
    return Profile(
        order=random.choice(("newest", "oldest", "index", "updated", "random")),
        rows_clamp=random.choice((None, None, 10, 20, 25)),
        clamp_stride=random.choice(("clamped", "asked")),
        past_end=random.choice(("empty", "empty", "400", "404", "416", "last_page")),
        nothing_found=random.choice(("empty", "empty", "404")),
        lookup_missing=random.choice(("empty", "404", "400")),
        index_type=random.choice(("any", "any", "str", "int")),
        rights="after_paging" if hides_between else "before_paging",
        collection_shape=random.choice(("object", "list", "gaps", "shuffled")),
        empty_collection=random.choice(("object", "list", "null", "bare_object", "bare_list", "bare_null")),
        empty_offer=random.choice(("object", "list", "null", "absent")),
        offer_shape=random.choice(("collection", "entry", "list")),
        selected_offer_shape=random.choice(("entry", "collection")),
        offer_id_key=random.choice(("offerId", "offerIndex", "index")),
        offer_id_type=random.choice(("str", "int")),
        offer_currency_key=random.choice(("currencyId", "currencyIndex")),
        listing_contacts=random.choice(("record", "offer", "both")),
        pending_contacts=random.choice(("absent", "null", "list")),
        decline_outcome=random.choice(("declined", "rejected", "removed")),
        second_offer="replaced",
        number_form=random.choice(("plain", "string", "padded", "exponent")),
        extra_keys=random.random() < 0.2,
        latency=random.choice((0.0, 0.0, 0.0, 0.0, 0.2, 1.0)),
        token_lifetime=random.choice((10**7, 10**7, 10**7, 90)),
    )


class _Drawing(Drawing):
    weights = {
        **Drawing.failures,
        "publish": 2.0, "burst": 1.0, "offer": 10.0, "amend": 5.0, "reword": 3.0, "decline": 4.0, "approve": 3.0,
        "withdraw": 2.0, "touch": 1.0, "between": 6.0, "reorder": 1.0, "respell": 0.5, "no_longer_late": 0.5,
        "lie": 1.0, "award": 2.0,
    }  # fmt: skip

    def _award(self) -> Iterator[Op]:
        yield self._op("rivals")
        self.now += 1.2 * self.interval
        yield self._op("approve", name="newest")

    market = ("offer", "offer", "offer", "amend", "reword", "decline", "approve", "withdraw", "publish", "touch")
    bursts = (2, 4, 12, 25)
    faults = tuple(name for name in LISTING_FAULTS if name not in _GOOD_REPLIES)


class _World(World):
    """Offers on the requests of an account.

    Attributes:
        joins: Whether the listing has a row for each offer, as a join of both tables returns them.
    """

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan, _LISTING, _LOOKUPS)
        self.service.changes_replies = True
        self.joins = plan.seed % 8 == 5
        self._requests: list[int] = []
        self._amended: dict[int, tuple[int, str | None]] = {}
        self._spans: dict[int, list[Span]] = {}
        self._owner: dict[int, int] = {}
        self._answered: dict[int, float] = {}
        for number in range(1 + plan.seed % 7):
            self._publish(self.service.now)
            self._offer(self._requests[-1], number, self.service.now)

    def act(self, op: Op, now: float) -> None:
        match op.what:
            case "publish":
                self._publish(now)
            case "burst":
                for number in range(int(op.amount)):
                    self._publish(now)
                    self._offer(self._requests[-1], op.which + number, now)
            case "rivals":
                self._publish(now)
                for number in range(2):
                    self._offer(self._requests[-1], op.which + number, now)
            case _ if self._requests:
                place = -1 if op.name == "newest" else op.which % len(self._requests)
                self._to_request(op, self._requests[place], now)
            case _:
                pass

    def _publish(self, now: float) -> None:
        self._requests.append(self.exchange.publish(self.exchange.shipper, now))
        if self.plan.profile.rights == "after_paging":
            for _ in range(3):
                self.exchange.publish(self.exchange.rival, now)

    def _to_request(self, op: Op, request: int, now: float) -> None:
        pending = [number for number in self._on(request) if self._content(number)[2] == "pending"]
        match op.what:
            case "touch":
                self.exchange.touch(request, now)
            case "offer" if not self._is_closed(request):
                self._offer(request, op.which, now)
            case "withdraw" if len(self._requests) > 2:
                for number in self._on(request):
                    self._note(number, None, now)
                self._requests.remove(request)
                self.exchange.withdraw(request, now)
            case "amend" | "reword" | "approve" | "decline" if pending and not self._is_closed(request):
                self._to_offer(op, request, pending[op.which // 8 % len(pending)], now)
            case _:
                pass

    def _to_offer(self, op: Op, request: int, number: int, now: float) -> None:
        amount, terms, _ = self._content(number)
        match op.what:
            case "approve":
                self.exchange.select(number, now)
                self._answered[request] = now
                self._note(number, (amount, terms, "selected"), now)
            case "decline":
                answer = {"offerIndex": number, "approved": 0}
                self.exchange.act(self.exchange.shipper, "POST", "quote/approveoffer", answer, now)
                word = self.plan.profile.decline_outcome
                self._note(number, None if word == "removed" else (amount, terms, word), now)
            case _:
                # Where replies lag, an amended price would show before the offer that it amends.
                if self.plan.late:
                    return
                new = self._amended.get(number, (int(amount), terms or None))
                new = (new[0] + 1 + op.which % 9, new[1]) if op.what == "amend" else (new[0], f"net {op.which % 90}")
                self._amended[number] = new
                self._note(number, (str(new[0]), new[1] or "", "pending"), now)

    def _offer(self, request: int, which: int, now: float) -> None:
        """Make an offer; another one by the same forwarder replaces it."""
        account = (self.exchange.rival, self.exchange.forwarder)[which % 2]
        if account is self.exchange.rival and self.plan.profile.rights == "after_paging":
            account = self.exchange.forwarder
        offer = {"requestIndex": request, "offer": 100 + which % 99, "currencyIndex": 840}
        for number in self._on(request):
            if self._maker(number) == account.index and self._content(number)[2] == "pending":
                self._note(number, None, now)
        self.exchange.act(account, "POST", "quote/submitoffer", offer, now)
        made = self.exchange.audit_log.offers[-1].offer
        self._owner[made.index] = request
        self._note(made.index, (str(100 + which % 99), "", "pending"), now)

    def _maker(self, number: int) -> int:
        return next(record.offer.account for record in self.exchange.audit_log.offers if record.offer.index == number)

    def _is_closed(self, request: int) -> bool:
        return request in self._answered

    def _on(self, request: int) -> list[int]:
        """Return the offers that stand on a request."""
        return [n for n, owner in self._owner.items() if owner == request and self._spans[n][-1].content is not None]

    def _content(self, number: int) -> State:
        return self._spans[number][-1].content or ("", "", "")

    def _note(self, number: int, content: State | None, now: float) -> None:
        spans = self._spans.setdefault(number, [])
        if not spans or spans[-1].content != content:
            spans.append(Span(content, now, [now]))

    # What the service shows

    def change(self, page: int | None, rows: dict[Any, Any]) -> bool:
        changed = self._amend(rows)
        if self.joins:
            changed = self._join(rows) or changed
        return self.garble(page, rows, self._offers_in) or changed

    def _amend(self, rows: dict[Any, Any]) -> bool:
        changed = False
        for row in rows.values():
            for entry in _entries(row):
                new = self._amended.get(self._number(entry))
                if new is not None:
                    entry["offerAmount"], entry["terms"] = new
                    changed = True
        return changed

    def _join(self, rows: dict[Any, Any]) -> bool:
        """Give each offer a row of its own, the newest first."""
        joined: list[Any] = []
        for row in rows.values():
            entries = sorted(_entries(row), key=self._number, reverse=True)
            joined += [{**row, "offer": {"0": entry}} for entry in entries] if len(entries) > 1 else [row]
        is_joined = len(joined) > len(rows)
        rows.clear()
        rows.update({str(place): row for place, row in enumerate(joined)})
        return is_joined

    def _number(self, entry: dict[str, Any]) -> int:
        return int(Decimal(str(entry[self.plan.profile.offer_id_key])))

    def _offers_in(self, row: Any) -> set[int]:
        return {self._number(entry) for entry in _entries(row)}

    # The truth

    def spans(self) -> dict[int, list[Span]]:
        for spans in self._spans.values():
            for span in spans:
                span.since = self.shown(span.updates[0])
        return self._spans

    def exempt(self, spans: dict[int, list[Span]], entered: float) -> set[int]:
        """Return the rivals of approved offers, which need not be listed, and what was answered before the feed."""
        return {
            number
            for number, request in self._owner.items()
            if (request in self._answered and all(span.content is None or span.content[2] != "selected"
                                                  for span in spans[number]))
            or any(span.since <= entered and span.content is not None and span.content[2] != "pending"
                   for span in spans[number])
        }  # fmt: skip


def _entries(row: Any) -> list[dict[str, Any]]:
    """Return the offers in a row, in each of the shapes of a profile."""
    offer = row.get("offer") if isinstance(row, dict) else None
    if isinstance(offer, list):
        return [*offer]
    if not isinstance(offer, dict):
        return []
    return [offer] if "offerAmount" in offer else [*offer.values()]


def _state(amount: object, terms: object, status: object) -> State:
    return plain(amount), plain(terms), "pending" if status is None else str(status).lower()


def _content(offer: Any) -> State:
    return _state(offer.amount, offer.terms, offer.status)


def _told(event: Any) -> Told:
    kinds = {"new": "new", "changed": "updated", "answered": "answered", "gone": "withdrawn"}
    if event.kind not in kinds:
        return Told(kind=event.kind, content=(str(getattr(event, "raw", event)),))
    earliest, latest = event.observed_between
    return Told(
        kind=kinds[event.kind],
        index=event.offer.id,
        content=_content(event.offer),
        previous=None if event.previous is None else _content(event.previous),
        returned=event.returned,
        between=(None if earliest is None else earliest.timestamp(), latest.timestamp()),
    )


def run(seed: int) -> Result:
    """Follow the schedule of a seed, and judge what the feed's reader was told."""
    plan = draw(seed)
    start: Any = plan.start

    def watch(exchange: FreightExchange, store: Any, interval: timedelta) -> Any:
        return exchange.watch_offers(store=store, start=start, interval=interval)

    world = _World(plan)
    sandbox = world.service.sandbox
    with disk() as folder:
        job = partial(follow, world, folder, lambda: sandbox.client(sandbox.shipper), watch, _told)
        history = in_virtual_time(seed, plan.backend, job)
    # The account sees all of its own requests.
    return Result(check(attrs.evolve(history, hidden=set(), dates_absence=False)), world.counts)


def naive(seed: int) -> bool:
    """Return whether a loop that remembers the offers it has seen is wrong about one in the end."""
    plan = draw(seed)
    return in_virtual_time(seed, plan.backend, partial(_naively, plan))


async def _naively(plan: Plan) -> bool:
    world = _World(plan)
    told: dict[int, State] = {}

    def row(record: dict[str, Any]) -> None:
        for entry in _entries(record):
            state = _state(entry["offerAmount"], entry.get("terms"), entry["status"])
            told.setdefault(int(entry[plan.profile.offer_id_key]), state)

    sandbox = world.service.sandbox
    await follow_naively(world, sandbox.client(sandbox.shipper), _LISTING, row, windowed=False)
    exempt = world.exempt(world.spans(), 0.0)
    return any(
        number not in exempt and spans[-1].content is not None and told.get(number) != spans[-1].content
        for number, spans in world.spans().items()
    )
