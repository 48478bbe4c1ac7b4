"""Market that follows a schedule: the true offers, and the pages and look-ups of a failing service."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import attrs
from tests.model.offers.schedule import Op, Schedule

__all__ = ["Failure", "Market", "Quote"]


class Failure(Exception):
    """Failure of a page or a look-up."""


class Quote(NamedTuple):
    """State of an offer."""

    amount: int
    terms: str | None = None
    status: str = "pending"


@attrs.define(eq=False)
class Request:
    """Request of the account.

    Attributes:
        offers: Its offers.
        made: All that were ever made on it.
        selected: The approved one.
        moved: Orders the listing: the greatest is first.
    """

    offers: dict[int, Quote] = attrs.field(factory=dict)
    made: set[int] = attrs.field(factory=set)
    selected: int | None = None
    moved: int = 0

    def listed(self) -> dict[int, Quote]:
        """Return the offers that the service lists: all of them, or only the approved one."""
        return self.offers if self.selected is None else {self.selected: self.offers[self.selected]}


class Market:
    """True offers, and the service that lists them.

    Args:
        schedule: Schedule to follow.
        on_stop: Called when the program has to stop.

    Attributes:
        requests: Requests of the account.
        states: Each state that an offer has had, `None` after it was gone, by the offer, in order.
        scans: Number of scans that have begun.
    """

    def __init__(self, schedule: Schedule, on_stop: Callable[[], None]) -> None:
        self._schedule = schedule
        self._ops = list(schedule.ops)
        self._on_stop = on_stop
        self._numbers, self._published = 100, 0
        self._moves = 0
        self._failing = self._denying = 0
        self._cut: set[int] = set()
        self._stripped: set[int] = set()
        self._is_blank, self._is_open = 0, False
        self._removed: list[Request] = []
        self.requests: dict[int, Request] = {}
        self.states: dict[int, list[Quote | None]] = {}
        self.scans = 0
        for _ in range(schedule.requests):
            self._publish()
            self._offer([*self.requests][-1], 0)

    def open(self) -> None:
        """Start with the first scan of the schedule, which finds the older offers."""
        self._is_open, self.scans = True, 0

    def page(self, number: int, rows: int) -> list[tuple[int, dict[int, Quote], int | None]]:
        """Return a page of `rows` rows: index, offers and approved offer of each request."""
        if number == 0:
            self.scans += 1
            self._cut, self._stripped = set(), set()
            self._is_blank = max(0, self._is_blank - 1)
        while self._is_open and self._ops and (self._ops[0].scan, self._ops[0].page) <= (self.scans, number):
            self._happen(self._ops.pop(0))
        if self._failing:
            self._failing -= 1
            raise Failure("page")
        if self._is_blank:
            return []
        size = min(rows, self._schedule.clamp)
        listed = sorted(self.requests, key=lambda index: -self.requests[index].moved)
        listed = [index for index in listed if index not in self._cut]
        return [self._row(index) for index in listed[number * size : (number + 1) * size]]

    def find(self, index: int) -> tuple[int, dict[int, Quote], int | None] | None:
        """Return a request by its index."""
        if self._denying:
            self._denying -= 1
            raise Failure("look-up")
        if index not in self.requests:
            return None
        request = self.requests[index]
        return index, dict(request.listed()), request.selected

    def hidden(self) -> set[int]:
        """Return the offers on requests with an approved offer: no listing shows whether they are gone."""
        every = [*self.requests.values(), *self._removed]
        ended = [request for request in every if request.selected is not None]
        return {offer for request in ended for offer in request.made} - self.standing().keys()

    def standing(self) -> dict[int, Quote]:
        """Return the offers that the service would list now, without failures."""
        return {number: quote for request in self.requests.values() for number, quote in request.listed().items()}

    def _row(self, index: int) -> tuple[int, dict[int, Quote], int | None]:
        request = self.requests[index]
        return index, {} if index in self._stripped else dict(request.listed()), request.selected

    def _happen(self, op: Op) -> None:
        match op.what:
            case "fail":
                self._failing = 1 + op.which % 3
            case "deny":
                self._denying = 1 + op.which % 2
            case "blank":
                self._is_blank = 1 + op.which % 3
            case "stop":
                self._on_stop()
            case "publish":
                self._publish()
            case _ if self.requests:
                self._to_request(op, [*self.requests][op.which % len(self.requests)])
            case _:
                pass

    def _to_request(self, op: Op, index: int) -> None:
        request = self.requests[index]
        match op.what:
            case "cut":
                self._cut = {other for place, other in enumerate(self.requests) if (op.which >> place) % 2}
            case "strip":
                self._stripped = {index}
            case "touch":
                self._move(request)
            case "remove" if len(self.requests) > 2:
                # What the service no longer lists, as another one was approved, cannot go.
                for number in request.listed():
                    self._note(number, None)
                self._removed.append(self.requests.pop(index))
            case "offer" if request.selected is None:
                self._offer(index, op.which)
            case "reprice" | "terms" | "withdraw" | "approve" | "decline" if request.selected is None:
                self._to_offer(op, request)
            case _:
                pass

    def _to_offer(self, op: Op, request: Request) -> None:
        pending = [number for number, quote in request.offers.items() if quote.status == "pending"]
        if not pending:
            return
        number = pending[op.which % len(pending)]
        quote = request.offers[number]
        self._move(request)
        match op.what:
            case "withdraw":
                del request.offers[number]
                self._note(number, None)
                return
            case "reprice":
                quote = quote._replace(amount=1 + op.which % 9 + quote.amount % 90)
            case "terms":
                quote = quote._replace(terms=(None, "ten days", "prepaid")[op.which % 3])
            case "approve":
                quote, request.selected = quote._replace(status="selected"), number
            case _:
                quote = quote._replace(status="declined")
        request.offers[number] = quote
        self._note(number, quote)

    def _publish(self) -> None:
        self._published += 1
        self.requests[self._published] = Request()
        self._move(self.requests[self._published])

    def _offer(self, index: int, which: int) -> None:
        self._numbers += 1
        self.requests[index].offers[self._numbers] = quote = Quote(1 + which % 99)
        self.requests[index].made.add(self._numbers)
        self._move(self.requests[index])
        self._note(self._numbers, quote)

    def _move(self, request: Request) -> None:
        self._moves += 1
        request.moved = self._moves

    def _note(self, number: int, quote: Quote | None) -> None:
        states = self.states.setdefault(number, [])
        if not states or states[-1] != quote:
            states.append(quote)
