"""Damage in the middle of SQLite's write-ahead log: https://sqlite.org/fileformat2.html#walformat

SQLite reads the log up to the first invalid frame and drops the rest. That is right at the end of the log: a loss of
power tears only the commit that was being synced. But SQLite starts a commit only when the one before it, with all
earlier frames, is on the disk. A commit starts from the checksum of the one before. If an invalid frame is followed by
a valid commit, and that by the start of another one, the frame was on the disk, and something else damaged it.
"""

from __future__ import annotations

import os
import struct
from array import array
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO, Final, Literal

__all__ = ["find_damage", "leftover_wal", "wal_path"]

_HEADER: Final = struct.Struct(">8I")
_FRAME: Final = struct.Struct(">6I")
_BYTE_ORDERS: Final[dict[int, Literal["little", "big"]]] = {0x377F0682: "little", 0x377F0683: "big"}
_PAIR: Final = 8
"""Bytes of two words: checksums add the words of a frame in pairs."""

_CHUNK: Final = 1 << 20

_Checksum = tuple[int, int]


def wal_path(path: Path) -> Path:
    """Return the path of the log of a store's file."""
    return path.with_name(f"{path.name}-wal")


def leftover_wal(path: str) -> Path | None:
    """Return the log that a crash left, if any. SQLite would apply it to any file put in the place of the store."""
    wal = wal_path(Path(path))
    try:
        return wal if wal.stat().st_size else None
    except (OSError, ValueError):
        return None


def find_damage(wal: BinaryIO) -> int | None:
    """Return the offset of the first invalid frame, if commits follow it; otherwise `None`.

    Truncation, and damage in or right before the last commit, also give `None`: they look like a loss of power.
    """
    size = wal.seek(0, os.SEEK_END)
    wal.seek(0)
    header = wal.read(_HEADER.size)
    if size <= _HEADER.size:
        return None
    magic, _, page_size, _, *salts, first, second = _HEADER.unpack(header)
    order, previous = _BYTE_ORDERS.get(magic), (first, second)
    # The header is synced before the first frame is written: it is never torn.
    if order is None or _checksums(header, len(header), range(3), order, [(0, 0)]) != [previous]:
        return 0
    length = _FRAME.size + page_size
    # A frame's checksum covers the first two words of its header, and its page.
    covered = (0, *range(_FRAME.size // _PAIR, length // _PAIR))
    offset, damage, ended_commit = _HEADER.size, None, False
    while count := min(max(1, _CHUNK // length), (size - offset) // length):
        chunk = wal.read(count * length)
        frames = [_FRAME.unpack_from(chunk, start) for start in range(0, len(chunk), length)]
        stored: list[_Checksum] = [(first, second) for *_, first, second in frames]
        computed = _checksums(chunk, length, covered, order, [previous, *stored])
        for frame, stored_sum, computed_sum in zip(frames, stored, computed, strict=True):
            _, commit_size, *frame_salts, _, _ = frame
            # Frames with other salts are left over from an earlier log that this one overwrites.
            if frame_salts != salts or stored_sum != computed_sum:
                damage = offset if damage is None else damage
            elif damage is not None and ended_commit:
                return damage
            ended_commit = commit_size > 0
            offset += length
        previous = stored[-1]
    return None


def _checksums(
    data: bytes, length: int, covered: Iterable[int], order: Literal["little", "big"], previous: Sequence[_Checksum]
) -> list[_Checksum]:
    """Compute the checksums of consecutive frames, each from the checksum stored before it.

    A checksum is a chain of additions, too slow word by word in Python. Here each frame has a 64-bit lane of one big
    integer, so that one addition advances all frames.

    Args:
        data: The frames.
        length: The length of one frame.
        covered: The pairs of words of each frame that are added.
        order: The byte order of the words.
        previous: The checksum from which each frame starts.
    """
    pairs = array("Q", data)
    count = len(data) // length
    lanes = struct.Struct(f"{'<' if order == 'little' else '>'}{count}Q")

    def join(values: Iterable[int]) -> int:
        return int.from_bytes(lanes.pack(*values), order)

    def split(value: int) -> tuple[int, ...]:
        return lanes.unpack(value.to_bytes(lanes.size, order))

    mask = join([0xFFFF_FFFF] * count)
    one, two = join(one for one, _ in previous[:count]), join(two for _, two in previous[:count])
    for place in covered:
        pair = int.from_bytes(pairs[place :: length // _PAIR].tobytes(), order)
        words = pair & mask, (pair >> 32) & mask
        first, second = words if order == "little" else words[::-1]
        one = (one + two + first) & mask
        two = (two + one + second) & mask
    return list(zip(split(one), split(two), strict=True))
