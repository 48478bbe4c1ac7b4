"""Logs that a crash left, whole, torn and damaged: what a loss of power can tear opens, all other damage is told."""

from __future__ import annotations

import io
import shutil
import sqlite3
import struct
from contextlib import closing
from pathlib import Path

import attrs
import pytest
from tests.unit.store.rows import BINDING, LEASE, event, put, seen

from freight_exchange.errors import StoreError
from freight_exchange.store import SQLiteStore
from freight_exchange.store.sqlite import diagnostics, wal_check
from freight_exchange.store.sqlite.diagnostics import check_wal
from freight_exchange.store.sqlite.inspect import feeds, open_snapshot

HEADER, FRAME, PAGE = 32, 24, 4096
LENGTH = FRAME + PAGE
COMMITS = 9


@attrs.frozen
class Left:
    """A store's file and its log, as a crash leaves them."""

    file: bytes
    log: bytes

    @property
    def ends(self) -> list[int]:
        """The bytes of the log at which the commits of its salts end."""
        starts = range(HEADER, len(self.log) - LENGTH + 1, LENGTH)
        frames = ((start, struct.unpack_from(">6I", self.log, start)) for start in starts)
        return [start + LENGTH for start, frame in frames if frame[1] and self.is_salted(start)]

    def is_salted(self, start: int) -> bool:
        return self.log[start + 8 : start + 16] == self.log[16:24]

    def with_log(self, content: bytes) -> Left:
        return attrs.evolve(self, log=content)

    def flipped(self, at: int) -> Left:
        return self.with_log(self.log[:at] + bytes([self.log[at] ^ 0x10]) + self.log[at + 1 :])

    def zeroed(self, at: int, length: int = PAGE) -> Left:
        return self.with_log(self.log[:at] + bytes(length) + self.log[at + length :])


def work(path: Path, *, restart: int | None = None) -> Left:
    """What commits leave, each of which says its number; the log begins anew after some of them."""
    store = SQLiteStore(path)
    feed = store.open(BINDING, lease=LEASE)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        for number in range(COMMITS):
            put(feed, [seen(number, record=b"x" * 5000)], [event(str(number), number)], state=str(number))
            if number == restart:
                other.execute("PRAGMA wal_checkpoint(RESTART)")
        left = Left(path.read_bytes(), path.with_name("bot.db-wal").read_bytes())
    store.close()
    return left


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Left:
    return work(tmp_path_factory.mktemp("left") / "bot.db")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "again.db"


def lay(left: Left, path: Path) -> None:
    shutil.rmtree(path.parent)
    path.parent.mkdir()
    path.write_bytes(left.file)
    path.with_name(f"{path.name}-wal").write_bytes(left.log)


def opened(left: Left, path: Path) -> str | None:
    lay(left, path)
    with closing(SQLiteStore(path)) as store:
        return store.open(BINDING, lease=LEASE).state


def refused(left: Left, path: Path) -> bool:
    lay(left, path)
    with closing(SQLiteStore(path)) as store, pytest.raises(StoreError, match=r"is damaged .* move both away"):
        store.open(BINDING, lease=LEASE)
    assert {file.name for file in path.parent.iterdir()} == {path.name, f"{path.name}-wal", f"{path.name}.lock"}
    return (path.read_bytes(), path.with_name(f"{path.name}-wal").read_bytes()) == (left.file, left.log)


def broken_at(left: Left) -> int | None:
    return wal_check.find_damage(io.BytesIO(left.log))


def test_a_whole_log_opens(left: Left, path: Path) -> None:
    assert len(left.ends) >= COMMITS
    assert opened(left, path) == str(COMMITS - 1)


def test_who_only_looks_is_told_as_well(left: Left, path: Path) -> None:
    lay(broken := left.flipped(left.ends[COMMITS // 2] + FRAME + 1000), path)
    with pytest.raises(StoreError, match=r"is damaged .* move both away"), open_snapshot(path):
        pass
    assert (path.read_bytes(), path.with_name(f"{path.name}-wal").read_bytes()) == (broken.file, broken.log)
    lay(left, path)
    with open_snapshot(path) as connection:
        assert feeds(connection)[0].state == str(COMMITS - 1)


def test_a_log_that_begins_anew_while_somebody_looks_is_not_told_as_broken(
    left: Left, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = iter([0, None])
    monkeypatch.setattr(diagnostics, "find_damage", lambda file: next(found))
    lay(left, path)
    with open_snapshot(path) as connection:
        assert feeds(connection)[0].state == str(COMMITS - 1)
    assert next(found, "looked twice") == "looked twice"


def test_a_flipped_bit_in_the_middle_is_told_and_nothing_touched(left: Left, path: Path) -> None:
    middle = left.ends[COMMITS // 2]
    assert refused(left.flipped(middle + FRAME + 1000), path)
    assert refused(left.flipped(3), path)
    assert refused(left.flipped(17), path)


def test_a_zeroed_page_in_the_middle_is_told_and_nothing_touched(left: Left, path: Path) -> None:
    assert refused(left.zeroed(left.ends[COMMITS // 2]), path)
    assert refused(left.zeroed(len(left.log) // 2 // PAGE * PAGE), path)
    assert refused(left.zeroed(0), path)


def test_any_frame_is_told_but_those_of_the_last_commit(left: Left) -> None:
    last = left.ends[-2]
    for start in range(HEADER, len(left.log), LENGTH):
        expected = start if start < last else None
        for at in (start, start + 8, start + FRAME, start + LENGTH - 1):
            assert broken_at(left.flipped(at)) == expected, (start, at)
        # What is left of the last commit but one may be its header: with that, its end is unknown.
        if start + LENGTH < last:
            assert broken_at(left.zeroed(start, LENGTH)) == expected, start


def test_a_torn_last_commit_opens_without_it(left: Left, path: Path) -> None:
    starts = range(left.ends[-2], len(left.log), LENGTH)
    assert len(starts) > 1
    for start in starts:
        for torn in (left.flipped(start + FRAME + 5), left.zeroed(start), left.zeroed(start, FRAME)):
            assert opened(torn, path) == str(COMMITS - 2), start


def test_a_log_that_is_cut_off_opens_with_what_is_whole(left: Left, path: Path) -> None:
    for end in left.ends[-4:]:
        whole = opened(left.with_log(left.log[:end]), path)
        for more in (1, FRAME, LENGTH - 1):
            assert opened(left.with_log((left.log + bytes(LENGTH))[: end + more]), path) == whole
    for length in (1, HEADER - 1, HEADER):
        assert broken_at(left.with_log(left.log[:length])) is None


def test_what_is_left_of_an_earlier_log_counts_for_nothing(tmp_path: Path, path: Path) -> None:
    left = work(tmp_path / "bot.db", restart=COMMITS - 3)
    starts = range(HEADER, len(left.log), LENGTH)
    assert 0 < sum(left.is_salted(start) for start in starts) < len(starts) / 2
    assert opened(left, path) == str(COMMITS - 1)
    assert opened(left.flipped(left.ends[-1] - 1), path) == str(COMMITS - 2)
    assert opened(left.flipped(left.ends[-1] + FRAME + 9), path) == str(COMMITS - 1)
    assert refused(left.flipped(left.ends[0] - 1), path)


def test_what_is_left_of_commits_that_failed_counts_for_nothing(left: Left, path: Path) -> None:
    """The disk refused to sync them: their ends lie where later ones, which were shorter, have not come."""
    frames = [left.log[start - LENGTH : start] for start in left.ends]
    kept = left.log[: left.ends[3]]
    assert opened(left.with_log(kept + frames[6] + frames[8]), path) == opened(left.with_log(kept), path)


def in_order(content: bytes, order: str) -> bytes:
    """The log as a machine of this order writes it, by the letter of SQLite's description."""
    changed = bytearray(content)

    def summed(data: bytes | bytearray, one: int, two: int) -> tuple[int, int]:
        for first, second in struct.iter_unpack(f"{order}2I", data):
            one = (one + first + two) & 0xFFFF_FFFF
            two = (two + second + one) & 0xFFFF_FFFF
        return one, two

    changed[3] = 0x82 if order == "<" else 0x83
    last = summed(changed[:24], 0, 0)
    changed[24:32] = struct.pack(">2I", *last)
    for start in range(HEADER, len(changed), LENGTH):
        last = summed(changed[start : start + 8] + changed[start + FRAME : start + LENGTH], *last)
        changed[start + 16 : start + FRAME] = struct.pack(">2I", *last)
    return bytes(changed)


@pytest.mark.parametrize("order", ["<", ">"])
def test_logs_of_both_orders_are_read(left: Left, path: Path, order: str) -> None:
    left = left.with_log(in_order(left.log, order))
    assert opened(left, path) == str(COMMITS - 1)
    assert broken_at(left) is None
    assert broken_at(left.flipped(left.ends[3] + FRAME)) == left.ends[3]
    assert broken_at(left.flipped(24)) == 0


@pytest.mark.parametrize("piece", [1, 2 * LENGTH, 7 * LENGTH])
def test_it_is_read_in_pieces(left: Left, piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wal_check, "_CHUNK", piece)
    assert broken_at(left) is None
    for start in left.ends[:-2]:
        assert broken_at(left.flipped(start + FRAME)) == start


def test_a_log_that_its_holder_has_just_put_away_is_no_error(path: Path) -> None:
    check_wal(path)
