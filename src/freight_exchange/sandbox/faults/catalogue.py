"""Catalogue of the faults that a client must survive, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from freight_exchange.sandbox.faults import mutations
from freight_exchange.sandbox.faults.fault_factory import FaultFactory
from freight_exchange.sandbox.faults.mutations import Mutation
from freight_exchange.sandbox.model.messages import Cut

__all__ = ["FAULTS"]

_DENIED = {"Unauthorized": "Access denied. The token is missing, invalid or expired."}
_FAILED = {"message": "The user name or password is invalid."}
_BUSY = {"message": "Too many requests."}
_DOWN = {"message": "Service unavailable."}
_ERROR = {"message": "Internal server error."}
_ELSEWHERE = ("location", "https://elsewhere.example/api/login")


def _cut(cut: Cut, phases: tuple[bool, ...], meaning: str, *, seconds: float = 0.0, size: int = 0) -> FaultFactory:
    replies = cut in _WITH_REPLY
    return FaultFactory(
        name=cut.value,
        meaning=meaning,
        phases=phases,
        cut=cut,
        mutation=_always(mutations.placeholder) if replies else None,
        seconds=seconds,
        size=size,
    )


def _always(mutation: Mutation) -> Callable[[float], Mutation]:
    return lambda seconds: mutation


_WITH_REPLY = frozenset(
    {
        Cut.RESET_MID_REPLY,
        Cut.STALL_MID_REPLY,
        Cut.DRIP,
        Cut.BYTES_AFTER_REPLY,
        Cut.TRUNCATED_LENGTH,
        Cut.TRUNCATED_CHUNKS,
        Cut.IDLE_FIN,
    }
)
_BEFORE, _AFTER = (False,), (True,)
_BEFORE_OR_AFTER, _AFTER_OR_BEFORE = (False, True), (True, False)


def _cuts() -> Iterable[FaultFactory]:
    yield _cut(Cut.REFUSED, _BEFORE, "nothing listens")
    yield _cut(Cut.DNS, _BEFORE, "the name does not resolve")
    yield _cut(Cut.CONNECT_STALL, _BEFORE, "the connection is never established")
    yield _cut(Cut.TLS_STALL, _BEFORE, "the TLS hello is never answered")
    yield _cut(Cut.BAD_CERTIFICATE, _BEFORE, "the certificate is not trusted")
    yield _cut(Cut.POOL_EXHAUSTED, _BEFORE, "no connection is free")
    yield _cut(Cut.RESET_BEFORE_HEADERS, _BEFORE, "reset before the request's head was read")
    yield _cut(Cut.RESET_MID_BODY, _BEFORE, "reset in the middle of the request's body")
    yield _cut(Cut.RESET_AFTER_SEND, _BEFORE, "the request received whole, not processed, then a reset")
    yield _cut(Cut.RESET_AFTER_PROCESSING, _AFTER, "processed, then a reset instead of the reply")
    yield _cut(Cut.RESET_MID_REPLY, _AFTER_OR_BEFORE, "a reset in the middle of the reply's body")
    yield _cut(Cut.FIN_NO_BYTES, _AFTER_OR_BEFORE, "closed cleanly without a byte")
    yield _cut(Cut.STALL, _AFTER_OR_BEFORE, "no reply, ever")
    yield _cut(Cut.STALL_MID_REPLY, _AFTER_OR_BEFORE, "silence in the middle of the reply's body")
    yield _cut(Cut.DRIP, _AFTER, "the reply byte by byte", seconds=0.05)
    yield _cut(Cut.TRUNCATED_LENGTH, _AFTER_OR_BEFORE, "less than Content-Length")
    yield _cut(Cut.TRUNCATED_CHUNKS, _AFTER_OR_BEFORE, "no last chunk")
    yield _cut(Cut.GARBAGE_STATUS, _AFTER_OR_BEFORE, "a status line that is not HTTP")
    yield _cut(Cut.HEADER_FLOOD, _AFTER_OR_BEFORE, "headers without end", size=1_000_000)
    yield _cut(Cut.BYTES_AFTER_REPLY, _AFTER, "a good reply, and its bytes again on the open connection")
    yield _cut(Cut.IDLE_FIN, _AFTER, "a good reply, then the idle connection is closed")


def _reply(
    name: str,
    meaning: str,
    mutation: Mutation,
    phases: tuple[bool, ...] = _AFTER_OR_BEFORE,
    *,
    times: int | None = 1,
    method: str | None = None,
    path: str | None = None,
) -> FaultFactory:
    return FaultFactory(
        name=name,
        meaning=meaning,
        phases=phases,
        mutation=_always(mutation),
        times=times,
        method=method,
        path=path,
    )


def _bodies() -> Iterable[FaultFactory]:
    yield _reply("gzip_bomb", "49 kB that decompress to 50 MB", mutations.gzip_bomb(1))
    yield _reply(
        "gzip_bomb_twice", "a few hundred bytes that decompress to 50 MB in two layers", mutations.gzip_bomb(2)
    )
    yield _reply("gzip", "one valid layer of gzip", mutations.gzipped(1), _AFTER)
    yield _reply("double_gzip", "two layers of gzip", mutations.gzipped(2), _AFTER)
    yield _reply("false_gzip", "Content-Encoding gzip on a plain body", mutations.false_gzip, _AFTER)
    yield _reply("short_gzip", "a gzip stream that ends too early", mutations.short_gzip, _AFTER)
    yield _reply("deep_json", "lists nested 100,000 deep", mutations.deep_json)
    yield _reply("deep_object", "objects nested 100,000 deep", mutations.deep_object)
    yield _reply("long_integer", "an integer of 5,000 digits", mutations.replace_number("7" * 5000), _AFTER)
    yield _reply("nan", "NaN for a number", mutations.replace_number("NaN"), _AFTER)
    yield _reply("infinity", "-Infinity for a number", mutations.replace_number("-Infinity"), _AFTER)
    yield _reply("huge_exponent", "1e999 for a number", mutations.replace_number("1e999"), _AFTER)
    yield _reply("duplicate_keys", "the first key occurs twice", mutations.duplicate_keys, _AFTER)
    yield _reply("lone_surrogate", "half a surrogate pair in a text", mutations.lone_surrogate, _AFTER)
    yield _reply("invalid_utf8", "bytes that are not UTF-8 in a text", mutations.invalid_utf8, _AFTER)
    yield _reply("bom", "a byte-order mark", mutations.add_bom, _AFTER)
    yield _reply("wrong_charset", "charset=utf-16 on a UTF-8 body", mutations.declare_charset("utf-16"), _AFTER)
    yield _reply("unknown_charset", "an unknown charset", mutations.declare_charset("x-klingon"), _AFTER)
    yield _reply("half_json", "half of the JSON with the right length", mutations.half_json, _AFTER)
    yield _reply("html_200", "a page of HTML with 200", mutations.html_reply(200))
    yield _reply("empty_200", "200 without a body", mutations.empty_reply(200))
    yield _reply("array_200", "[1,2,3] with 200", mutations.raw_reply(200, b"[1,2,3]"))
    yield _reply("scalar_200", "a bare number with 200", mutations.raw_reply(200, b"42"))
    yield _reply(
        "maintenance_200",
        "an object without the collection",
        mutations.json_reply(200, {"message": "maintenance"}),
    )
    yield _reply("poison_record", "one broken record among the good ones", mutations.break_record, _AFTER)


def _throttled(name: str, meaning: str, after: Callable[[float], str]) -> FaultFactory:
    return FaultFactory(
        name=name,
        meaning=meaning,
        phases=_BEFORE,
        seconds=1.0,
        mutation=lambda seconds: mutations.json_reply(429, _BUSY, ("retry-after", after(seconds))),
    )


def _statuses() -> Iterable[FaultFactory]:
    yield FaultFactory(name="slow", meaning="a good reply, late", phases=_AFTER, seconds=1.0, is_late=True)
    yield _reply("throttled", "429 without Retry-After", mutations.json_reply(429, _BUSY), _BEFORE)
    yield _throttled("throttled_seconds", "429, Retry-After in seconds", lambda seconds: f"{seconds:.0f}")
    yield FaultFactory(
        name="throttled_date",
        meaning="429, Retry-After as an HTTP date",
        phases=_BEFORE,
        seconds=1.0,
        mutation=mutations.retry_at_date,
    )
    yield _throttled("throttled_negative", "429, Retry-After below zero", lambda seconds: "-5")
    yield _throttled("throttled_huge", "429, Retry-After of 10^12 seconds", lambda seconds: str(10**12))
    yield _throttled("throttled_nonsense", "429, Retry-After that is not a time", lambda seconds: "soon")
    yield _reply("unavailable", "503", mutations.json_reply(503, _DOWN), _BEFORE_OR_AFTER)
    yield _reply("unavailable_forever", "503 for every call", mutations.json_reply(503, _DOWN), _BEFORE, times=None)
    yield FaultFactory(
        name="unavailable_retry_after",
        meaning="503 with Retry-After",
        phases=_BEFORE_OR_AFTER,
        seconds=1.0,
        mutation=lambda seconds: mutations.json_reply(503, _DOWN, ("retry-after", f"{seconds:.0f}")),
    )
    yield _reply("server_error", "500 before the call was carried out", mutations.json_reply(500, _ERROR), _BEFORE)
    yield _reply(
        "server_error_after_commit", "500 after the call was carried out", mutations.json_reply(500, _ERROR), _AFTER
    )
    yield _reply("bad_gateway", "502 as a page of HTML", mutations.html_reply(502), _BEFORE_OR_AFTER)
    yield _reply("request_timeout", "408", mutations.json_reply(408, {"message": "Request timeout."}), _BEFORE_OR_AFTER)
    yield _reply("not_found_page", "404 as a page of HTML", mutations.html_reply(404), _BEFORE)
    yield FaultFactory(
        name="bad_request_after_commit",
        meaning="500 after the commit, and 400 for the next try",
        phases=_AFTER,
        mutation=_always(mutations.json_reply(500, _ERROR)),
        next_mutation=mutations.json_reply(400, {"message": "You have already submitted this."}),
    )
    yield _reply("redirect", "307 to another origin", mutations.json_reply(307, {}, _ELSEWHERE), _BEFORE)
    yield _reply("unauthorized_once", "401 once", mutations.json_reply(401, _DENIED), _BEFORE)
    yield _reply("unauthorized_forever", "401 from now on", mutations.json_reply(401, _DENIED), _BEFORE, times=None)
    yield _reply("unauthorized_200", "Unauthorized with status 200", mutations.json_reply(200, _DENIED), _BEFORE)
    yield _reply("success_with_unauthorized", "a good reply with `Unauthorized: null`", mutations.empty_refusal, _AFTER)
    yield FaultFactory(
        name="tokens_revoked",
        meaning="every token is revoked at once",
        phases=_AFTER,
        change=lambda exchange, now: exchange.expire_tokens(),
    )


def _contradictions() -> Iterable[FaultFactory]:
    """Yield faults whose reply is about another write than the one that was carried out."""

    def reply(name: str, meaning: str, mutation: Mutation, path: str = "quote/submitoffer") -> FaultFactory:
        return _reply(name, meaning, mutation, _AFTER, method="POST", path=path)

    yield reply("reply_of_another_request", "carried out, but the reply shows another request", mutations.other_request)
    yield reply("reply_with_another_amount", "taken, but the reply shows another amount", mutations.other_amount)
    yield reply("reply_with_another_currency", "taken, but the reply shows another currency", mutations.other_currency)
    yield reply(
        "approval_of_another_offer",
        "carried out, but the reply shows another offer",
        mutations.other_offer,
        "quote/approveoffer",
    )


def _set_expiry(value: Callable[[float], Any]) -> Mutation:
    def change(user: dict[str, Any], now: float) -> None:
        user["expires_on"] = value(now)

    return mutations.change_user(change)


def _drop_expiry(user: dict[str, Any], now: float) -> None:
    user.pop("expires_on", None)


def _drop_token(user: dict[str, Any], now: float) -> None:
    user.pop("access_token", None)


def _logins() -> Iterable[FaultFactory]:
    def login(name: str, meaning: str, mutation: Mutation, phases: tuple[bool, ...] = _BEFORE) -> FaultFactory:
        return _reply(name, meaning, mutation, phases, method="POST", path="login")

    for status in (200, 400, 401, 403, 422, 500):
        yield login(f"login_message_{status}", f"a failed login with {status}", mutations.json_reply(status, _FAILED))
    yield login("login_html", "a page of HTML for a login", mutations.html_reply(200))
    yield login("login_redirect", "307 to another origin for a login", mutations.json_reply(307, {}, _ELSEWHERE))
    yield login("login_without_token", "a user without a token", mutations.change_user(_drop_token), _AFTER)
    yield login("login_expires_zero", "expires_on 0", _set_expiry(lambda now: 0), _AFTER)
    yield login("login_expires_epoch", "expires_on as an epoch", _set_expiry(lambda now: int(now) + 3600), _AFTER)
    yield login("login_expires_string", "expires_on as a text", _set_expiry(lambda now: "3600"), _AFTER)
    yield login("login_expires_missing", "no expires_on", mutations.change_user(_drop_expiry), _AFTER)
    yield FaultFactory(
        name="login_hung",
        meaning="a login that is never answered",
        phases=_BEFORE_OR_AFTER,
        cut=Cut.STALL,
        method="POST",
        path="login",
    )


def _insert(exchange: Any, now: float) -> None:
    exchange.publish(exchange.shipper, now)


def _remove(exchange: Any, now: float) -> None:
    newest = exchange.newest_open()
    if newest is not None:
        exchange.withdraw(newest, now)


def _touch(exchange: Any, now: float) -> None:
    oldest = exchange.oldest_open()
    if oldest is not None:
        exchange.touch(oldest, now)


def _reorder(exchange: Any, now: float) -> None:
    exchange.reorder()


def _moves() -> Iterable[FaultFactory]:
    for name, meaning, change in (
        ("rows_inserted", "a request is published just before the call", _insert),
        ("rows_removed", "the newest open request is withdrawn just before the call", _remove),
        ("rows_touched", "the oldest open request is updated just before the call", _touch),
        ("rows_reordered", "the listing has another order from this call on", _reorder),
    ):
        yield FaultFactory(
            name=name,
            meaning=meaning,
            phases=_AFTER,
            change=change,
            method="POST",
            path="quote/getrequests",
        )


FAULTS: Mapping[str, FaultFactory] = {
    factory.name: factory
    for family in (_cuts, _bodies, _statuses, _contradictions, _logins, _moves)
    for factory in family()
}
