"""Tests of decompression: one layer, a size limit and bounded memory."""

from __future__ import annotations

import gzip
import random
import tracemalloc
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freight_exchange.errors import DecodeError, TransportError
from freight_exchange.transport.http.decompression import LARGEST, Body

TEXT = b'{"raterequests": {}}' * 50


def inflated(encoding: str, data: bytes, size: int = 100) -> bytes:
    body = Body(encoding)
    for start in range(0, len(data), size):
        body.feed(data[start : start + size])
    return body.finish()


@contextmanager
def memory_below(limit: int) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < limit
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("encoding", ["", "identity", "IDENTITY", " identity , identity ", ","])
def test_uncompressed_body_stays_unchanged(encoding: str) -> None:
    assert inflated(encoding, TEXT) == TEXT


@pytest.mark.parametrize("encoding", ["gzip", "x-gzip", "GZip", " gzip ", "identity, gzip", "gzip,"])
def test_one_layer_of_gzip_is_decompressed(encoding: str) -> None:
    assert inflated(encoding, gzip.compress(TEXT)) == TEXT


@pytest.mark.parametrize(
    "encoding", ["deflate", "br", "zstd", "compress", "gzip, gzip", "gzip, x-gzip", "gzip, br", "gzip;q=1", "x" * 9999]
)
def test_anything_else_is_refused_at_once(encoding: str) -> None:
    with pytest.raises(DecodeError) as caught:
        Body(encoding)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_the_pieces_do_not_matter(size: int) -> None:
    assert inflated("gzip", gzip.compress(TEXT), size) == TEXT
    assert inflated("", TEXT, size) == TEXT


@pytest.mark.parametrize("encoding", ["", "gzip"])
def test_no_body_is_an_empty_body(encoding: str) -> None:
    body = Body(encoding)
    body.feed(b"")
    assert body.finish() == b""


def test_an_empty_stream_of_gzip_is_an_empty_body() -> None:
    assert inflated("gzip", gzip.compress(b"")) == b""


@pytest.mark.parametrize("cut", [1, 5, 10, 11, 20, -9, -8, -1])
def test_a_stream_cut_anywhere_is_a_broken_connection(cut: int) -> None:
    with pytest.raises(TransportError) as caught:
        inflated("gzip", gzip.compress(TEXT)[:cut])
    assert not caught.value.unsent
    assert not caught.value.permanent


@pytest.mark.parametrize("data", [b"<html>", b"\x1f\x8c" + b"x" * 30, zlib.compress(TEXT), TEXT])
def test_invalid_gzip_is_refused_and_its_error_carries_no_bytes(data: bytes) -> None:
    with pytest.raises(DecodeError) as caught:
        inflated("gzip", data)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_a_wrong_checksum_is_refused() -> None:
    data = bytearray(gzip.compress(TEXT))
    data[-5] ^= 1
    with pytest.raises(DecodeError):
        inflated("gzip", bytes(data))


def test_only_one_layer_of_gzip_is_decompressed() -> None:
    inner = gzip.compress(TEXT)
    assert inflated("gzip", gzip.compress(inner)) == inner


@pytest.mark.parametrize("encoding", ["", "gzip"])
def test_the_limit_is_exact(encoding: str) -> None:
    def packed(size: int) -> bytes:
        return gzip.compress(b" " * size, 1) if encoding else b" " * size

    assert len(inflated(encoding, packed(LARGEST), 65_536)) == LARGEST
    with pytest.raises(DecodeError, match="larger than 10,000,000 bytes"):
        inflated(encoding, packed(LARGEST + 1), 65_536)


def test_a_bomb_is_stopped_in_bounded_memory() -> None:
    bomb = gzip.compress(bytes(300_000_000), 9)
    assert len(bomb) < 300_000
    # In pieces, and at once.
    for size in (500, 10_000_000):
        with memory_below(3 * LARGEST), pytest.raises(DecodeError, match="larger than"):
            inflated("gzip", bomb, size)


def test_an_endless_plain_body_is_stopped() -> None:
    body = Body("")
    chunk = b"x" * 100_000
    with memory_below(3 * LARGEST):
        for _ in range(100):
            body.feed(bytes(chunk))
        with pytest.raises(DecodeError, match="larger than"):
            body.feed(bytes(chunk))


@pytest.mark.parametrize("encoding", ["", "gzip"])
def test_a_body_dripped_byte_by_byte_costs_its_size(encoding: str) -> None:
    body = Body(encoding)
    # Stored blocks of one byte each, and empty ones: what a hostile gzip drips.
    dripped = [b"\0\1\0\xfe\xffx", b"\0\0\0\xff\xff"] if encoding else [b"x", b""]
    pieces = [gzip.compress(b"")[:10] if encoding else b"", *dripped * 20_000]
    with memory_below(500_000):
        for piece in pieces:
            body.feed(piece)
    if not encoding:
        assert body.finish() == b"x" * 20_000


def test_bytes_after_the_stream_are_not_kept() -> None:
    body = Body("gzip")
    body.feed(gzip.compress(TEXT))
    noise = random.Random(1)
    with memory_below(2_000_000):
        for _ in range(300):
            body.feed(noise.randbytes(100_000))
    assert body.finish() == TEXT


@pytest.mark.parametrize("size", [1, 7, 100, 1_000_000])
@pytest.mark.parametrize("between", [b"", b"\0" * 30], ids=["adjoining", "padded"])
def test_all_members_of_gzip_are_read(size: int, between: bytes) -> None:
    members = between.join(gzip.compress(part) for part in (TEXT, b"", b"x", TEXT * 3))
    assert inflated("gzip", members + between, size) == TEXT + b"x" + TEXT * 3


@pytest.mark.parametrize("size", [1, 7, 1_000_000])
@pytest.mark.parametrize("cut", [1, 2, 10, 11, 30, -9, -1])
def test_a_second_member_cut_anywhere_is_a_broken_connection(cut: int, size: int) -> None:
    with pytest.raises(TransportError):
        inflated("gzip", gzip.compress(TEXT) + gzip.compress(TEXT)[:cut], size)


@pytest.mark.parametrize("size", [1, 1_000_000])
def test_a_second_member_that_is_broken_is_refused(size: int) -> None:
    broken = bytearray(gzip.compress(TEXT))
    broken[-5] ^= 1
    for second in (bytes(broken), b"\x1f\x8b" + b"x" * 30):
        with pytest.raises(DecodeError):
            inflated("gzip", gzip.compress(TEXT) + second, size)


@pytest.mark.parametrize("size", [1, 100, 1_000_000])
@pytest.mark.parametrize("rest", [b"\n", b"\x1fx", b"<!-- served by 4 -->", b"\0\0\0"])
def test_bytes_after_the_last_member_are_ignored(rest: bytes, size: int) -> None:
    assert inflated("gzip", gzip.compress(TEXT) + rest, size) == TEXT


def test_the_limit_holds_for_all_members_together() -> None:
    half = gzip.compress(bytes(LARGEST // 2), 9)
    assert len(inflated("gzip", half * 2, 65_536)) == LARGEST
    for size in (500, 65_536, 100_000_000):
        with memory_below(3 * LARGEST), pytest.raises(DecodeError, match="larger than"):
            inflated("gzip", half * 2 + gzip.compress(b"x"), size)
        with memory_below(3 * LARGEST), pytest.raises(DecodeError, match="larger than"):
            inflated("gzip", half * 100, size)


def test_a_body_of_empty_members_in_one_piece_costs_its_size() -> None:
    empty = gzip.compress(b"")
    with memory_below(1_000_000):
        assert inflated("gzip", empty * 20_000, 100_000_000) == b""


@given(st.lists(st.binary(max_size=300), min_size=1, max_size=5), st.integers(1, 300))
def test_members_in_any_pieces(parts: list[bytes], size: int) -> None:
    assert inflated("gzip", b"".join(map(gzip.compress, parts)), size) == b"".join(parts)


@given(st.binary(max_size=2000), st.integers(1, 300), st.booleans())
def test_body_in_chunks_is_decompressed_whole(data: bytes, size: int, packed: bool) -> None:
    assert inflated("gzip" if packed else "", gzip.compress(data) if packed else data, size) == data


@given(st.binary(max_size=300), st.integers(1, 50))
def test_any_bytes_end_in_a_body_or_the_packages_own_errors(data: bytes, size: int) -> None:
    for prefix in (b"", gzip.compress(b"")[:10]):
        try:
            inflated("gzip", prefix + data, size)
        except (DecodeError, TransportError):
            continue
