"""Tests of logs after a crash: damage that a power loss can cause is accepted, and all other damage is reported."""

from __future__ import annotations

import io
import shutil
import sqlite3
import struct
from contextlib import closing
from pathlib import Path

import attrs
import pytest
from tests.unit.store.rows import BINDING, LEASE, event, put, read_state, seen

from freight_exchange.errors import StoreError
from freight_exchange.store import SQLiteStore
from freight_exchange.store.sqlite import diagnostics, wal_check
from freight_exchange.store.sqlite.diagnostics import check_wal
from freight_exchange.store.sqlite.inspect import feeds, open_snapshot

HEADER, FRAME, PAGE = 32, 24, 4096
LENGTH = FRAME + PAGE
COMMITS = 9
LAST = str(COMMITS - 1)


@attrs.frozen
class Files:
    """Store's file and its log."""

    file: bytes
    log: bytes

    @property
    def commit_ends(self) -> list[int]:
        """Return the offsets at which the commits with the header's salts end."""
        starts = range(HEADER, len(self.log) - LENGTH + 1, LENGTH)
        frames = ((start, struct.unpack_from(">6I", self.log, start)) for start in starts)
        return [start + LENGTH for start, frame in frames if frame[1] and self.has_salts(start)]

    def has_salts(self, start: int) -> bool:
        return self.log[start + 8 : start + 16] == self.log[16:24]

    def with_log(self, log: bytes) -> Files:
        return attrs.evolve(self, log=log)

    def with_flipped_bit(self, at: int) -> Files:
        return self.with_log(self.log[:at] + bytes([self.log[at] ^ 0x10]) + self.log[at + 1 :])

    def with_zeros(self, at: int, length: int = PAGE) -> Files:
        return self.with_log(self.log[:at] + bytes(length) + self.log[at + length :])

    def write(self, path: Path) -> None:
        shutil.rmtree(path.parent)
        path.parent.mkdir()
        path.write_bytes(self.file)
        path.with_name(f"{path.name}-wal").write_bytes(self.log)

    def read(self, path: Path) -> Files:
        return Files(path.read_bytes(), path.with_name(f"{path.name}-wal").read_bytes())

    def damage(self) -> int | None:
        return wal_check.find_damage(io.BytesIO(self.log))


def crashed(path: Path, *, restart_after: int | None = None) -> Files:
    """Return the files after some commits that write their number as state; the log restarts after one."""
    store = SQLiteStore(path)
    feed = store.open(BINDING, lease=LEASE)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        for number in range(COMMITS):
            put(feed, [seen(number, record=b"x" * 5000)], [event(str(number), number)], state=str(number))
            if number == restart_after:
                other.execute("PRAGMA wal_checkpoint(RESTART)")
        files = Files(path.read_bytes(), path.with_name(f"{path.name}-wal").read_bytes())
    store.close()
    return files


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return crashed(tmp_path_factory.mktemp("crashed") / "bot.db")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "again.db"


def opened(files: Files, path: Path) -> str | None:
    files.write(path)
    return read_state(path)


def is_refused(files: Files, path: Path) -> bool:
    """Check that the damage is reported to writers and inspectors, and that nothing is changed."""
    files.write(path)
    with pytest.raises(StoreError, match=r"is damaged .* move both away"):
        read_state(path)
    with pytest.raises(StoreError, match=r"is damaged .* move both away"), open_snapshot(path):
        pass
    assert {file.name for file in path.parent.iterdir()} == {path.name, f"{path.name}-wal", f"{path.name}.lock"}
    return files.read(path) == files


def test_file_with_a_whole_log_opens_at_the_last_commit(files: Files, path: Path) -> None:
    assert len(files.commit_ends) >= COMMITS
    assert opened(files, path) == LAST
    files.write(path)
    with open_snapshot(path) as connection:
        assert feeds(connection)[0].state == LAST


def test_log_that_restarts_during_an_inspection_is_no_damage(
    files: Files, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = iter([0, None])
    monkeypatch.setattr(diagnostics, "find_damage", lambda file: next(results))
    files.write(path)
    with open_snapshot(path) as connection:
        assert feeds(connection)[0].state == LAST
    assert next(results, "checked twice") == "checked twice"


def test_damage_in_the_middle_is_reported_and_nothing_changed(files: Files, path: Path) -> None:
    middle = files.commit_ends[COMMITS // 2]
    for at in (3, 17, middle + FRAME + 1000):
        assert is_refused(files.with_flipped_bit(at), path)
    for at in (0, middle, len(files.log) // 2 // PAGE * PAGE):
        assert is_refused(files.with_zeros(at), path)


def test_damage_is_found_in_every_frame_but_those_of_the_last_commit(files: Files) -> None:
    last = files.commit_ends[-2]
    for start in range(HEADER, len(files.log), LENGTH):
        expected = start if start < last else None
        for at in (start, start + 8, start + FRAME, start + LENGTH - 1):
            assert files.with_flipped_bit(at).damage() == expected, (start, at)
        # Without the header of the last frame but one commit, the end of that commit is unknown.
        if start + LENGTH < last:
            assert files.with_zeros(start, LENGTH).damage() == expected, start


def test_torn_last_commit_is_dropped(files: Files, path: Path) -> None:
    starts = range(files.commit_ends[-2], len(files.log), LENGTH)
    assert len(starts) > 1
    for start in starts:
        torn = files.with_flipped_bit(start + FRAME + 5), files.with_zeros(start), files.with_zeros(start, FRAME)
        for one in torn:
            assert opened(one, path) == str(COMMITS - 2), start


def test_truncated_log_keeps_its_whole_commits(files: Files, path: Path) -> None:
    for end in files.commit_ends[-4:]:
        whole = opened(files.with_log(files.log[:end]), path)
        for more in (1, FRAME, LENGTH - 1):
            assert opened(files.with_log((files.log + bytes(LENGTH))[: end + more]), path) == whole
    for length in (1, HEADER - 1, HEADER):
        assert files.with_log(files.log[:length]).damage() is None


def test_frames_of_an_earlier_log_are_ignored(tmp_path: Path, path: Path) -> None:
    files = crashed(tmp_path / "bot.db", restart_after=COMMITS - 3)
    starts = range(HEADER, len(files.log), LENGTH)
    assert 0 < sum(files.has_salts(start) for start in starts) < len(starts) / 2
    assert opened(files, path) == LAST
    assert opened(files.with_flipped_bit(files.commit_ends[-1] - 1), path) == str(COMMITS - 2)
    assert opened(files.with_flipped_bit(files.commit_ends[-1] + FRAME + 9), path) == LAST
    assert is_refused(files.with_flipped_bit(files.commit_ends[0] - 1), path)


def test_frames_of_failed_commits_are_ignored(files: Files, path: Path) -> None:
    """The disk refused to sync them, and shorter later commits did not overwrite their ends."""
    frames = [files.log[start - LENGTH : start] for start in files.commit_ends]
    whole = files.log[: files.commit_ends[3]]
    assert opened(files.with_log(whole + frames[6] + frames[8]), path) == opened(files.with_log(whole), path)


def in_byte_order(log: bytes, order: str) -> bytes:
    """Rewrite the log in this byte order, by SQLite's description."""
    changed = bytearray(log)

    def checksum(data: bytes | bytearray, one: int, two: int) -> tuple[int, int]:
        for first, second in struct.iter_unpack(f"{order}2I", data):
            one = (one + first + two) & 0xFFFF_FFFF
            two = (two + second + one) & 0xFFFF_FFFF
        return one, two

    changed[3] = 0x82 if order == "<" else 0x83
    last = checksum(changed[:24], 0, 0)
    changed[24:32] = struct.pack(">2I", *last)
    for start in range(HEADER, len(changed), LENGTH):
        last = checksum(changed[start : start + 8] + changed[start + FRAME : start + LENGTH], *last)
        changed[start + 16 : start + FRAME] = struct.pack(">2I", *last)
    return bytes(changed)


@pytest.mark.parametrize("order", ["<", ">"])
def test_logs_of_both_byte_orders_are_read(files: Files, path: Path, order: str) -> None:
    files = files.with_log(in_byte_order(files.log, order))
    assert opened(files, path) == LAST
    assert files.damage() is None
    assert files.with_flipped_bit(files.commit_ends[3] + FRAME).damage() == files.commit_ends[3]
    assert files.with_flipped_bit(24).damage() == 0


@pytest.mark.parametrize("chunk", [1, 2 * LENGTH, 7 * LENGTH])
def test_log_is_read_in_chunks(files: Files, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wal_check, "_CHUNK", chunk)
    assert files.damage() is None
    for start in files.commit_ends[:-2]:
        assert files.with_flipped_bit(start + FRAME).damage() == start


def test_log_that_its_holder_has_just_merged_is_no_error(path: Path) -> None:
    check_wal(path)
