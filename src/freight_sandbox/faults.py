"""Faults: the rules and the script that applies them to calls, mutations of replies, and the catalogue by name."""

from __future__ import annotations

import email.utils
import functools
import gzip
import re
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from random import Random
from typing import Any, Final, NamedTuple

import attrs

from freight_sandbox.codec import Raw, decode, encode
from freight_sandbox.wire import Call, Cut, Reply, WireFault

Mutation = Callable[[Reply, float, Random], Reply]
"""Change of the reply, at a time, with a random source. A call that was not carried out has a reply of status 0."""
Change = Callable[[Any, float], None]
"""Action on the exchange, at a time."""


@attrs.frozen(kw_only=True)
class Fault:
    """Rule that strikes calls.

    A call matches by `method` and `path` (`None` matches all) and by `when`, which receives the call; for an early cut
    the call has no body. The first `skip` matching calls pass, and the next `times` are struck (`None`: all of them).

    A struck call is carried out if `processed` is true. Just before, `change` receives the exchange and the time.
    `mutate` changes the reply, or makes one if the call was not processed. `wire` breaks the connection. `delay` is the
    number of seconds by which the reply is late.
    """

    name: str
    method: str | None = None
    path: str | None = None
    when: Callable[[Call], bool] | None = None
    processed: bool = True
    times: int | None = 1
    skip: int = 0
    wire: WireFault | None = None
    mutate: Mutation | None = None
    change: Change | None = None
    delay: float = 0.0

    def __attrs_post_init__(self) -> None:
        if not self.processed and self.wire is None and self.mutate is None:
            raise ValueError(f"the fault {self.name} leaves a call without reply and without a cut")

    @property
    def early(self) -> bool:
        """`True` if the fault strikes before the server has the whole request."""
        return self.wire is not None and self.wire.cut.early

    def matches(self, call: Call) -> bool:
        return (
            (self.method is None or self.method == call.method)
            and (self.path is None or self.path == call.path)
            and (self.when is None or self.when(call))
        )


class Fired(NamedTuple):
    """Record of a strike: the fault, the number of the call in the audit log, and whether the call took effect."""

    name: str
    call: int
    processed: bool


@attrs.define(eq=False)
class _Armed:
    """Fault with its counters."""

    fault: Fault
    skip: int
    times: int | None


class FaultScript:
    """Armed faults, in the order in which they were added. The first that matches a call strikes it."""

    def __init__(self) -> None:
        self._armed: list[_Armed] = []
        self.fired: list[Fired] = []

    def add(self, *faults: Fault) -> None:
        """Arm faults, after those that are armed already."""
        self._armed += [_Armed(fault, fault.skip, fault.times) for fault in faults]

    def clear(self) -> None:
        """Disarm every fault. `fired` keeps its records."""
        self._armed.clear()

    def disarm(self, *faults: Fault) -> None:
        """Disarm these faults (compared by identity)."""
        self._armed = [armed for armed in self._armed if not any(armed.fault is fault for fault in faults)]

    @property
    def waiting(self) -> tuple[Fault, ...]:
        """Faults that can still strike."""
        return tuple(armed.fault for armed in self._armed)

    def peek(self, call: Call) -> Fault | None:
        """Return the fault that would strike this call, without counting it."""
        return next((armed.fault for armed in self._armed if not armed.skip and armed.fault.matches(call)), None)

    def take(self, call: Call) -> Fault | None:
        """Return the fault that strikes this call, and count it. The caller records the strike with `note`."""
        for armed in self._armed:
            if not armed.fault.matches(call):
                continue
            if armed.skip:
                armed.skip -= 1
                continue
            if armed.times is not None:
                armed.times -= 1
                if armed.times == 0:
                    self._armed.remove(armed)
            return armed.fault
        return None

    def note(self, fault: Fault, call: int, processed: bool) -> None:
        """Record a strike. `processed` is true if the call took effect."""
        self.fired.append(Fired(fault.name, call, processed))


@attrs.frozen
class FaultFactory:
    """Fault of the catalogue. Call it to make its rules: `exchange.faults.add(*FAULTS["stall"](path="login"))`.

    `phases` lists the allowed values of `processed`; the first is the default. `method`, `path` and `times` are the
    defaults of the call. `seconds` is the pause of a drip, the wait of an idle FIN, the delay of `retry_after`, which
    makes the mutation of a reply with that header, or the delay of a late reply (`is_late`). `next_mutation` changes
    the reply to the call after the struck one.
    """

    name: str
    meaning: str
    phases: tuple[bool, ...]
    cut: Cut | None = None
    mutation: Mutation | None = None
    retry_after: Callable[[float], Mutation] | None = None
    change: Change | None = None
    next_mutation: Mutation | None = None
    method: str | None = None
    path: str | None = None
    times: int | None = 1
    is_late: bool = False
    seconds: float = 0.0
    size: int = 0

    def __call__(
        self,
        *,
        method: str | None = None,
        path: str | None = None,
        times: int | None = -1,
        skip: int = 0,
        processed: bool | None = None,
        seconds: float | None = None,
    ) -> tuple[Fault, ...]:
        """Make the rules, in order. `times` is the number of calls to strike, `None` for all."""
        phase = self.phases[0] if processed is None else processed
        if phase not in self.phases:
            raise ValueError(f"{self.name} cannot strike {'after' if phase else 'before'} processing")
        pause = self.seconds if seconds is None else seconds
        fault = Fault(
            name=self.name,
            method=method or self.method,
            path=path or self.path,
            processed=phase,
            times=self.times if times == -1 else times,
            skip=skip,
            wire=WireFault(self.cut, pause, self.size) if self.cut is not None else None,
            mutate=self.retry_after(pause) if self.retry_after is not None else self.mutation,
            change=self.change,
            delay=pause if self.is_late else 0.0,
        )
        if self.next_mutation is None:
            return (fault,)
        return fault, attrs.evolve(fault, name=f"{self.name}.then", processed=False, mutate=self.next_mutation)


# Mutations that replace the reply

_JSON: Final = (("content-type", "application/json"),)
_PAGE: Final = (
    b"<!DOCTYPE html><html><head><title>Freight Exchange</title></head><body><h1>Be right back.</h1></body></html>"
)
_DEPTH: Final = 100_000
_BOMB_SIZE: Final = 50_000_000


def raw_reply(status: int, body: bytes, content_type: str = "application/json", *headers: tuple[str, str]) -> Mutation:
    """Replace the reply with these bytes."""
    reply = Reply(status, (("content-type", content_type), *headers), body)
    return lambda good, now, random: reply


def json_reply(status: int, payload: object, *headers: tuple[str, str]) -> Mutation:
    """Replace the reply with JSON."""
    return raw_reply(status, encode(payload), "application/json", *headers)


def html_reply(status: int) -> Mutation:
    """Replace the reply with a page of HTML."""
    return raw_reply(status, _PAGE, "text/html; charset=UTF-8")


def _retry_after(status: int, payload: object) -> Callable[[float], Mutation]:
    return lambda seconds: json_reply(status, payload, ("retry-after", f"{seconds:.0f}"))


def _retry_at_date(seconds: float) -> Mutation:
    """Replace the reply with a 429 whose Retry-After date is `seconds` ahead of the server's clock."""

    def mutate(good: Reply, now: float, random: Random) -> Reply:
        date = email.utils.formatdate(now + seconds, usegmt=True)
        return json_reply(429, _BUSY, ("retry-after", date))(good, now, random)

    return mutate


def _placeholder(good: Reply, now: float, random: Random) -> Reply:
    """Make a reply to cut short, for a call that was not processed and has none."""
    return good if good.status else Reply(500, _JSON, encode({"message": "Internal error " + "x" * 200}))


@functools.cache
def _bomb(layers: int) -> bytes:
    body = b" " * _BOMB_SIZE + b"{}"
    for _ in range(layers):
        body = gzip.compress(body, compresslevel=9, mtime=0)
    return body


def _gzip_bomb(layers: int) -> Mutation:
    """Replace the reply with 50 MB of white space and valid JSON: 49 kB gzipped once, a few hundred bytes twice."""
    headers = (*_JSON, ("content-encoding", ", ".join(["gzip"] * layers)))
    return lambda good, now, random: Reply(200, headers, _bomb(layers))


# Mutations of the good reply


def _encoded(change: Callable[[bytes], bytes], encoding: str) -> Mutation:
    """Change the body and declare its encoding."""
    header = ("content-encoding", encoding)
    return lambda good, now, random: attrs.evolve(good, headers=(*good.headers, header), body=change(good.body))


def _gzip(body: bytes) -> bytes:
    return gzip.compress(body, mtime=0)


def _half(body: bytes) -> bytes:
    return body[: len(body) // 2]


def _charset(name: str) -> Mutation:
    """Declare another charset; the body stays UTF-8."""
    headers = (("content-type", f"application/json; charset={name}"),)
    return lambda good, now, random: attrs.evolve(good, headers=headers)


def _body(change: Callable[[bytes], bytes]) -> Mutation:
    return lambda good, now, random: attrs.evolve(good, body=change(good.body))


def _instead_of(pattern: bytes, text: bytes, otherwise: bytes) -> Mutation:
    """Replace the first match in the body, or a body without one."""
    compiled = re.compile(pattern)

    def change(body: bytes) -> bytes:
        changed, found = compiled.subn(lambda match: text, body, count=1)
        return changed if found else otherwise

    return _body(change)


def _number(text: str) -> Mutation:
    """Write another text for the first number."""
    return _instead_of(rb'(?<!\\)":(-?[0-9]+(?:\.[0-9]+)?)', b'":' + text.encode(), encode({"index": Raw(text)}))


def _text(begin: bytes) -> Mutation:
    """Begin the first text with these bytes."""
    return _instead_of(rb'(?<!\\)":"', b'":"' + begin, b'{"message":"' + begin + b'"}')


def _repeat_key(body: bytes) -> bytes:
    """Repeat the first key, first with an empty value."""
    key = body[1 : body.find(b":")]
    return b"{" + key + b":{}," + body[1:]


Json = dict[str, Any]


def _payload(reply: Reply) -> Json:
    """Return the JSON of a good reply, an empty object for any other."""
    try:
        payload = decode(reply.body) if 0 < reply.status < 300 else {}
    except ValueError:
        return {}
    return payload if isinstance(payload, dict) else {}


def _json(change: Callable[[Json, float, Random], object]) -> Mutation:
    """Change the decoded body in place."""

    def mutate(good: Reply, now: float, random: Random) -> Reply:
        payload = _payload(good)
        change(payload, now, random)
        return attrs.evolve(good, body=encode(payload)) if payload else good

    return mutate


def _break_record(payload: Json, now: float, random: Random) -> None:
    """Replace a random record of the collection with a text."""
    for records in payload.values():
        if isinstance(records, dict | list) and records:
            keys = sorted(records) if isinstance(records, dict) else range(len(records))
            records[random.choice(keys)] = "Undefined index: refId"


def _user(key: str, value: Callable[[float], object] | None) -> Mutation:
    """Change a field of a login's user to a value that depends on the time, or remove it."""

    def change(payload: Json, now: float, random: Random) -> None:
        user = payload.get("user", {})
        if value is None:
            user.pop(key, None)
        elif user:
            user[key] = value(now)

    return _json(change)


def _add_refusal(payload: Json, now: float, random: Random) -> None:
    """Add the key of a refusal, with a null value."""
    if payload:
        payload["Unauthorized"] = None


def _another(sign: str, keys: Iterable[str], by: int, words: Mapping[str, str] | None = None) -> Mutation:
    """Raise numbers, and replace words, in the first record that has the key `sign`."""

    def change(payload: Json, now: float, random: Random) -> None:
        record = _first(payload, sign) or {}
        changes = {key: _raised(record[key], by) for key in keys if key in record} | dict(words or {})
        record.update({key: changes[key] for key in changes.keys() & record.keys()})

    return _json(change)


def _first(value: object, sign: str) -> Json | None:
    if isinstance(value, dict) and sign in value:
        return value
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return next((found for item in inner if (found := _first(item, sign)) is not None), None)


def _raised(value: object, by: int) -> object:
    """Add to a number, and keep its JSON form."""
    if isinstance(value, str):
        return str(Decimal(value) + by)
    return value + by if isinstance(value, int | Decimal) else value


# Changes of the exchange


def _publish(exchange: Any, now: float) -> None:
    exchange.publish(exchange.shipper, now)


def _withdraw(exchange: Any, now: float) -> None:
    if (newest := exchange.newest_open()) is not None:
        exchange.withdraw(newest, now)


def _touch(exchange: Any, now: float) -> None:
    if (oldest := exchange.oldest_open()) is not None:
        exchange.touch(oldest, now)


def _reorder(exchange: Any, now: float) -> None:
    exchange.reorder()


# The catalogue

_DENIED: Final = {"Unauthorized": "Access denied. The token is missing, invalid or expired."}
_FAILED: Final = {"message": "The user name or password is invalid."}
_BUSY: Final = {"message": "Too many requests."}
_DOWN: Final = {"message": "Service unavailable."}
_ERROR: Final = json_reply(500, {"message": "Internal server error."})
_ELSEWHERE: Final = json_reply(307, {}, ("location", "https://elsewhere.example/api/login"))
_OTHER: Final = {
    "commodityname": "Cement",
    "cargoname": "Cement",
    "origin": "Piraeus",
    "destination": "Boston",
    "voyageId": "999X",
}

Phases = tuple[bool, ...]
BEFORE: Final[Phases] = (False,)
AFTER: Final[Phases] = (True,)
EITHER: Final[Phases] = (True, False)
EITHER_BEFORE: Final[Phases] = (False, True)


def _cut(cut: Cut, phases: Phases, meaning: str, seconds: float = 0.0, size: int = 0) -> FaultFactory:
    mutation = _placeholder if cut in _REPLIES else None
    return FaultFactory(cut.value, meaning, phases, cut=cut, mutation=mutation, seconds=seconds, size=size)


def _row(name: str, phases: Phases, meaning: str, mutation: Mutation | None = None, **more: Any) -> FaultFactory:
    return FaultFactory(name, meaning, phases, mutation=mutation, **more)


def _at(address: str, *rows: FaultFactory) -> Iterable[FaultFactory]:
    """Let faults strike calls to one address."""
    method, path = address.split()
    return (attrs.evolve(row, method=method, path=path) for row in rows)


_REPLIES: Final = frozenset(
    {Cut.RESET_MID_REPLY, Cut.STALL_MID_REPLY, Cut.DRIP, Cut.BYTES_AFTER_REPLY}
    | {Cut.TRUNCATED_LENGTH, Cut.TRUNCATED_CHUNKS, Cut.IDLE_FIN}
)
"""Cuts that need a reply."""

_CATALOGUE: Final = (
    # Connections
    _cut(Cut.REFUSED, BEFORE, "nothing listens"),
    _cut(Cut.DNS, BEFORE, "the name does not resolve"),
    _cut(Cut.CONNECT_STALL, BEFORE, "the connection is never established"),
    _cut(Cut.TLS_STALL, BEFORE, "the TLS hello is never answered"),
    _cut(Cut.BAD_CERTIFICATE, BEFORE, "the certificate is not trusted"),
    _cut(Cut.POOL_EXHAUSTED, BEFORE, "no connection is free"),
    _cut(Cut.RESET_BEFORE_HEADERS, BEFORE, "reset before the request's head was read"),
    _cut(Cut.RESET_MID_BODY, BEFORE, "reset in the middle of the request's body"),
    _cut(Cut.RESET_AFTER_SEND, BEFORE, "the request received whole, not processed, then a reset"),
    _cut(Cut.RESET_AFTER_PROCESSING, AFTER, "processed, then a reset instead of the reply"),
    _cut(Cut.RESET_MID_REPLY, EITHER, "a reset in the middle of the reply's body"),
    _cut(Cut.FIN_NO_BYTES, EITHER, "closed cleanly without a byte"),
    _cut(Cut.STALL, EITHER, "no reply, ever"),
    _cut(Cut.STALL_MID_REPLY, EITHER, "silence in the middle of the reply's body"),
    _cut(Cut.DRIP, AFTER, "the reply byte by byte", seconds=0.05),
    _cut(Cut.TRUNCATED_LENGTH, EITHER, "less than Content-Length"),
    _cut(Cut.TRUNCATED_CHUNKS, EITHER, "no last chunk"),
    _cut(Cut.GARBAGE_STATUS, EITHER, "a status line that is not HTTP"),
    _cut(Cut.HEADER_FLOOD, EITHER, "headers without end", size=1_000_000),
    _cut(Cut.BYTES_AFTER_REPLY, AFTER, "a good reply, and its bytes again on the open connection"),
    _cut(Cut.IDLE_FIN, AFTER, "a good reply, then the idle connection is closed"),
    # Bodies
    _row("gzip_bomb", EITHER, "49 kB that decompress to 50 MB", _gzip_bomb(1)),
    _row("gzip_bomb_twice", EITHER, "a few hundred bytes that decompress to 50 MB in two layers", _gzip_bomb(2)),
    _row("gzip", AFTER, "one valid layer of gzip", _encoded(_gzip, "gzip")),
    _row("double_gzip", AFTER, "two layers of gzip", _encoded(lambda body: _gzip(_gzip(body)), "gzip, gzip")),
    _row("false_gzip", AFTER, "Content-Encoding gzip on a plain body", _encoded(lambda body: body, "gzip")),
    _row("short_gzip", AFTER, "a gzip stream that ends too early", _encoded(lambda body: _half(_gzip(body)), "gzip")),
    _row("deep_json", EITHER, "lists nested 100,000 deep", raw_reply(200, b"[" * _DEPTH + b"]" * _DEPTH)),
    _row(
        "deep_object", EITHER, "objects nested 100,000 deep", raw_reply(200, b'{"a":' * _DEPTH + b"1" + b"}" * _DEPTH)
    ),
    _row("long_integer", AFTER, "an integer of 5,000 digits", _number("7" * 5000)),
    _row("nan", AFTER, "NaN for a number", _number("NaN")),
    _row("infinity", AFTER, "-Infinity for a number", _number("-Infinity")),
    _row("huge_exponent", AFTER, "1e999 for a number", _number("1e999")),
    _row("duplicate_keys", AFTER, "the first key occurs twice", _body(_repeat_key)),
    _row("lone_surrogate", AFTER, "half a surrogate pair in a text", _text(rb"\ud800")),
    _row("invalid_utf8", AFTER, "bytes that are not UTF-8 in a text", _text(b"\xe9\xff")),
    _row("bom", AFTER, "a byte-order mark", _body(lambda body: b"\xef\xbb\xbf" + body)),
    _row("wrong_charset", AFTER, "charset=utf-16 on a UTF-8 body", _charset("utf-16")),
    _row("unknown_charset", AFTER, "an unknown charset", _charset("x-klingon")),
    _row("half_json", AFTER, "half of the JSON with the right length", _body(_half)),
    _row("html_200", EITHER, "a page of HTML with 200", html_reply(200)),
    _row("empty_200", EITHER, "200 without a body", raw_reply(200, b"")),
    _row("array_200", EITHER, "[1,2,3] with 200", raw_reply(200, b"[1,2,3]")),
    _row("scalar_200", EITHER, "a bare number with 200", raw_reply(200, b"42")),
    _row("maintenance_200", EITHER, "an object without the collection", json_reply(200, {"message": "maintenance"})),
    _row("poison_record", AFTER, "one broken record among the good ones", _json(_break_record)),
    # Statuses
    _row("slow", AFTER, "a good reply, late", seconds=1.0, is_late=True),
    _row("throttled", BEFORE, "429 without Retry-After", json_reply(429, _BUSY)),
    _row("throttled_seconds", BEFORE, "429, Retry-After in seconds", retry_after=_retry_after(429, _BUSY), seconds=1.0),
    _row("throttled_date", BEFORE, "429, Retry-After as an HTTP date", retry_after=_retry_at_date, seconds=1.0),
    _row("throttled_negative", BEFORE, "429, Retry-After below zero", _retry_after(429, _BUSY)(-5)),
    _row("throttled_huge", BEFORE, "429, Retry-After of 10^12 seconds", _retry_after(429, _BUSY)(10**12)),
    _row(
        "throttled_nonsense",
        BEFORE,
        "429, Retry-After that is not a time",
        json_reply(429, _BUSY, ("retry-after", "soon")),
    ),
    _row("unavailable", EITHER_BEFORE, "503", json_reply(503, _DOWN)),
    _row("unavailable_forever", BEFORE, "503 for every call", json_reply(503, _DOWN), times=None),
    _row(
        "unavailable_retry_after",
        EITHER_BEFORE,
        "503 with Retry-After",
        retry_after=_retry_after(503, _DOWN),
        seconds=1.0,
    ),
    _row("server_error", BEFORE, "500 before the call was carried out", _ERROR),
    _row("server_error_after_commit", AFTER, "500 after the call was carried out", _ERROR),
    _row("bad_gateway", EITHER_BEFORE, "502 as a page of HTML", html_reply(502)),
    _row("request_timeout", EITHER_BEFORE, "408", json_reply(408, {"message": "Request timeout."})),
    _row("not_found_page", BEFORE, "404 as a page of HTML", html_reply(404)),
    _row(
        "bad_request_after_commit",
        AFTER,
        "500 after the commit, and 400 for the next try",
        _ERROR,
        next_mutation=json_reply(400, {"message": "You have already submitted this."}),
    ),
    _row("redirect", BEFORE, "307 to another origin", _ELSEWHERE),
    _row("unauthorized_once", BEFORE, "401 once", json_reply(401, _DENIED)),
    _row("unauthorized_forever", BEFORE, "401 from now on", json_reply(401, _DENIED), times=None),
    _row("unauthorized_200", BEFORE, "Unauthorized with status 200", json_reply(200, _DENIED)),
    _row("success_with_unauthorized", AFTER, "a good reply with `Unauthorized: null`", _json(_add_refusal)),
    _row(
        "tokens_revoked", AFTER, "every token is revoked at once", change=lambda exchange, now: exchange.expire_tokens()
    ),
    # Replies about another write than the one that was carried out
    *_at(
        "POST quote/submitoffer",
        _row(
            "reply_of_another_request",
            AFTER,
            "carried out, but the reply shows another request",
            _another("index", ["index"], 1, _OTHER),
        ),
        _row(
            "reply_with_another_amount",
            AFTER,
            "taken, but the reply shows another amount",
            _another("offerAmount", ["offerAmount"], 1000),
        ),
        _row(
            "reply_with_another_currency",
            AFTER,
            "taken, but the reply shows another currency",
            # From the dollar to another listed currency.
            _another("offerAmount", ["currencyIndex", "currencyId"], 138),
        ),
    ),
    *_at(
        "POST quote/approveoffer",
        _row(
            "approval_of_another_offer",
            AFTER,
            "carried out, but the reply shows another offer",
            _another("offerAmount", ["offerIndex", "offerId", "index"], 1),
        ),
    ),
    *_at(
        "POST login",
        *(
            _row(f"login_message_{status}", BEFORE, f"a failed login with {status}", json_reply(status, _FAILED))
            for status in (200, 400, 401, 403, 422, 500)
        ),
        _row("login_html", BEFORE, "a page of HTML for a login", html_reply(200)),
        _row("login_redirect", BEFORE, "307 to another origin for a login", _ELSEWHERE),
        _row("login_without_token", AFTER, "a user without a token", _user("access_token", None)),
        _row("login_expires_zero", AFTER, "expires_on 0", _user("expires_on", lambda now: 0)),
        _row("login_expires_epoch", AFTER, "expires_on as an epoch", _user("expires_on", lambda now: int(now) + 3600)),
        _row("login_expires_string", AFTER, "expires_on as a text", _user("expires_on", lambda now: "3600")),
        _row("login_expires_missing", AFTER, "no expires_on", _user("expires_on", None)),
        _row("login_hung", EITHER_BEFORE, "a login that is never answered", cut=Cut.STALL),
    ),
    # Listings that move
    *_at(
        "POST quote/getrequests",
        _row("rows_inserted", AFTER, "a request is published just before the call", change=_publish),
        _row("rows_removed", AFTER, "the newest open request is withdrawn just before the call", change=_withdraw),
        _row("rows_touched", AFTER, "the oldest open request is updated just before the call", change=_touch),
        _row("rows_reordered", AFTER, "the listing has another order from this call on", change=_reorder),
    ),
)

FAULTS: Final[Mapping[str, FaultFactory]] = {factory.name: factory for factory in _CATALOGUE}
