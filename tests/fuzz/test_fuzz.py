"""Fuzz tests of the decoder and the Retry-After reader: they raise only errors of this package.

`make test` runs each for a second, `make long` for FUZZ_SECONDS (default ten minutes).
"""

from __future__ import annotations

import json
import os
import random
import resource
import string
import sys
import time
from collections.abc import Callable

import pytest

from freight_exchange import DecodeError, wire
from freight_exchange.transport.http.decompression import LARGEST
from freight_exchange.transport.rules.retry_after import retry_after

SHORT = 1.0
LONG = float(os.environ.get("FUZZ_SECONDS", "600"))
SEED = 20261120
MEMORY = 512 * 1024
"""KiB by which the process may grow. A reply may have 10 MB, and its parsed form takes some thirty times as much."""

REQUEST = {
    "index": 4,
    "commodityname": "Ceramic tiles",
    "refId": "FX4",
    "requesttype": "Shipping",
    "status": "Available",
    "origin": "Hong Kong",
    "destination": "Long Beach",
    "needdate": "2027-03-01 00:00:00",
    "qty": 20,
    "packaging": "Pallet",
    "width": 1.2,
    "weight": "640.5",
    "hazardous": 0,
}
OFFER = {"offerId": "7", "offerAmount": 12.5, "currencyId": 840, "status": "pending", "rates": {"Freight": 12}}
POC = {"name": "Sylvia", "email": "s@demo.example"}
LISTING = {"index": 4, "cargoname": "Tiles", "offer": {"0": OFFER}, "loadingPOC": POC, "price": 3, "currencyIndex": 840}
ROUTE = {"index": 1, "origin": "A", "cycutoff": "2027-03-01 00:00:00", "carrier": 2, "timezone": "Asia/Hong_Kong"}
SEEDS: list[tuple[object, Callable[[object], object]]] = [
    ({"raterequests": {"0": REQUEST, "1": REQUEST}}, lambda data: wire.decode_rows(data, wire.REQUESTS)),
    ({"offers": {"0": LISTING}}, lambda data: wire.decode_rows(data, wire.OFFERS)),
    ({"offers": {"0": LISTING | {"offer": OFFER}}}, lambda data: wire.decode_one(data, wire.OFFERS)),
    ({"bids": [LISTING]}, lambda data: wire.decode_rows(data, wire.BIDS)),
    ({"bid": LISTING | {"offer": OFFER}}, wire.decode_bid),
    ({"routes": {"0": ROUTE}}, lambda data: wire.decode_rows(data, wire.ROUTES)),
    ({"routes": {"0": ROUTE}}, wire.decode_written_route),
    ({"carriers": {"0": {"index": 1, "name": "C"}}}, lambda data: wire.decode_rows(data, wire.CARRIERS)),
    (
        {"currencies": {"0": {"index": 1, "name": "D", "code": "USD"}}},
        lambda data: wire.decode_rows(data, wire.CURRENCIES),
    ),
    ({"user": {"access_token": "t", "expires_on": 60, "company": {"name": "C"}}}, wire.decode_login),
    ({"Unauthorized": "access denied"}, lambda data: wire.is_unauthorized(data, success=True)),
    ({"message": "invalid", "errors": [{"detail": "x"}]}, wire.find_sentence),
    ({"message": "invalid"}, wire.find_rejection),
]
ODDITIES: list[object] = [
    None, True, False, 0, -1, 10**40, 1e308, "", " ", "0", "-0", "NaN", "1e999", "٣", "\ud800", "0000-00-00 00:00:00",
    "9999-12-31 23:59:60", [], {}, [[]], {"0": None}, {"": {}}, {"index": []}, "x" * 5000, {"offerId": 1}, [1, 2, 3],
]  # fmt: skip
TOKENS = [
    b"NaN", b"-Infinity", b"1e999", b"-1e-999", b"1" * 6000, b"\xef\xbb\xbf", b"\\ud800", b"\xff\xfe", b"\x00", b'"',
    b"{", b"[", b"]", b"}", b",", b":", b"[" * 5000, b'{"a":' * 5000, b"null", b"\\u0000",
]  # fmt: skip


def bent(value: object, chance: random.Random) -> object:
    """Return the value with a part exchanged, dropped, doubled or wrapped."""
    if chance.random() < 0.08:
        return chance.choice(ODDITIES)
    if isinstance(value, dict):
        items = [(key, bent(item, chance)) for key, item in value.items() if chance.random() > 0.03]
        if chance.random() < 0.1:
            items.append((chance.choice(["extra", "0", "7", "-1", "index", "offer", "rates"]), chance.choice(ODDITIES)))
        return dict(items)
    if isinstance(value, list):
        return [bent(item, chance) for item in value] * chance.choice([1, 1, 1, 2])
    if chance.random() < 0.1:
        return [value] if chance.random() < 0.5 else str(value)
    return value


def broken(content: bytes, chance: random.Random) -> bytes:
    """Return the bytes with some of them exchanged, removed or inserted."""
    edited = bytearray(content)
    for _ in range(chance.randrange(5)):
        place = chance.randrange(len(edited) + 1)
        match chance.randrange(4):
            case 0:
                edited[place : place + chance.randrange(8)] = chance.randbytes(chance.randrange(4))
            case 1:
                edited[place:place] = chance.choice(TOKENS)
            case 2:
                del edited[place:]
            case _:
                edited[place:place] = edited[: chance.randrange(64)]
    return bytes(edited)


def fuzz_decoder(seconds: float) -> int:
    chance = random.Random(SEED)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ends, count = time.monotonic() + seconds, 0
    while time.monotonic() < ends:
        seed, read = chance.choice(SEEDS)
        content = json.dumps(bent(seed, chance)).encode("utf-8", "surrogatepass")
        content = broken(content, chance) if chance.random() < 0.5 else content
        try:
            repr(read(wire.parse(content)))
        except DecodeError as error:
            str(error).encode()
        count += 1
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < MEMORY, f"the process grew by {grown} KiB"
    return count


def fuzz_retry_after(seconds: float) -> int:
    chance = random.Random(SEED)
    seeds = ["120", "1.5", "-1", "1e9", "Wed, 21 Oct 2026 07:28:00 GMT", "Wed, 21 Oct 9999 07:28:00 +2400", "٣", ""]
    letters = string.printable + "é٣\x00"
    ends, count = time.monotonic() + seconds, 0
    while time.monotonic() < ends:
        text = list(chance.choice(seeds) * chance.choice([1, 1, 1, 2, 500]))
        for _ in range(chance.randrange(6)):
            place = chance.randrange(len(text) + 1)
            text[place : place + chance.randrange(3)] = chance.choice(letters)
        wait = retry_after("".join(text), wall=chance.choice([0.0, 1.8e9, 1e12]))
        assert wait is None or 0 <= wait <= 1e9
        count += 1
    return count


def test_the_decoder_for_a_moment() -> None:
    assert fuzz_decoder(SHORT) > 100


def test_the_retry_after_reader_for_a_moment() -> None:
    assert fuzz_retry_after(SHORT) > 100


@pytest.mark.long
def test_decoder_accepts_or_refuses_any_reply(capsys: pytest.CaptureFixture[str]) -> None:
    count = fuzz_decoder(LONG)
    with capsys.disabled():
        sys.stdout.write(f"\ndecoder: {count:,} replies in {LONG:.0f} s\n")


@pytest.mark.long
def test_the_retry_after_reader(capsys: pytest.CaptureFixture[str]) -> None:
    count = fuzz_retry_after(LONG)
    with capsys.disabled():
        sys.stdout.write(f"\nRetry-After: {count:,} headers in {LONG:.0f} s\n")


def test_the_largest_body_is_bounded() -> None:
    with pytest.raises(DecodeError):
        wire.parse(b"[" + b"0," * (LARGEST // 2) + b"0]")
