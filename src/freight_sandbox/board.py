"""Board of the sandbox: a web page on which a person acts as the shipper and switches faults on."""

from __future__ import annotations

import functools
import ipaddress
import itertools
import json
import secrets
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from decimal import ROUND_HALF_UP, Decimal
from importlib.resources import files
from typing import Any, Final
from urllib.parse import urlsplit

import anyio
import attrs

from freight_sandbox.audit import CallRecord
from freight_sandbox.codec import decode
from freight_sandbox.faults import FAULTS, Fault
from freight_sandbox.fields import Fields, Refusal, read_number
from freight_sandbox.quirks import Profile
from freight_sandbox.records import Request
from freight_sandbox.samples import CURRENCIES, samples
from freight_sandbox.service import OPERATIONS, Exchange, read_cargo
from freight_sandbox.wire import CONNECTING, Call, Reply

PATH: Final = "board"
"""Path of the page, relative to the server's root."""

_POLL_TIMEOUT, _MAX_BODY, _SAMPLES = 20.0, 100_000, 8
_MAX_RECORDS, _MAX_REQUESTS, _MAX_LINES, _MAX_STRIKES, _MAX_REACTIONS, _MAX_TEXT = 2000, 200, 40, 8, 4, 100
_DECLINED: Final = frozenset({"declined", "rejected", "removed"})
_KINDS: Final = {"html": "text/html; charset=utf-8", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
# No foreign or inline scripts: text that gets past the escaping still cannot run.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
_HEADERS: Final = (
    ("content-security-policy", _POLICY),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cache-control", "no-store"),
)
_OPERATIONS: Final = {f"{method} {path}": operation.name for (method, path), operation in OPERATIONS.items()}
_OPERATIONS["POST login"] = "login"
_PUBLISH: Final = ("POST", "quote/submitrequest")
# A running server cannot perform the faults that prevent a connection.
_FAULTS: Final = {name: fault for name, fault in FAULTS.items() if fault.cut not in CONNECTING}
_KNOBS: Final = {knob.name: knob for knob in Profile.knobs()}


@functools.cache
def _catalogue() -> Mapping[str, Any]:
    at = {name: _OPERATIONS.get(f"{fault.method or 'POST'} {fault.path}", "") for name, fault in _FAULTS.items()}
    choices = {name: None if knob.is_number else [knob.default, *knob.values] for name, knob in _KNOBS.items()}
    return {
        "faults": [_pick(it, "name", "meaning", "times") | {"operation": at[it.name]} for it in _FAULTS.values()],
        "quirks": [_pick(it, "name", "meaning", "default") | {"choices": choices[it.name]} for it in _KNOBS.values()],
    }


def _pick(record: object, *names: str) -> dict[str, Any]:
    return {name: getattr(record, name) for name in names}


# Protection against pages of other sites (CSRF and DNS rebinding)

_UNKNOWN_HOST: Final = "This server does not have that name."
_OWN_PAGE_ONLY: Final = "Pages of other sites may not do this."


def _is_known_host(headers: Mapping[str, str], names: Collection[str]) -> bool:
    """Return whether the `Host` is an IP address, `localhost` or one of `names`."""
    host = headers.get("host")
    if host is None:  # not a browser
        return True
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or name in names or bool(ipaddress.ip_address(name))
    except ValueError:
        return False


def _is_cross_site(headers: Mapping[str, str]) -> bool:
    """Return whether a browser reports that a page of another site sent this. Programs send no such header."""
    return headers.get("sec-fetch-site", "none") not in ("same-origin", "none")


def _permit_change(headers: Mapping[str, str]) -> None:
    """Refuse changes by anything but the board's own page: a page of another site cannot set these headers."""
    if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise Refusal(415, "Content-Type must be application/json.")
    is_own = headers.get("origin") == f"http://{headers.get('host')}"
    if not is_own or headers.get("sec-fetch-site", "same-origin") != "same-origin":
        raise Refusal(403, _OWN_PAGE_ONLY)


class Board:
    """Exchange with a page for people. Serve it as both: `serve(board, site=board)`.

    `names` are host names of the server in addition to `localhost` and IP addresses; `clock` is the exchange's time in
    seconds since the epoch.

    Attributes:
        url: The API root that the page shows. Set it when the server has its port.
        revision: Number that grows with every change, from a random start.
    """

    def __init__(self, exchange: Exchange, clock: Callable[[], float] = time.time, names: Collection[str] = ()) -> None:
        self.exchange, self.faults, self.url = exchange, exchange.faults, ""
        # Each run starts at another revision, so that a page from before a restart notices a change.
        self.revision = 1 + secrets.randbelow(2**48)
        self._clock = clock
        self._names = frozenset(name.lower() for name in names)
        self._changed = anyio.Event()
        self._numbers = itertools.count(1)
        self._armed: dict[int, tuple[dict[str, Any], tuple[Fault, ...]]] = {}
        self._calls: deque[dict[str, Any]] = deque(maxlen=_MAX_LINES)
        self._struck, self._strikes = 0, dict[tuple[Any, ...], dict[str, Any]]()
        page = files("freight_sandbox") / "page"
        self._files = {
            PATH if path.name == "board.html" else f"{PATH}/{path.name}": (path.read_bytes(), path.name)
            for path in (page.iterdir() if page.is_dir() else ())  # a freezer may leave it out
        }
        self._actions: Mapping[str, Callable[[Fields], None]] = {
            "requests": lambda it: exchange.act(exchange.shipper, *_PUBLISH, it.merged(), clock()),
            "change": self._change,
            "withdraw": lambda fields: exchange.withdraw(self._open(fields).index, clock()),
            "respond": self._respond,
            "offer_as_rival": self._offer_as_rival,
            "arm": self._arm,
            "disarm": lambda fields: self._disarm(fields.integer("id") if "id" in fields else None),
            "set_quirk": self._set_quirk,
            "reset_quirks": lambda fields: setattr(exchange, "profile", Profile()),
        }

    # Calls of programs

    def handle(self, call: Call, now: float) -> Reply:
        """Answer a call of a program, and note it for the page."""
        if not _is_known_host(call.headers, self._names):
            return _json({"message": _UNKNOWN_HOST}, 421)
        if _is_cross_site(call.headers):
            return _json({"message": _OWN_PAGE_ONLY}, 403)
        # By its token the caller is known even if a fault strikes the call, or ends all logins.
        token = self.exchange.tokens.get(call.headers.get("authorization", "").partition(" ")[2])
        caller = None if token is None else self.exchange.accounts[token.account].email
        reply = self.exchange.handle(call, now)
        self._note(self.exchange.audit_log.calls[-1], caller)
        self._finish_change()
        return reply

    def _note(self, record: CallRecord, caller: str | None) -> None:
        parameters, address = record.parameters or _sent(record.body), f"{record.method} {record.path}"
        request, operation = str(parameters.get("requestIndex")), _OPERATIONS.get(address, address[:_MAX_TEXT])
        if operation == "publish" and "requestIndex" in parameters:
            operation = "submit"  # one address takes both
        if operation == "login":
            caller = str(parameters.get("email") or "")[:_MAX_TEXT] or caller
        line: dict[str, Any] = _pick(record, "status", "processed") | {
            "caller": record.account or caller,
            "operation": operation,
            "request": int(request) if request.isdecimal() and len(request) < 16 else None,
            "fault": record.fault and record.fault.removesuffix(".then"),
        }
        if record.fault is None:
            # What callers do after a strike.
            for strike in self._strikes.values():
                about, then = {strike["request"], line["request"]} - {None}, strike["then"]
                if line["caller"] == strike["caller"] and len(about) < 2 and operation not in then:
                    then += [operation] if len(then) < _MAX_REACTIONS else []
        else:
            self._struck += 1
            key = (line["fault"], line["caller"], line["request"])
            count = self._strikes.pop(key, {"count": 0})["count"]
            self._strikes[key] = line | {"number": record.number, "count": count + 1, "then": []}
            if len(self._strikes) > _MAX_STRIKES:
                # The oldest of the fault that has most: one that strikes every call does not bury the others.
                ((most, _),) = Counter(fault for fault, *_ in self._strikes).most_common(1)
                del self._strikes[next(key for key in self._strikes if key[0] == most)]
        # A bot that polls fills a few lines, not the list.
        for other in itertools.islice(reversed(self._calls), 3):
            if line.items() <= other.items():
                other.update(count=other["count"] + 1, time=record.time)
                return
        self._calls.append(line | {"number": record.number, "time": record.time, "count": 1})

    def _finish_change(self) -> None:
        # The logs grow with every call, and a server may run for weeks.
        if len(self.exchange.audit_log.calls) > _MAX_RECORDS:
            self.exchange.audit_log.forget()
            self.faults.fired.clear()
        waiting = {id(fault) for fault in self.faults.waiting}
        for number in [key for key, (_, rules) in self._armed.items() if waiting.isdisjoint(map(id, rules))]:
            del self._armed[number]
        self.revision += 1
        self._changed.set()
        self._changed = anyio.Event()

    # The page and its actions

    async def __call__(self, call: Call) -> Reply:
        if call.method == "HEAD":
            return _reply(405, b"")  # a body would be taken for the next reply
        try:
            if not _is_known_host(call.headers, self._names):
                raise Refusal(421, _UNKNOWN_HOST)
            if call.method == "POST":
                return self._run_action(call)
            if call.method != "GET":
                raise Refusal(405, "Method Not Allowed")
            return await self._show(call)
        except Refusal as refusal:
            return _json({"message": refusal.sentence, "field": refusal.field}, refusal.status)

    async def _show(self, call: Call) -> Reply:
        if call.path == "":
            return _reply(302, b"", ("location", f"/{PATH}"))
        if call.path in self._files:
            content, name = self._files[call.path]
            return _reply(200, content, ("content-type", _KINDS[name.rpartition(".")[2]]))
        if call.path not in (f"{PATH}/catalogue", f"{PATH}/state"):
            raise Refusal(404, "Not Found")
        if _is_cross_site(call.headers):
            raise Refusal(403, _OWN_PAGE_ONLY)
        if call.path == f"{PATH}/catalogue":
            them = (self.exchange.shipper, self.exchange.forwarder, self.exchange.rival)
            accounts = [_pick(it, "name", "email", "password", "role") for it in them]
            found = [*samples(_SAMPLES, self._clock())]
            return _json({**_catalogue(), "url": self.url, "accounts": accounts, "samples": found})
        fields = Fields({}, call.query)
        after = fields.integer("after", least=0) if "after" in fields else 0
        with anyio.move_on_after(_POLL_TIMEOUT):
            while self.revision == after:
                await self._changed.wait()
        return _json(self._state())

    def _run_action(self, call: Call) -> Reply:
        act = self._actions.get(call.path.removeprefix(f"{PATH}/"))
        if act is None:
            raise Refusal(404, "There is no such action.")
        _permit_change(call.headers)
        if len(call.body) > _MAX_BODY:
            raise Refusal(413, "The body is too long.")
        act(Fields(_sent(call.body), {}))
        self._finish_change()
        return _json({"revision": self.revision})

    def _open(self, fields: Fields) -> Request:
        record = self.exchange.requests.get(fields.integer("request"))
        if record is None or record.state != "open":
            raise Refusal(400, "That request is not open any more.")
        return record

    def _change(self, fields: Fields) -> None:
        record = self._open(fields)
        cargo = read_cargo(Fields({**attrs.asdict(record.cargo), **fields.merged()}, {}))
        self.exchange.update(record.index, self._clock(), cargo)

    def _respond(self, fields: Fields) -> None:
        offer = self.exchange.offers.get(fields.integer("offer"))
        if offer is None:
            raise Refusal(404, "There is no such offer.")
        owner = self.exchange.accounts[self.exchange.requests[offer.request].owner]
        values = {"offerIndex": offer.index, "approved": fields.get("approved")}
        self.exchange.act(owner, "POST", "quote/approveoffer", values, self._clock())

    def _offer_as_rival(self, fields: Fields) -> None:
        """Offer 3 % below the best offer, or a price by volume if there is none."""
        request, now = fields.integer("request"), self._clock()
        record = self.exchange.requests.get(request)
        if record is None:
            raise Refusal(404, "There is no such request.")
        cargo = record.cargo
        best = [Decimal(offer.amount) for offer in self.exchange.offers_on(request, now) if offer.currency == 840]
        price = 70 * Decimal(cargo.length * cargo.width * cargo.height * cargo.quantity)
        amount = min(best) * Decimal("0.97") if best else price
        offer = min(max(amount, Decimal(1)), Decimal(10**12)).quantize(Decimal("0.01"), ROUND_HALF_UP)
        values = {"requestIndex": request, "offer": offer, "currencyIndex": 840, "terms": "valid 7 days"}
        self.exchange.act(self.exchange.rival, "POST", "quote/submitoffer", values, now)

    def _arm(self, fields: Fields) -> None:
        """Switch a fault on, for one operation at all its addresses, or for any call."""
        name, operation = fields.text("name"), fields.optional_text("operation")
        processed = fields.get("processed")
        times = fields.integer("times", least=1, most=1000) if "times" in fields else None
        factory = _FAULTS.get(name)
        if factory is None or (operation and operation not in _OPERATIONS.values()):
            raise Refusal(404, "There is no such fault.")
        if processed is not None and not any(processed is phase for phase in factory.phases):
            raise Refusal(400, "This fault cannot strike at that moment.")
        rules = factory(times=times, processed=processed)
        if operation:
            when: Any = lambda call: _OPERATIONS.get(f"{call.method} {call.path}") == operation  # noqa: E731
            rules = tuple(attrs.evolve(rule, method=None, path=None, when=when) for rule in rules)
        self.faults.add(*rules)
        number = next(self._numbers)
        self._armed[number] = {"id": number, "fault": name, "operation": operation, "times": times}, rules

    def _disarm(self, number: int | None) -> None:
        for key, (_, rules) in self._armed.items():
            if number in (None, key):
                self.faults.disarm(*rules)

    def _set_quirk(self, fields: Fields) -> None:
        name, value = fields.text("name"), fields.get("value")
        knob, number = _KNOBS.get(name), read_number(value)
        if knob is None or not knob.is_number:
            choices = () if knob is None else (knob.default, *knob.values)
            fits = repr(value) in map(repr, choices)  # as True == 1
        elif isinstance(knob.default, float):
            fits, value = number is not None and 0 <= number <= 60, float(number or 0)
        else:
            fits = (isinstance(value, int) and 1 <= (number or 0) <= 10_000_000) or value is knob.default is None
        if not fits:
            raise Refusal(400, "No such quirk or value. Seconds go to 60, counts are whole numbers to 10,000,000.")
        self.exchange.profile = attrs.evolve(self.exchange.profile, **{name: value})

    # State

    def _state(self) -> dict[str, Any]:
        exchange = self.exchange
        requests, offers = [*exchange.requests], [*exchange.offers]
        states = Counter(request.state for request in requests)
        copies = Counter((offer.request, offer.account, offer.amount, offer.currency) for offer in offers)
        # Over the limit, closed requests are dropped first.
        shown = sorted(requests, key=lambda it: (it.state == "open", it.index), reverse=True)[:_MAX_REQUESTS]
        return {
            "revision": self.revision,
            "counts": {
                "requests": len(requests),
                **{state: states[state] for state in ("open", "selected", "withdrawn")},
                "offers": len(offers),
                "waiting": sum(
                    it.status == "pending" and exchange.requests[it.request].state == "open" for it in offers
                ),
                "struck": self._struck,
                "duplicates": copies.total() - len(copies),
            },
            "hidden": len(requests) - len(shown),
            "requests": [self._request(it) for it in sorted(shown, key=lambda it: it.index, reverse=True)],
            "calls": [*reversed(self._calls)],
            "strikes": [strike | {"offers": self._copies(strike)} for strike in reversed(self._strikes.values())],
            "armed": [words for words, _ in self._armed.values()],
            "quirks": exchange.profile.changes(),
        }

    def _request(self, request: Request) -> dict[str, Any]:
        exchange, offers = self.exchange, self.exchange.offers_on(request.index)
        standing = [(offer.currency, Decimal(offer.amount)) for offer in offers if offer.status not in _DECLINED]
        lowest = dict(sorted(standing, reverse=True))
        # Amounts of different currencies do not compare.
        cheapest = [*lowest.items()] if len(lowest) == 1 and len(standing) > 1 else []
        # As in the service, a forwarder is named only once its offer is approved.
        selected = [] if request.selected is None else [exchange.offers[request.selected].account, request.owner]
        return {
            **_pick(request, "index", "refid", "state", "created"),
            "cargo": attrs.asdict(request.cargo),
            "contacts": [
                _pick(it, "name", "email") | _pick(it.company, "phone", "city") | {"company": it.company.name}
                for it in map(exchange.accounts.__getitem__, selected)
            ],
            "offers": [
                _pick(offer, "index", "amount", "status", "rates", "terms")
                | {
                    "currency": CURRENCIES[offer.currency]["code"],
                    "is_own": offer.account == exchange.forwarder.index,  # the account that the page assigns to a bot
                    "is_lowest": offer.status not in _DECLINED and (offer.currency, offer.amount) in cheapest,
                }
                for offer in offers
            ],
        }

    def _copies(self, strike: Mapping[str, Any]) -> int | None:
        """Count the equal offers of a struck caller that stand; more than one means that it was sent again."""
        if strike["request"] is None or strike["operation"] != "submit":
            return None
        standing = [it for it in self.exchange.offers_on(strike["request"]) if it.status not in _DECLINED]
        own = [it for it in standing if self.exchange.accounts[it.account].email == strike["caller"]]
        return max(Counter((it.amount, it.currency) for it in own).values(), default=0)


def _sent(body: bytes) -> dict[str, Any]:
    with suppress(ValueError):
        if isinstance(values := decode(body), dict):
            return values
    return {}


def _json(value: Mapping[str, Any], status: int = 200) -> Reply:
    """Make a JSON reply, without the codec of the exchange: a text with the codec's mark would become invalid JSON."""
    return _reply(status, json.dumps(value, default=float).encode("ascii"), ("content-type", "application/json"))


def _reply(status: int, body: bytes, *headers: tuple[str, str]) -> Reply:
    return Reply(status, (*headers, *_HEADERS), body)
