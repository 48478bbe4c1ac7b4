"""What stands before a served exchange: it keeps what happens, tells whoever waits, and does what the board asks."""

from __future__ import annotations

import itertools
import secrets
import time
from collections.abc import Callable, Collection, Mapping
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import anyio
import attrs

from freight_exchange.sandbox.board.guard import from_elsewhere, known_host
from freight_exchange.sandbox.board.quirks import turned
from freight_exchange.sandbox.board.traffic import Traffic, line_of
from freight_exchange.sandbox.board.words import OPERATIONS, PERFORMED
from freight_exchange.sandbox.core.exchange import Exchange
from freight_exchange.sandbox.core.state_file import StateFile
from freight_exchange.sandbox.core.validation import Refusal
from freight_exchange.sandbox.faults.script import Fault, FaultScript
from freight_exchange.sandbox.model.messages import Call, Reply
from freight_exchange.sandbox.rendering.codec import encode

__all__ = ["Armed", "BoardController"]

# The truth is for tests, which end; a server may run for weeks.
_MOST_CALLS = 2000
_PER_VOLUME = Decimal(70)
_USUAL = Decimal(1000)
_LEAST, _MOST = Decimal(1), Decimal(10) ** 12
_STRANGER = Reply(421, (("content-type", "application/json"),), encode({"message": "This server has another name."}))
_ELSEWHERE = Reply(403, (("content-type", "application/json"),), encode({"message": "No page of another site may."}))
_CENT = Decimal("0.01")


@attrs.frozen
class Armed:
    """A fault that somebody switched on, and the rules that it became."""

    id: int
    name: str
    operation: str
    times: int | None
    rules: tuple[Fault, ...]


class BoardController:
    """An exchange with its file, for a server and the board. Everything that changes goes through here.

    Args:
        exchange: The exchange.
        clock: Its seconds since the epoch.
        file: What keeps it; nothing does unless told.
        names: Names under which the server is called, apart from `localhost` and addresses.

    Attributes:
        exchange: The exchange itself.
        clock: Its seconds since the epoch.
        names: The names under which the server is known, in small letters, apart from `localhost` and addresses.
        revision: Grows with everything that happens, from where chance puts it.
        traffic: The last calls, and what struck them.
        armed: The faults that were switched on here and can still strike.
    """

    def __init__(
        self,
        exchange: Exchange,
        *,
        clock: Callable[[], float] = time.time,
        file: StateFile | None = None,
        names: Collection[str] = (),
    ) -> None:
        self.exchange = exchange
        self.clock = clock
        self.names = frozenset(name.lower() for name in names)
        # A page that comes over from the exchange before this one must not find it at the same.
        self.revision = 1 + secrets.randbelow(2**48)
        self.traffic = Traffic()
        self.armed: tuple[Armed, ...] = ()
        self._file = file
        self._numbers = itertools.count(1)
        self._changed = anyio.Event()

    @property
    def faults(self) -> FaultScript:
        return self.exchange.faults

    def handle(self, call: Call, now: float) -> Reply:
        """Answers as the exchange does. What the call changed is in the file before the reply goes out.

        Raises:
            StateError: It cannot be kept. The reply must not go out, and the server must end.
        """
        if not known_host(call.headers, self.names):
            return _STRANGER
        if from_elsewhere(call.headers):
            return _ELSEWHERE
        who = self._caller(call)
        reply = self.exchange.handle(call, now)
        record = self.exchange.audit_log.calls[-1]
        self.traffic.add(line_of(record, who))
        self._forget()
        self._settle()
        return reply

    def _caller(self, call: Call) -> str | None:
        """Whose token it is: a call that is struck never gets as far as to be asked."""
        token = self.exchange.database.tokens.get(call.headers.get("authorization", "").partition(" ")[2])
        return self.exchange.database.accounts[token.account].email if token is not None else None

    def _forget(self) -> None:
        audit_log = self.exchange.audit_log
        records: list[list[Any]] = [audit_log.calls, audit_log.logins, audit_log.changes, self.faults.fired]
        for record in records:
            if len(record) > _MOST_CALLS:
                del record[: _MOST_CALLS // 2]

    def _settle(self) -> None:
        if self._file is not None:
            self._file.save(self.exchange)
        waiting = self.faults.waiting
        self.armed = tuple(
            armed for armed in self.armed if any(rule is left for rule in armed.rules for left in waiting)
        )
        self.revision += 1
        self._changed.set()
        self._changed = anyio.Event()

    async def news(self, after: int, patience: float) -> None:
        """Waits until something has happened after that revision, `patience` seconds at most."""
        with anyio.move_on_after(patience):
            while self.revision == after:
                await self._changed.wait()

    # What a person does. Each raises `Refusal` where the exchange will not.

    def publish(self, values: Mapping[str, Any]) -> None:
        """Publishes a rate request as the shipper, with the fields of the service document, 4.3."""
        self.exchange.act(self.exchange.shipper, "POST", "quote/submitrequest", values, self.clock())
        self._settle()

    def withdraw(self, request: int) -> None:
        """Takes an open request out of every list."""
        record = self.exchange.database.requests.get(request)
        if record is None or record.state != "open":
            raise Refusal(400, "That request is not open any more.")
        self.exchange.withdraw(request, self.clock())
        self._settle()

    def respond(self, offer: int, *, approved: bool) -> None:
        """Approves or declines an offer as the shipper whose request it is on."""
        database = self.exchange.database
        found = database.offers.get(offer)
        request = database.requests.get(found.request) if found is not None else None
        if request is None:
            raise Refusal(404, "There is no such offer.")
        parameters = {"offerIndex": offer, "approved": int(approved)}
        self.exchange.act(database.accounts[request.owner], "POST", "quote/approveoffer", parameters, self.clock())
        self._settle()

    def compete(self, request: int) -> None:
        """Makes an offer as the rival: a little below the best one, or what such cargo may cost."""
        record = self.exchange.database.requests.get(request)
        if record is None:
            raise Refusal(404, "There is no such request.")
        cargo = record.cargo
        offers = [offer for offer in self.exchange.database.offers_on(request, self.clock()) if offer.currency == 840]
        if offers:
            amount = min(Decimal(offer.amount) for offer in offers) * Decimal("0.97")
            if amount < _LEAST:
                raise Refusal(400, f"The rival goes no lower: its least offer is {_LEAST}.00.")
        else:
            amount = Decimal(cargo.length * cargo.width * cargo.height * cargo.quantity) * _PER_VOLUME
        if not _LEAST <= amount <= _MOST:
            amount = _USUAL
        amount = amount.quantize(_CENT, ROUND_HALF_UP)
        parameters = {"requestIndex": request, "offer": amount, "currencyIndex": 840, "terms": "valid 7 days"}
        self.exchange.act(self.exchange.rival, "POST", "quote/submitoffer", parameters, self.clock())
        self._settle()

    def arm(
        self, name: str, *, operation: str, times: int | None, processed: bool | None, seconds: float | None
    ) -> None:
        """Switches a fault on, for one operation at all its addresses, or for any call."""
        recipe = PERFORMED.get(name)
        if recipe is None or (operation and operation not in OPERATIONS):
            raise Refusal(404, "There is no such fault here.")
        if processed is not None and processed not in recipe.phases:
            raise Refusal(400, "This fault cannot strike at that moment.")
        rules = recipe(times=times, processed=processed, seconds=seconds)
        if operation:
            rules = tuple(_at(rule, OPERATIONS[operation].addresses) for rule in rules)
        self.faults.add(*rules)
        self.armed = (*self.armed, Armed(next(self._numbers), name, operation, times, rules))
        self._settle()

    def disarm(self, number: int | None) -> None:
        """Switches one fault off, or all of them."""
        for armed in self.armed:
            if number is None or armed.id == number:
                self.faults.disarm(*armed.rules)
        self._settle()

    def turn(self, name: str, value: object) -> None:
        """Gives the exchange a habit."""
        self.exchange.profile = turned(self.exchange.profile, name, value)
        self._settle()

    def straighten(self) -> None:
        """Gives every habit up."""
        self.exchange.profile = type(self.exchange.profile)()
        self._settle()


def _at(rule: Fault, addresses: frozenset[tuple[str, str]]) -> Fault:
    return attrs.evolve(rule, method=None, path=None, when=lambda call: (call.method, call.path) in addresses)
