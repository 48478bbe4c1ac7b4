"""Faults in the status and body of a reply, the same for HTTP/1.1 and HTTP/2. Pure."""

from __future__ import annotations

import copy
import gzip
import json
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import attrs
from tests.model.socket_runs.service import Call, Reply, Target

__all__ = ["CONTENTS", "Content", "SentReply"]

JSON = "application/json"
HTML = b"<html><head><title>502</title></head><body>The gateway is not well: %s</body></html>"


@attrs.frozen(kw_only=True)
class SentReply:
    """Reply as a server sends it."""

    status: int
    content: bytes
    headers: tuple[tuple[str, str], ...] = (("Content-Type", JSON),)

    @classmethod
    def of(cls, reply: Reply) -> SentReply:
        return cls(status=reply.status, content=reply.content)


@attrs.frozen(kw_only=True)
class Content:
    """Fault in the content of a reply.

    Attributes:
        make: Makes the reply from the true one; the last argument is text to echo, a secret at times.
        after: Whether a write may be committed first, or may not; a fault that allows both has two values.
        targets: The calls that it may strike.
        distrusts: Whether a client that trusts refusals would be misled, after a commit.
        excludable: Whether it shows that a decline or a write of a route was not carried out. The document shows no
            reply to those, so that nearly any object is success.
    """

    make: Callable[[Call, Reply, Random, str], SentReply]
    after: tuple[bool, ...] = (False, True)
    targets: tuple[Target, ...] = ("login", "read", "write")
    distrusts: bool = False
    excludable: bool = True


def _status(
    *statuses: int, headers: tuple[tuple[str, str], ...] = (), after: tuple[bool, ...] = (False, True)
) -> Content:
    """Answer one of these statuses, with a page of HTML, a JSON message, other JSON or nothing."""

    def make(_: Call, __: Reply, chance: Random, echo: str) -> SentReply:
        content, kind = chance.choice(
            [
                (HTML % echo.encode(), "text/html"),
                (json.dumps({"message": f"Not now, {echo}"}).encode(), JSON),
                (json.dumps({"error": {"detail": [echo]}}).encode(), JSON),
                (b"", "text/plain"),
            ]
        )
        return SentReply(status=chance.choice(statuses), content=content, headers=(("Content-Type", kind), *headers))

    return Content(make=make, after=after)


def _raw(
    *contents: bytes, after: tuple[bool, ...] = (False, True), targets: tuple[Target, ...] = ("login", "read", "write")
) -> Content:
    """Answer 200 with one of these bodies instead of the result."""

    def make(_: Call, __: Reply, chance: Random, echo: str) -> SentReply:
        return SentReply(status=200, content=chance.choice(contents).replace(b"ECHO", json.dumps(echo).encode()))

    return Content(make=make, after=after, targets=targets, excludable=False)


def _refused(*, statuses: tuple[int, ...] = (200, 401, 403)) -> Content:
    def make(_: Call, __: Reply, chance: Random, echo: str) -> SentReply:
        content = json.dumps({"Unauthorized": f"Access denied {echo}"}).encode()
        return SentReply(status=chance.choice(statuses), content=content)

    return Content(make=make, distrusts=True, targets=("read", "write"))


def _beside(*values: object) -> Content:
    """Add the key `Unauthorized` to the result."""

    def make(_: Call, reply: Reply, chance: Random, __: str) -> SentReply:
        return SentReply.of(attrs.evolve(reply, data={"Unauthorized": chance.choice(values), **reply.data}))

    return Content(make=make, after=(True,), targets=("write",))


def _other(call: Call, reply: Reply, chance: Random, _: str) -> SentReply:
    """Answer a different write."""
    data = copy.deepcopy(reply.data) if reply.status == 200 else {}
    match call.path:
        case "quote/submitoffer":
            offer = {"index": 17, "offerAmount": call.body["offer"], "currencyIndex": 840, "status": "pending"}
            changed: dict[str, Any] = {"index": call.body["requestIndex"], "offer": offer}
            which = chance.randrange(3)
            if which == 0:
                changed["index"] += 1
            offer |= ({}, {"offerAmount": float(call.body["offer"]) + 7}, {"currencyIndex": 978})[which]
            data = {"bid": changed}
        case "quote/approveoffer":
            other = {"offerId": str(call.body["offerIndex"] + 1), "offerAmount": 3, "status": "selected"}
            data = {"offers": {"0": {"index": call.body["offerIndex"] - 99, "offer": other}}}
        case "quote/submitrequest":
            words = {"commodityname": "Other goods", "origin": "Elsewhere", "destination": "Nowhere"}
            sizes = {"qty": 1, "length": 9, "width": 9, "height": 9, "weight": 1}
            data = {"raterequests": {"0": {"index": 40, **words, **sizes}}}
        case _:
            words = {"origin": "Elsewhere", "destination": "Nowhere", "voyageId": "none"}
            data = {"routes": {"0": {"index": 999, "vesselName": "Other", **words}}}
    return SentReply(status=200, content=json.dumps(data, default=float).encode())


def _packed(pack: Callable[[bytes], bytes], encoding: str = "gzip") -> Content:
    def make(_: Call, reply: Reply, __: Random, ___: str) -> SentReply:
        content = pack(reply.content)
        return SentReply(status=reply.status, content=content, headers=(("Content-Encoding", encoding),))

    return Content(make=make)


def _bomb(_: bytes) -> bytes:
    return _BOMB


_BOMB = gzip.compress(b" " * 11_000_000, 1)
_UNLIKE = (b"[1,2,3]", b'"ECHO"', b"17", b"true", b"<html>ok</html>", b"\xff\xfe\x00", b'{"a":', b"ECHO", b"NaN")
_WRONG = (b'{"user":{}}', b'{"bids":"x"}', b'{"success":false,"message":ECHO}', b'{"error":ECHO}')
_DEEP = b'{"bid":' + b"[" * 100_000
_LONG = b'{"bid":{"index":' + b"9" * 5000 + b"}}"

_BEFORE = (False,)
CONTENTS: Mapping[str, Content] = {
    "5xx": _status(500, 501, 502, 503, 504, 520, 599),
    "503 Retry-After": _status(503, headers=(("Retry-After", "0"),)),
    "503 Retry-After, long": _status(503, headers=(("Retry-After", "99999"),)),
    "408": _status(408),
    "3xx": _status(300, 301, 302, 303, 307, 308, headers=(("Location", "http://127.0.0.1:9/api/login"),)),
    # These say that nothing was done, and the retry matrix takes them at their word.
    "4xx": _status(400, 403, 404, 405, 407, 409, 410, 413, 418, 422, 451, after=_BEFORE),
    "401": attrs.evolve(_status(401), distrusts=True),
    "429": attrs.evolve(_status(429), distrusts=True),
    "429 Retry-After": attrs.evolve(_status(429, headers=(("Retry-After", "0"),)), distrusts=True),
    "429 Retry-After, odd": attrs.evolve(_status(429, headers=(("Retry-After", "-1, soon"),)), distrusts=True),
    "Unauthorized": _refused(),
    "Unauthorized, empty, beside a result": _beside(None, False, "", 0),
    "Unauthorized beside a result": _beside("Access denied", True, 1, {"a": 1}),
    "200 of another kind": _raw(*_UNLIKE, *_WRONG),
    # A read that is answered so gets a lie that no client can detect; a decline too.
    "200 of nothing": _raw(b"", b"{}", b"[]", b"null", b'{"message":ECHO}', after=(True,), targets=("login", "write")),
    "200 too deep": _raw(_DEEP, _LONG),
    "201, 202, 204": Content(
        make=lambda _, reply, chance, __: attrs.evolve(SentReply.of(reply), status=chance.choice((201, 202, 206))),
        after=(True,),
    ),
    "another write's reply": Content(make=_other, targets=("write",), excludable=False),
    "gzip": _packed(gzip.compress),
    "gzip, garbage": _packed(lambda content: b"\x1f\x8b" + content),
    "gzip, none": _packed(lambda content: content),
    "gzip, cut": _packed(lambda content: gzip.compress(content)[:-9]),
    "gzip, twice": _packed(lambda content: gzip.compress(gzip.compress(content)), "gzip, gzip"),
    "gzip, bytes beyond": _packed(lambda content: gzip.compress(content) + b"beyond"),
    "gzip bomb": _packed(_bomb),
    "brotli": _packed(lambda content: content, "br"),
}
"""Wrong contents of a reply, by name."""
