"""Controller of the board: the served exchange, its recent traffic, and the actions of the page."""

from __future__ import annotations

import itertools
import secrets
import time
from collections.abc import Callable, Collection, Mapping
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import anyio
import attrs

from freight_sandbox.board.guard import is_cross_site, is_known_host
from freight_sandbox.board.labels import AVAILABLE_FAULTS, OPERATIONS
from freight_sandbox.board.quirks import with_quirk
from freight_sandbox.board.traffic import Traffic, summarize
from freight_sandbox.codec import encode
from freight_sandbox.faults import Fault, FaultScript
from freight_sandbox.fields import Refusal
from freight_sandbox.service import Exchange
from freight_sandbox.wire import Call, Reply

__all__ = ["ArmedFault", "BoardController"]

# The audit log grows with every call, and a server may run for weeks.
_MAX_CALLS = 2000
_PRICE_PER_M3 = Decimal(70)
_DEFAULT_OFFER = Decimal(1000)
_MIN_OFFER, _MAX_OFFER = Decimal(1), Decimal(10) ** 12
_UNKNOWN_HOST = Reply(
    421, (("content-type", "application/json"),), encode({"message": "This server does not have that name."})
)
_CROSS_SITE = Reply(
    403, (("content-type", "application/json"),), encode({"message": "Pages of other sites may not call the exchange."})
)
_CENT = Decimal("0.01")


@attrs.frozen
class ArmedFault:
    """Fault that was switched on at the board, with its rules."""

    id: int
    name: str
    operation: str
    times: int | None
    rules: tuple[Fault, ...]


class BoardController:
    """Exchange behind a server and its board. Every change goes through here.

    Args:
        exchange: The exchange.
        clock: The exchange's time in seconds since the epoch.
        names: Host names of the server in addition to `localhost` and IP addresses.

    Attributes:
        exchange: The exchange itself.
        clock: The exchange's time in seconds since the epoch.
        names: Host names of the server in lower case, in addition to `localhost` and IP addresses.
        revision: Number that grows with every change, from a random start.
        traffic: The last calls, and the faults that struck calls.
        armed: The faults that were switched on at the board and can still strike.
    """

    def __init__(
        self,
        exchange: Exchange,
        *,
        clock: Callable[[], float] = time.time,
        names: Collection[str] = (),
    ) -> None:
        self.exchange = exchange
        self.clock = clock
        self.names = frozenset(name.lower() for name in names)
        # Each run starts at another revision, so that a page from before a restart notices a change.
        self.revision = 1 + secrets.randbelow(2**48)
        self.traffic = Traffic()
        self.armed: tuple[ArmedFault, ...] = ()
        self._numbers = itertools.count(1)
        self._logins: dict[int, dict[str, int]] = {}
        self._changed = anyio.Event()

    @property
    def faults(self) -> FaultScript:
        return self.exchange.faults

    def handle(self, call: Call, now: float) -> Reply:
        """Answer a call, and note it for the page."""
        if not is_known_host(call.headers, self.names):
            return _UNKNOWN_HOST
        if is_cross_site(call.headers):
            return _CROSS_SITE
        caller, login = self._caller(call)
        reply = self.exchange.handle(call, now)
        record = self.exchange.audit_log.calls[-1]
        self.traffic.add(summarize(record, caller, login))
        self._trim_audit_log()
        self._finish_change()
        return reply

    def _caller(self, call: Call) -> tuple[str | None, int | None]:
        """Return the account's email and the number of its login, by the token of the call.

        They are known even if a fault strikes the call. The number distinguishes replicas of a bot.
        """
        secret = call.headers.get("authorization", "").partition(" ")[2]
        token = self.exchange.tokens.get(secret)
        if token is None:
            return None, None
        logins = self._logins.setdefault(token.account, {})
        return self.exchange.accounts[token.account].email, logins.setdefault(secret, len(logins) + 1)

    def _trim_audit_log(self) -> None:
        audit_log = self.exchange.audit_log
        records: list[list[Any]] = [
            audit_log.calls,
            audit_log.logins,
            audit_log.changes,
            audit_log.offer_changes,
            self.faults.fired,
        ]
        for record in records:
            if len(record) > _MAX_CALLS:
                del record[: _MAX_CALLS // 2]

    def _finish_change(self) -> None:
        waiting = self.faults.waiting
        self.armed = tuple(
            armed for armed in self.armed if any(rule is fault for rule in armed.rules for fault in waiting)
        )
        self.revision += 1
        self._changed.set()
        self._changed = anyio.Event()

    async def wait_for_change(self, after: int, timeout: float) -> None:
        """Wait for a change after a revision, at most `timeout` seconds."""
        with anyio.move_on_after(timeout):
            while self.revision == after:
                await self._changed.wait()

    # Actions of the board. Each raises `Refusal` if the exchange refuses it.

    def publish(self, values: Mapping[str, Any]) -> None:
        """Publish a rate request as the shipper, with the fields of the service document, 4.3."""
        self.exchange.act(self.exchange.shipper, "POST", "quote/submitrequest", values, self.clock())
        self._finish_change()

    def withdraw(self, request: int) -> None:
        """Withdraw an open request."""
        record = self.exchange.requests.get(request)
        if record is None or record.state != "open":
            raise Refusal(400, "That request is not open any more.")
        self.exchange.withdraw(request, self.clock())
        self._finish_change()

    def respond(self, offer: int, *, approved: bool) -> None:
        """Approve or decline an offer as the shipper who published its request."""
        exchange = self.exchange
        found = exchange.offers.get(offer)
        request = exchange.requests.get(found.request) if found is not None else None
        if request is None:
            raise Refusal(404, "There is no such offer.")
        parameters = {"offerIndex": offer, "approved": int(approved)}
        self.exchange.act(exchange.accounts[request.owner], "POST", "quote/approveoffer", parameters, self.clock())
        self._finish_change()

    def offer_as_rival(self, request: int) -> None:
        """Make an offer as the rival: 3 % below the best offer, or a price by volume if there is none."""
        record = self.exchange.requests.get(request)
        if record is None:
            raise Refusal(404, "There is no such request.")
        cargo = record.cargo
        offers = [offer for offer in self.exchange.offers_on(request, self.clock()) if offer.currency == 840]
        if offers:
            amount = min(Decimal(offer.amount) for offer in offers) * Decimal("0.97")
            if amount < _MIN_OFFER:
                raise Refusal(400, f"The rival goes no lower: its least offer is {_MIN_OFFER}.00.")
        else:
            amount = Decimal(cargo.length * cargo.width * cargo.height * cargo.quantity) * _PRICE_PER_M3
        if not _MIN_OFFER <= amount <= _MAX_OFFER:
            amount = _DEFAULT_OFFER
        amount = amount.quantize(_CENT, ROUND_HALF_UP)
        parameters = {"requestIndex": request, "offer": amount, "currencyIndex": 840, "terms": "valid 7 days"}
        self.exchange.act(self.exchange.rival, "POST", "quote/submitoffer", parameters, self.clock())
        self._finish_change()

    def arm(
        self, name: str, *, operation: str, times: int | None, processed: bool | None, seconds: float | None
    ) -> None:
        """Switch a fault on, for one operation at all its addresses, or for any call."""
        factory = AVAILABLE_FAULTS.get(name)
        if factory is None or (operation and operation not in OPERATIONS):
            raise Refusal(404, "There is no such fault.")
        if processed is not None and processed not in factory.phases:
            raise Refusal(400, "This fault cannot strike at that moment.")
        rules = factory(times=times, processed=processed, seconds=seconds)
        if operation:
            rules = tuple(_at(rule, OPERATIONS[operation].addresses) for rule in rules)
        self.faults.add(*rules)
        self.armed = (*self.armed, ArmedFault(next(self._numbers), name, operation, times, rules))
        self._finish_change()

    def disarm(self, number: int | None) -> None:
        """Switch one fault off, or all of them."""
        for armed in self.armed:
            if number is None or armed.id == number:
                self.faults.disarm(*armed.rules)
        self._finish_change()

    def set_quirk(self, name: str, value: object) -> None:
        """Set a quirk of the exchange."""
        self.exchange.profile = with_quirk(self.exchange.profile, name, value)
        self._finish_change()

    def reset_quirks(self) -> None:
        """Set every quirk back to its documented value."""
        self.exchange.profile = type(self.exchange.profile)()
        self._finish_change()


def _at(rule: Fault, addresses: frozenset[tuple[str, str]]) -> Fault:
    return attrs.evolve(rule, method=None, path=None, when=lambda call: (call.method, call.path) in addresses)
