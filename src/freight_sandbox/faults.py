"""Faults: the rules and the script that applies them to calls, mutations of replies, and the catalogue by name."""

from __future__ import annotations

import email.utils
import functools
import gzip
import http
import re
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from random import Random
from typing import Any, Final, NamedTuple

import attrs

from freight_sandbox.codec import Raw, decode, encode
from freight_sandbox.wire import Call, Cut, Reply, WireFault

Json = dict[str, Any]
Mutation = Callable[[Reply, float, Random], Reply]
"""Change of the reply, at a time, with a random source. A call that was not carried out has a reply of status 0."""
Change = Callable[[Any, float], object]
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
    def cut(self) -> Cut | None:
        return None if self.wire is None else self.wire.cut

    @property
    def early(self) -> bool:
        """`True` if the fault strikes before the server has the whole request."""
        return self.cut is not None and self.cut.early

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
        """Return the fault that strikes this call, and count it. The exchange adds the strike to `fired`."""
        for armed in self._armed:
            if armed.fault.matches(call):
                if not armed.skip:
                    if armed.times is not None:
                        armed.times -= 1
                    if armed.times == 0:
                        self._armed.remove(armed)
                    return armed.fault
                armed.skip -= 1
        return None


@attrs.frozen(kw_only=True)
class FaultFactory(Fault):
    """Fault of the catalogue. Call it to make its rules: `exchange.faults.add(*FAULTS["stall"](path="login"))`.

    `phases` lists the allowed values of `processed`; the first is the default. `timed` makes parts of the rule from a
    number of seconds, by default `seconds`. `then` replaces the reply to the call after.
    """

    phases: tuple[bool, ...]
    meaning: str
    timed: Callable[[float], dict[str, Any]] = lambda seconds: {}
    seconds: float = 0.0
    then: Mutation | None = None

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
        parts = {field.name: getattr(self, field.name) for field in attrs.fields(Fault)}
        parts |= {"method": method or self.method, "path": path or self.path, "skip": skip, "processed": phase}
        parts |= {"times": self.times if times == -1 else times}
        fault = Fault(**parts | self.timed(self.seconds if seconds is None else seconds))
        if self.then is None:
            return (fault,)
        return fault, attrs.evolve(fault, name=f"{self.name}.then", processed=False, mutate=self.then)


# Mutations that replace the reply

_JSON: Final = (("content-type", "application/json"),)
_PAGE: Final = b"<!DOCTYPE html><html><head><title>Exchange</title></head><body><h1>Be right back.</h1></body></html>"
_HTML: Final = (_PAGE, "text/html; charset=UTF-8")
_DEPTH: Final = 100_000


def raw_reply(status: int, body: bytes, content_type: str = "application/json", *headers: tuple[str, str]) -> Mutation:
    """Replace the reply with these bytes."""
    reply = Reply(status, (("content-type", content_type), *headers), body)
    return lambda good, now, random: reply


def json_reply(status: int, payload: object, *headers: tuple[str, str]) -> Mutation:
    """Replace the reply with JSON."""
    return raw_reply(status, encode(payload), "application/json", *headers)


def failure(status: int, retry_after: object = None) -> Mutation:
    """Replace the reply with a failure, whose message is the phrase of its status."""
    headers = () if retry_after is None else (("retry-after", str(retry_after)),)
    return json_reply(status, {"message": http.HTTPStatus(status).phrase}, *headers)


def _retry_later(status: int) -> Callable[[float], dict[str, Any]]:
    return lambda seconds: {"mutate": failure(status, f"{seconds:.0f}")}


def _retry_at_date(seconds: float) -> dict[str, Any]:
    """Give a 429 a Retry-After date that is `seconds` ahead of the server's clock."""
    date = functools.partial(email.utils.formatdate, usegmt=True)
    return {"mutate": lambda good, now, random: failure(429, date(now + seconds))(good, now, random)}


def _placeholder(good: Reply, now: float, random: Random) -> Reply:
    """Make a reply to cut short, for a call that was not processed and has none."""
    return good if good.status else Reply(500, _JSON, encode({"message": "Internal error " + "x" * 200}))


@functools.cache
def _bomb(layers: int) -> bytes:
    body = b" " * 50_000_000 + b"{}"
    for _ in range(layers):
        body = _gzip(body)
    return body


def _gzip_bomb(layers: int) -> Mutation:
    headers = (*_JSON, ("content-encoding", ", ".join(["gzip"] * layers)))
    return lambda good, now, random: Reply(200, headers, _bomb(layers))


# Mutations of the good reply


def _body(change: Callable[[bytes], bytes], encoding: str = "", charset: str = "") -> Mutation:
    """Change the body, and declare an encoding or a charset."""
    added = {"content-encoding": encoding} if encoding else {}
    added |= {"content-type": f"application/json; charset={charset}"} if charset else {}

    def mutate(good: Reply, now: float, random: Random) -> Reply:
        return attrs.evolve(good, headers=(*{**dict(good.headers), **added}.items(),), body=change(good.body))

    return mutate


def _gzip(body: bytes) -> bytes:
    return gzip.compress(body, mtime=0)


def _instead_of(pattern: bytes, text: bytes, otherwise: bytes) -> Mutation:
    """Replace the first match in the body, or a body without one."""
    # Given as a function, the text has no escapes.
    return _body(lambda body: re.sub(pattern, lambda _: text, body, count=1) if re.search(pattern, body) else otherwise)


def _number(text: str) -> Mutation:
    return _instead_of(rb'(?<!\\)":(-?[0-9]+(?:\.[0-9]+)?)', b'":' + text.encode(), encode({"index": Raw(text)}))


def _text(begin: bytes) -> Mutation:
    return _instead_of(rb'(?<!\\)":"', b'":"' + begin, b'{"message":"' + begin + b'"}')


def _json(change: Callable[[Json, float, Random], object]) -> Mutation:
    """Change the JSON object of a good reply in place."""

    def mutate(good: Reply, now: float, random: Random) -> Reply:
        try:
            payload = decode(good.body) if 0 < good.status < 300 else None
        except ValueError:
            return good
        if not payload or not isinstance(payload, dict):
            return good
        change(payload, now, random)
        return attrs.evolve(good, body=encode(payload))

    return mutate


def _break_record(payload: Json, now: float, random: Random) -> None:
    for records in payload.values():
        if isinstance(records, dict | list) and records:
            keys = sorted(records) if isinstance(records, dict) else range(len(records))
            records[random.choice(keys)] = "Undefined index: refId"


def _user(key: str, value: Callable[[float], object] | None) -> Mutation:
    """Change a field of a login's user to a value that depends on the time, or remove it."""

    def change(payload: Json, now: float, random: Random) -> None:
        user = payload.get("user", {})
        if user and value is not None:
            user[key] = value(now)
        else:
            user.pop(key, None)

    return _json(change)


def _another(sign: str, by: int, *keys: str, **words: str) -> Mutation:
    """Raise numbers, and replace words, in the first record that has the key `sign`."""

    def change(payload: Json, now: float, random: Random) -> None:
        record = _first(payload, sign) or {}
        # With its own type, a text stays a text.
        record.update({key: type(record[key])(Decimal(record[key]) + by) for key in keys or [sign] if key in record})
        record.update({key: word for key, word in words.items() if key in record})

    return _json(change)


def _first(value: object, sign: str) -> Json | None:
    if isinstance(value, dict) and sign in value:
        return value
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return next((found for item in inner if (found := _first(item, sign)) is not None), None)


def _publish(exchange: Any, now: float) -> None:
    exchange.publish(exchange.shipper, now)


def _on(place: int, action: str) -> Change:
    return lambda it, now: [getattr(it, action)(index, now) for index in it.open_requests()[place:][:1]]


# The catalogue

_DENIED: Final = {"Unauthorized": "Access denied. The token is missing, invalid or expired."}
_FAILED: Final = {"message": "The user name or password is invalid."}
_ELSEWHERE: Final = json_reply(307, {}, ("location", "https://elsewhere.example/api/login"))
_ALREADY: Final = json_reply(400, {"message": "You have already submitted this."})
_NO_REASON: Final = _json(lambda it, now, random: it.update(Unauthorized=None))
_CEMENT: Final = {"commodityname": "Cement", "cargoname": "Cement", "origin": "Piraeus", "destination": "Boston"}
_CURRENCY: Final = ("offerAmount", 138, "currencyIndex", "currencyId")
_OFFER: Final = ("offerAmount", 1, "offerIndex", "offerId", "index")

Phases = tuple[bool, ...]
BEFORE, AFTER, EITHER, EITHER_BEFORE = (False,), (True,), (True, False), (False, True)

_CUT_REPLIES: Final = {Cut.RESET_MID_REPLY, Cut.STALL_MID_REPLY, Cut.TRUNCATED_LENGTH, Cut.TRUNCATED_CHUNKS}
_GOOD_REPLIES: Final = {Cut.DRIP, Cut.BYTES_AFTER_REPLY, Cut.IDLE_FIN}


def _row(
    name: str, phases: Phases, meaning: str, mutate: Mutation | None = None, cut: Cut | None = None, **more: Any
) -> FaultFactory:
    if cut is not None:
        more |= {"wire": WireFault(cut), "timed": lambda seconds: {"wire": WireFault(cut, seconds)}}
    return FaultFactory(name=name, phases=phases, meaning=meaning, mutate=mutate, **more)


def _cut(cut: Cut) -> FaultFactory:
    is_before = cut.early or cut is Cut.RESET_AFTER_SEND
    is_after = cut in _GOOD_REPLIES or cut is Cut.RESET_AFTER_PROCESSING
    mutate = _placeholder if cut in _CUT_REPLIES | _GOOD_REPLIES else None
    phases = BEFORE if is_before else AFTER if is_after else EITHER
    return _row(cut.value, phases, cut.meaning, mutate, cut, seconds=0.05 if cut is Cut.DRIP else 0.0)


def _at(address: str, *rows: FaultFactory) -> Iterable[FaultFactory]:
    """Let faults strike calls to one address."""
    method, path = address.split()
    return (attrs.evolve(row, method=method, path=path) for row in rows)


_CATALOGUE: Final = (
    *map(_cut, Cut),
    # Bodies
    _row("gzip_bomb", EITHER, "49 kB that decompress to 50 MB", _gzip_bomb(1)),
    _row("gzip_bomb_twice", EITHER, "a few hundred bytes that decompress to 50 MB in two layers", _gzip_bomb(2)),
    _row("gzip", AFTER, "one valid layer of gzip", _body(_gzip, "gzip")),
    _row("double_gzip", AFTER, "two layers of gzip", _body(lambda body: _gzip(_gzip(body)), "gzip, gzip")),
    _row("false_gzip", AFTER, "Content-Encoding gzip on a plain body", _body(bytes, "gzip")),
    _row(
        "short_gzip",
        AFTER,
        "a gzip stream that ends early",
        _body(lambda body: (zipped := _gzip(body))[: len(zipped) // 2], "gzip"),
    ),
    _row("deep_json", EITHER, "100,000 nested lists", raw_reply(200, b"[" * _DEPTH + b"1" + b"]" * _DEPTH)),
    _row("deep_object", EITHER, "100,000 nested objects", raw_reply(200, b'{"a":' * _DEPTH + b"1" + b"}" * _DEPTH)),
    _row("long_integer", AFTER, "an integer of 5,000 digits", _number("7" * 5000)),
    _row("nan", AFTER, "NaN for a number", _number("NaN")),
    _row("infinity", AFTER, "-Infinity for a number", _number("-Infinity")),
    _row("huge_exponent", AFTER, "1e999 for a number", _number("1e999")),
    _row("duplicate_keys", AFTER, "the first key twice", _body(lambda it: re.sub(rb"^{(.*?):", rb"{\1:{},\1:", it))),
    _row("lone_surrogate", AFTER, "half a surrogate pair in a text", _text(rb"\ud800")),
    _row("invalid_utf8", AFTER, "bytes that are not UTF-8 in a text", _text(b"\xe9\xff")),
    _row("bom", AFTER, "a byte-order mark", _body(lambda body: b"\xef\xbb\xbf" + body)),
    _row("wrong_charset", AFTER, "charset=utf-16 on a UTF-8 body", _body(bytes, charset="utf-16")),
    _row("unknown_charset", AFTER, "an unknown charset", _body(bytes, charset="x-klingon")),
    _row("half_json", AFTER, "half of the JSON with the right length", _body(lambda body: body[: len(body) // 2])),
    _row("html_200", EITHER, "a page of HTML with 200", raw_reply(200, *_HTML)),
    _row("empty_200", EITHER, "200 without a body", raw_reply(200, b"")),
    _row("array_200", EITHER, "[1,2,3] with 200", raw_reply(200, b"[1,2,3]")),
    _row("scalar_200", EITHER, "a bare number with 200", raw_reply(200, b"42")),
    _row("maintenance_200", EITHER, "an object without the collection", json_reply(200, {"message": "maintenance"})),
    _row("poison_record", AFTER, "one broken record among the good ones", _json(_break_record)),
    # Statuses
    _row("slow", AFTER, "a good reply, late", seconds=1.0, timed=lambda seconds: {"delay": seconds}),
    _row("throttled", BEFORE, "429 without Retry-After", failure(429)),
    _row("throttled_seconds", BEFORE, "429, Retry-After in seconds", seconds=1.0, timed=_retry_later(429)),
    _row("throttled_date", BEFORE, "429, Retry-After as an HTTP date", seconds=1.0, timed=_retry_at_date),
    _row("throttled_negative", BEFORE, "429, Retry-After below zero", failure(429, -5)),
    _row("throttled_huge", BEFORE, "429, Retry-After of 10^12 seconds", failure(429, 10**12)),
    _row("throttled_nonsense", BEFORE, "429, Retry-After that is not a time", failure(429, "soon")),
    _row("unavailable", EITHER_BEFORE, "503", failure(503)),
    _row("unavailable_forever", BEFORE, "503 for every call", failure(503), times=None),
    _row("unavailable_retry_after", EITHER_BEFORE, "503 with Retry-After", seconds=1.0, timed=_retry_later(503)),
    _row("server_error", BEFORE, "500 before the call was carried out", failure(500)),
    _row("server_error_after_commit", AFTER, "500 after the call was carried out", failure(500)),
    _row("bad_gateway", EITHER_BEFORE, "502 as a page of HTML", raw_reply(502, *_HTML)),
    _row("request_timeout", EITHER_BEFORE, "408", failure(408)),
    _row("not_found_page", BEFORE, "404 as a page of HTML", raw_reply(404, *_HTML)),
    _row("bad_request_after_commit", AFTER, "500 after the commit, then 400", failure(500), then=_ALREADY),
    _row("redirect", BEFORE, "307 to another origin", _ELSEWHERE),
    _row("unauthorized_once", BEFORE, "401 once", json_reply(401, _DENIED)),
    _row("unauthorized_forever", BEFORE, "401 from now on", json_reply(401, _DENIED), times=None),
    _row("unauthorized_200", BEFORE, "Unauthorized with status 200", json_reply(200, _DENIED)),
    _row("success_with_unauthorized", AFTER, "a good reply with `Unauthorized: null`", _NO_REASON),
    _row("tokens_revoked", AFTER, "every token is revoked at once", change=lambda it, now: it.expire_tokens()),
    # Replies about another write than the one that was carried out
    *_at(
        "POST quote/submitoffer",
        _row("reply_of_another_request", AFTER, "a reply about another request", _another("index", 1, **_CEMENT)),
        _row("reply_with_another_amount", AFTER, "a reply with another amount", _another("offerAmount", 1000)),
        # From the dollar to another listed currency.
        _row("reply_with_another_currency", AFTER, "a reply with another currency", _another(*_CURRENCY)),
    ),
    *_at(
        "POST quote/approveoffer",
        _row("approval_of_another_offer", AFTER, "a reply about another offer", _another(*_OFFER)),
    ),
    *_at(
        "POST login",
        *(
            _row(f"login_message_{status}", BEFORE, f"a failed login with {status}", json_reply(status, _FAILED))
            for status in (200, 400, 401, 403, 422, 500)
        ),
        _row("login_html", BEFORE, "a page of HTML for a login", raw_reply(200, *_HTML)),
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
        _row("rows_inserted", AFTER, "a new request just before the call", change=_publish),
        _row("rows_removed", AFTER, "the newest request is withdrawn just before", change=_on(-1, "withdraw")),
        _row("rows_touched", AFTER, "the oldest request is updated just before", change=_on(0, "touch")),
        _row("rows_reordered", AFTER, "another order of the listings from now on", change=lambda it, now: it.reorder()),
    ),
)

FAULTS: Final[Mapping[str, FaultFactory]] = {factory.name: factory for factory in _CATALOGUE}
