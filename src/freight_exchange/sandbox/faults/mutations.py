"""Mutations of replies: functions of the good reply, the time and a random source."""

from __future__ import annotations

import email.utils
import functools
import gzip
import re
from collections.abc import Callable
from decimal import Decimal
from random import Random
from typing import Any

import attrs

from freight_exchange.sandbox.model.messages import Reply
from freight_exchange.sandbox.rendering.codec import Raw, decode, encode

__all__ = ["Mutation"]

Mutation = Callable[[Reply, float, Random], Reply]

_JSON = (("content-type", "application/json"),)
_HTML = (("content-type", "text/html; charset=UTF-8"),)
_PAGE = b"<!DOCTYPE html><html><head><title>Freight Exchange</title></head><body><h1>Be right back.</h1></body></html>"
_NUMBER = re.compile(rb'(?<!\\)":(-?[0-9]+(?:\.[0-9]+)?)')
_TEXT = re.compile(rb'(?<!\\)":"')
_BOMB_SIZE = 50_000_000


def json_reply(status: int, payload: object, *headers: tuple[str, str]) -> Mutation:
    """Replace the reply with JSON."""
    reply = Reply(status, (*_JSON, *headers), encode(payload))
    return lambda good, now, random: reply


def raw_reply(status: int, body: bytes, content_type: str = "application/json") -> Mutation:
    """Replace the reply with these bytes."""
    reply = Reply(status, (("content-type", content_type),), body)
    return lambda good, now, random: reply


def html_reply(status: int) -> Mutation:
    """Replace the reply with a page of HTML."""
    reply = Reply(status, _HTML, _PAGE)
    return lambda good, now, random: reply


def empty_reply(status: int) -> Mutation:
    """Replace the reply with one without a body."""
    return lambda good, now, random: Reply(status, _JSON, b"")


def retry_at_date(seconds: float) -> Mutation:
    """Replace the reply with a 429 whose Retry-After date is `seconds` ahead of the server's clock."""

    def mutate(good: Reply, now: float, random: Random) -> Reply:
        date = email.utils.formatdate(now + seconds, usegmt=True)
        return Reply(429, (*_JSON, ("retry-after", date)), encode({"message": "Too many requests."}))

    return mutate


def placeholder(good: Reply, now: float, random: Random) -> Reply:
    """Make a reply to cut short, for a call that was not processed and has none."""
    return good if good.status else Reply(500, _JSON, encode({"message": "Internal error " + "x" * 200}))


# Encodings


@functools.cache
def _bomb(layers: int) -> bytes:
    body = b" " * _BOMB_SIZE + b"{}"
    for _ in range(layers):
        body = gzip.compress(body, compresslevel=9, mtime=0)
    return body


def gzip_bomb(layers: int) -> Mutation:
    """Replace the reply with 50 MB of white space and valid JSON: 49 kB gzipped once, a few hundred bytes twice."""
    headers = (*_JSON, ("content-encoding", ", ".join(["gzip"] * layers)))
    return lambda good, now, random: Reply(200, headers, _bomb(layers))


def gzipped(layers: int) -> Mutation:
    def mutate(good: Reply, now: float, random: Random) -> Reply:
        body = good.body
        for _ in range(layers):
            body = gzip.compress(body, mtime=0)
        encoding = ("content-encoding", ", ".join(["gzip"] * layers))
        return attrs.evolve(good, headers=(*good.headers, encoding), body=body)

    return mutate


def false_gzip(good: Reply, now: float, random: Random) -> Reply:
    return attrs.evolve(good, headers=(*good.headers, ("content-encoding", "gzip")))


def short_gzip(good: Reply, now: float, random: Random) -> Reply:
    whole = gzip.compress(good.body, mtime=0)
    encoding = ("content-encoding", "gzip")
    return attrs.evolve(good, headers=(*good.headers, encoding), body=whole[: len(whole) // 2])


def declare_charset(name: str) -> Mutation:
    """Declare another charset; the body stays UTF-8."""
    return lambda good, now, random: attrs.evolve(
        good, headers=(("content-type", f"application/json; charset={name}"),)
    )


# Texts


def deep_json(good: Reply, now: float, random: Random) -> Reply:
    depth = 100_000
    return Reply(200, _JSON, b"[" * depth + b"]" * depth)


def deep_object(good: Reply, now: float, random: Random) -> Reply:
    depth = 100_000
    return Reply(200, _JSON, b'{"a":' * depth + b"1" + b"}" * depth)


def replace_number(text: str) -> Mutation:
    """Replace the first number of the reply with a text, or a reply without numbers with an object with this text."""

    def mutate(good: Reply, now: float, random: Random) -> Reply:
        body, found = _NUMBER.subn(b'":' + text.encode(), good.body, count=1)
        return attrs.evolve(good, body=body if found else encode({"index": Raw(text)}))

    return mutate


def duplicate_keys(good: Reply, now: float, random: Random) -> Reply:
    """Repeat the first key of the reply, first with an empty value."""
    key = good.body[1 : good.body.find(b":")]
    return attrs.evolve(good, body=b"{" + key + b":{}," + good.body[1:])


def lone_surrogate(good: Reply, now: float, random: Random) -> Reply:
    body, found = _TEXT.subn(rb'":"\\ud800', good.body, count=1)
    return attrs.evolve(good, body=body if found else rb'{"message":"\ud800"}')


def invalid_utf8(good: Reply, now: float, random: Random) -> Reply:
    body, found = _TEXT.subn(b'":"\xe9\xff', good.body, count=1)
    return attrs.evolve(good, body=body if found else b'{"message":"\xe9\xff"}')


def add_bom(good: Reply, now: float, random: Random) -> Reply:
    return attrs.evolve(good, body=b"\xef\xbb\xbf" + good.body)


def half_json(good: Reply, now: float, random: Random) -> Reply:
    """Cut the body in half, with the right length: broken JSON in valid HTTP."""
    return attrs.evolve(good, body=good.body[: len(good.body) // 2])


# Records


def break_record(good: Reply, now: float, random: Random) -> Reply:
    """Replace a random record of the collection with a text."""
    payload = _payload(good)
    for records in payload.values():
        if isinstance(records, dict) and records:
            key = random.choice(sorted(records))
            records[key] = "Undefined index: refId"
        elif isinstance(records, list) and records:
            records[random.randrange(len(records))] = "Undefined index: refId"
    return attrs.evolve(good, body=encode(payload))


def change_user(change: Callable[[dict[str, Any], float], None]) -> Mutation:
    """Change the user of a login's reply."""

    def mutate(good: Reply, now: float, random: Random) -> Reply:
        payload = _payload(good)
        user = payload.get("user")
        if isinstance(user, dict):
            change(user, now)
        return attrs.evolve(good, body=encode(payload))

    return mutate


# Doubtful successes


def empty_refusal(good: Reply, now: float, random: Random) -> Reply:
    """Add the key of a refusal to the good reply, with a null value."""
    payload = _payload(good) if good.status < 300 else {}
    return attrs.evolve(good, body=encode({**payload, "Unauthorized": None})) if payload else good


def _about_another(sign: frozenset[str], change: Callable[[dict[str, Any]], None]) -> Mutation:
    """Change the first record that has one of these keys."""

    def mutate(good: Reply, now: float, random: Random) -> Reply:
        payload = _payload(good) if good.status < 300 else {}
        record = _first(payload, sign)
        if record is None:
            return good
        change(record)
        return attrs.evolve(good, body=encode(payload))

    return mutate


def _first(value: object, sign: frozenset[str]) -> dict[str, Any] | None:
    if isinstance(value, dict) and not sign.isdisjoint(value):
        return value
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return next((found for item in inner if (found := _first(item, sign)) is not None), None)


def _change_request(record: dict[str, Any]) -> None:
    record["index"] = _raised(record["index"], 1)
    for key, word in _OTHER_WORDS.items():
        if key in record:
            record[key] = word


def _change_amount(entry: dict[str, Any]) -> None:
    entry["offerAmount"] = _raised(entry["offerAmount"], 1000)


def _change_currency(entry: dict[str, Any]) -> None:
    for key in _CURRENCIES.intersection(entry):
        # From the dollar to another listed currency.
        entry[key] = _raised(entry[key], 138)


def _change_offer(entry: dict[str, Any]) -> None:
    for key in _OFFERS.intersection(entry):
        entry[key] = _raised(entry[key], 1)


def _raised(value: object, by: int) -> object:
    """Add to a number, and keep its JSON form."""
    if isinstance(value, str):
        return str(Decimal(value) + by)
    return value + by if isinstance(value, int | Decimal) else value


_OTHER_WORDS = {
    "commodityname": "Cement",
    "cargoname": "Cement",
    "origin": "Piraeus",
    "destination": "Boston",
    "voyageId": "999X",
}
_CURRENCIES = frozenset({"currencyIndex", "currencyId"})
_OFFERS = frozenset({"offerIndex", "offerId", "index"})
_ENTRY = frozenset({"offerAmount"})

other_request = _about_another(frozenset({"index"}), _change_request)
other_amount = _about_another(_ENTRY, _change_amount)
other_currency = _about_another(_ENTRY, _change_currency)
other_offer = _about_another(_ENTRY, _change_offer)


def _payload(good: Reply) -> dict[str, Any]:
    try:
        payload = decode(good.body)
    except ValueError:
        return {}
    return payload if isinstance(payload, dict) else {}
