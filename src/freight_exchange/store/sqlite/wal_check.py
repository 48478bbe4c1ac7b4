"""SQLite's log, looked through for damage in its middle: https://sqlite.org/fileformat2.html#walformat

SQLite believes a log up to the first frame that is not as it was written, and drops the rest. At its end that is right:
a loss of power tears the commit that was being synced, and no other. But a frame that goes on from a whole commit's sum
was written when that commit was on the disk: where both lie behind a broken frame, something else has broken it.
"""

from __future__ import annotations

import os
import struct
from array import array
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO, Final, Literal

__all__ = ["broken_at", "left_beside", "log_of"]

_HEADER: Final = struct.Struct(">8I")
_FRAME: Final = struct.Struct(">6I")
_ORDERS: Final[dict[int, Literal["little", "big"]]] = {0x377F0682: "little", 0x377F0683: "big"}
_PAIR: Final = 8
_PIECE: Final = 1 << 20

_Sum = tuple[int, int]


def log_of(path: Path) -> Path:
    """Where the log of a store's file lies."""
    return path.with_name(f"{path.name}-wal")


def left_beside(path: str) -> Path | None:
    """The log that is left of a store, if any is: SQLite lays it over whatever is put in the place of its file."""
    log = log_of(Path(path))
    try:
        return log if log.stat().st_size else None
    except (OSError, ValueError):
        return None


def broken_at(log: BinaryIO) -> int | None:
    """The byte at which a log is broken though more was committed behind that, or `None`.

    A log that was cut off, or broken in its last commit or right before it, cannot be told from one that a loss of
    power has torn.
    """
    size = log.seek(0, os.SEEK_END)
    log.seek(0)
    header = log.read(_HEADER.size)
    if size <= _HEADER.size:
        return None
    magic, _, page_size, _, *salts, first, second = _HEADER.unpack(header)
    order, last = _ORDERS.get(magic), (first, second)
    # It is synced before the first frame is written.
    if order is None or _sums(header, len(header), range(3), order, [(0, 0)]) != [last]:
        return 0
    length = _FRAME.size + page_size
    # Of its header a frame's sum covers the first two numbers.
    covered = (0, *range(_FRAME.size // _PAIR, length // _PAIR))
    at, broken, ends_commit = _HEADER.size, None, False
    while count := min(max(1, _PIECE // length), (size - at) // length):
        piece = log.read(count * length)
        frames = [_FRAME.unpack_from(piece, start) for start in range(0, len(piece), length)]
        noted: list[_Sum] = [(first, second) for *_, first, second in frames]
        for frame, sum_, right in zip(frames, noted, _sums(piece, length, covered, order, [last, *noted]), strict=True):
            _, commits, *its_salts, _, _ = frame
            # Other salts are those of an earlier log, which this one is written over.
            if its_salts != salts or sum_ != right:
                broken = at if broken is None else broken
            elif broken is not None and ends_commit:
                return broken
            ends_commit = commits > 0
            at += length
        last = noted[-1]
    return None


def _sums(
    data: bytes, length: int, covered: Iterable[int], order: Literal["little", "big"], before: Sequence[_Sum]
) -> list[_Sum]:
    """The sums of things of this length that lie one behind the other, each going on from the sum before it.

    A sum is a chain of additions, too long to walk word by word. Here each thing has a lane of 64 bits in long
    integers, and one addition goes a step in all lanes. `covered` says which pairs of words of each thing are summed.
    """
    pairs = array("Q", data)
    count = len(data) // length
    lanes = struct.Struct(f"{'<' if order == 'little' else '>'}{count}Q")

    def joined(values: Iterable[int]) -> int:
        return int.from_bytes(lanes.pack(*values), order)

    def split(value: int) -> tuple[int, ...]:
        return lanes.unpack(value.to_bytes(lanes.size, order))

    mask = joined([0xFFFF_FFFF] * count)
    one, two = joined(one for one, _ in before[:count]), joined(two for _, two in before[:count])
    for place in covered:
        pair = int.from_bytes(pairs[place :: length // _PAIR].tobytes(), order)
        words = pair & mask, (pair >> 32) & mask
        first, second = words if order == "little" else words[::-1]
        one = (one + two + first) & mask
        two = (two + one + second) & mask
    return list(zip(split(one), split(two), strict=True))
