"""Tests of the errors for files that are torn, foreign, newer or forbidden: each is clear, and nothing is changed."""

from __future__ import annotations

import os
import random
import shutil
import socket
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.unit.store.rows import BINDING, LEASE, effect, event, everything, put, read_state, seen

from freight_exchange.errors import HeldError, StoreError
from freight_exchange.store import SQLiteStore
from freight_exchange.store.sqlite import diagnostics
from freight_exchange.store.sqlite.inspect import open_snapshot
from freight_exchange.store.sqlite.schema import APPLICATION_ID, VERSION

INDEXES = range(100)
UNPRIVILEGED = 65534
PAGE = 4096


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "bot.db"


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return the content of a store's file with rows in every table."""
    path = tmp_path_factory.mktemp("sound") / "bot.db"
    store = SQLiteStore(path)
    feed = store.open(BINDING, lease=LEASE)
    body = b'{"commodity":"furniture","origin":"Hong Kong"}' * 8
    put(feed, [seen(index, record=body) for index in INDEXES], state="kept")
    put(feed, events=[event(str(index), index, payload=body) for index in INDEXES])
    feed.acknowledge([one.id for one in feed.pending(limit=10)], at=30.0)
    feed.enqueue({one.id: ["quote", "log"] for one in feed.pending(limit=80)}, at=30.0)
    for number, one in enumerate(feed.claim(now=30.0, limit=60)):
        if number % 3:
            feed.settle(one.event, one.handler, state="done" if number % 2 else "dead", error="late", at=31.0)
    for index in INDEXES:
        feed.put_effect(effect(f"{index}/0", payload=body[:200]), expected_state=None)
    store.close()
    return path.read_bytes()


def wal(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def refusal(path: Path) -> str:
    """Return the error that refuses the store to writers and inspectors, after checking its files."""
    before = [file.read_bytes() if file.is_file() else None for file in (path, wal(path))]
    store = SQLiteStore(path)
    with pytest.raises(StoreError) as caught:
        store.open(BINDING, lease=LEASE)
    store.close()
    assert [file.read_bytes() if file.is_file() else None for file in (path, wal(path))] == before
    return str(caught.value)


def logged_store(path: Path, state: str = "in the log") -> tuple[bytes, bytes]:
    """Write a state, and return the file and its log as a crash at that time leaves them."""
    store = SQLiteStore(path)
    put(store.open(BINDING, lease=LEASE), [seen(1)], state=state)
    files = path.read_bytes(), wal(path).read_bytes()
    store.close()
    assert files[1]
    return files


class TestForeignFile:
    def test_that_is_not_a_database_is_refused(self, path: Path) -> None:
        path.write_bytes(b"Dear forwarder,\n" * 1000)
        assert "not a database" in refusal(path)

    @pytest.mark.parametrize("application_id", [0, 7])
    def test_of_another_program_is_refused(self, path: Path, application_id: int) -> None:
        with closing(sqlite3.connect(path)) as other:
            other.execute(f"PRAGMA application_id = {application_id}")
            other.execute(f"PRAGMA user_version = {VERSION if application_id else 0}")
            other.execute("CREATE TABLE feed (number)")
            other.execute("INSERT INTO feed VALUES (4711)")
            other.commit()
        assert "another program's database" in refusal(path)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ("application_id = 7", "another program's"),
            (f"user_version = {VERSION + 1}", f"schema {VERSION + 1}, this one reads up to {VERSION}"),
        ],
    )
    def test_with_a_log_is_refused_and_the_log_is_not_merged(self, path: Path, change: str, message: str) -> None:
        store = SQLiteStore(path)
        put(store.open(BINDING, lease=LEASE), state="kept")
        copy = path.with_name("copy.db")
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute(f"PRAGMA {change}")
            shutil.copy(path, copy)
            shutil.copy(wal(path), wal(copy))
        store.close()
        assert message in refusal(copy)

    def test_of_a_newer_version_is_refused(self, path: Path, sound: bytes) -> None:
        path.write_bytes(sound)
        with closing(sqlite3.connect(path)) as newer:
            newer.execute(f"PRAGMA user_version = {VERSION + 1}")
        assert f"schema {VERSION + 1}, this one reads up to {VERSION}" in refusal(path)


class TestPath:
    def test_of_an_empty_file_becomes_a_store(self, path: Path) -> None:
        path.touch()
        assert read_state(path) is None
        with closing(sqlite3.connect(path)) as plain:
            assert plain.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
            assert plain.execute("PRAGMA user_version").fetchone() == (VERSION,)

    def test_of_a_directory_or_without_its_directory_is_refused(self, tmp_path: Path) -> None:
        assert "is a directory" in refusal(tmp_path)
        assert "make it first" in refusal(tmp_path / "missing" / "bot.db")
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.skipif(sys.platform == "win32", reason="Windows has none of them")
    @pytest.mark.parametrize("kind", ["pipe", "socket", "device"])
    def test_of_no_regular_file_is_refused_before_anything_is_made(
        self, path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # A socket's name must be short.
        monkeypatch.chdir(path.parent)
        with socket.socket(socket.AF_UNIX) as listening:
            if kind == "pipe":
                os.mkfifo(path)
            elif kind == "socket":
                listening.bind(path.name)
            else:
                path.symlink_to(os.devnull)
            message = "is a device, a pipe or a socket: give the path of a file on a disk"
            assert message in refusal(path)
            with pytest.raises(StoreError, match=message), open_snapshot(path):
                pass
        assert list(path.parent.iterdir()) == [path]
        assert not Path(f"{os.devnull}.lock").exists()

    @pytest.mark.skipif(sys.platform == "win32", reason="Windows calls it forbidden")
    def test_with_a_directory_as_lock_file_names_the_lock(self, path: Path) -> None:
        lock = path.with_name("bot.db.lock")
        lock.mkdir()
        assert refusal(path).startswith(f"{lock}, which the store {path} needs, is a directory: move it away")
        assert not path.exists()

    @pytest.mark.parametrize("length", [None, 0, 1, 2, 16, 99])
    def test_with_a_log_but_without_a_first_page_is_refused(self, path: Path, length: int | None) -> None:
        content, log = logged_store(path)
        torn = path.with_name("torn.db")
        if length is not None:
            torn.write_bytes(content[:length])
        wal(torn).write_bytes(log)
        assert f"but its log {wal(torn)} is not" in refusal(torn)
        with pytest.raises(StoreError, match="its log"), open_snapshot(torn):
            pass
        assert torn.exists() == (length is not None)
        assert wal(torn).read_bytes() == log

    @pytest.mark.parametrize("reads", [1, 2, 3])
    def test_at_which_another_process_makes_a_store_meanwhile_is_held(
        self, path: Path, reads: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first, read_size, count = SQLiteStore(path), diagnostics._size, 0

        def interrupted(file: Path) -> int:
            nonlocal count
            count += 1
            size = read_size(file)
            if count == reads:
                monkeypatch.setattr(diagnostics, "_size", read_size)
                put(first.open(BINDING, lease=LEASE), state="the first")
                monkeypatch.setattr(diagnostics, "_size", interrupted)
            return size

        monkeypatch.setattr(diagnostics, "_size", interrupted)
        with pytest.raises(HeldError):
            SQLiteStore(path).open(BINDING, lease=LEASE)
        assert count >= reads
        first.close()
        assert read_state(path) == "the first"

    def test_through_a_symbolic_link_is_the_same_store(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        link = path.with_name("link.db")
        link.symlink_to(path)
        store = SQLiteStore(link)
        store.open(BINDING, lease=LEASE)
        monkeypatch.chdir(path.parent)
        assert "is open already in this process" in refusal(Path("bot.db"))
        store.close()

    def test_of_a_file_with_several_names_is_refused(self, path: Path, sound: bytes) -> None:
        path.write_bytes(sound)
        other = path.with_name("other.db")
        other.hardlink_to(path)
        for name in (path, other):
            assert "is one file with 2 names" in refusal(name)
            with pytest.raises(StoreError, match="with 2 names"), open_snapshot(name):
                pass
        assert {file.name for file in path.parent.iterdir()} == {"bot.db", "other.db"}
        other.unlink()
        assert read_state(path) == "kept"

    @pytest.mark.skipif(sys.platform == "win32", reason="Windows allows no such names")
    @pytest.mark.parametrize("name", ["bot.db", "the bot's\\1\n\t#é.db"])
    def test_of_a_file_that_is_mounted_alone_is_refused(
        self, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path, mounts = tmp_path / name, tmp_path / "mountinfo"
        monkeypatch.setattr(diagnostics, "_MOUNTS", mounts)
        escaped = os.fsencode(path)
        for sign, number in ((b"\\", b"134"), (b" ", b"040"), (b"\t", b"011"), (b"\n", b"012")):
            escaped = escaped.replace(sign, b"\\" + number)
        line = b"36 35 253:0 /host/bot.db %s rw,noatime - ext4 /dev/vda rw\n"
        mounts.write_bytes(b"\n" + line % b"/" + line % os.fsencode(tmp_path) + line % (escaped + b"-wal"))
        assert read_state(path) is None
        mounts.write_bytes(line % b"/" + line % escaped)
        assert "mount the file's folder" in refusal(path)
        mounts.unlink()
        assert read_state(path) is None


class TestDamage:
    def test_by_truncation_is_reported_at_any_length(self, path: Path, sound: bytes) -> None:
        lengths = {1, 15, 16, 99, 100, 512, 4095, 4096, *range(2 * PAGE, len(sound), PAGE), len(sound) - 1}
        lengths |= {random.Random(7).randrange(1, len(sound)) for _ in range(30)}
        for length in sorted(lengths):
            path.write_bytes(sound[:length])
            message = refusal(path)
            assert "is damaged" in message or "not a database" in message, length

    def test_by_truncation_is_reported_beside_a_log(self, path: Path, sound: bytes) -> None:
        path.write_bytes(sound)
        _, log = logged_store(path)
        torn = path.with_name("torn.db")
        wal(torn).write_bytes(log)
        for length in (20_000, len(sound) - PAGE):
            torn.write_bytes(sound[:length])
            assert "is damaged" in refusal(torn)

    def test_of_a_whole_page_is_reported(self, path: Path, sound: bytes) -> None:
        for start in range(0, len(sound), PAGE):
            path.write_bytes(sound[:start] + random.Random(start).randbytes(PAGE) + sound[start + PAGE :])
            message = refusal(path)
            assert "is damaged" in message or "not a database" in message, start

    def test_of_a_bit_is_reported_or_raises_no_other_error(self, path: Path, sound: bytes) -> None:
        chance = random.Random(11)
        reported = 0
        for _ in range(60):
            # Within the first bytes of pages, their structure: SQLite cannot detect a flipped bit in a text.
            at = chance.randrange(0, len(sound), PAGE) + chance.randrange(0, 200)
            path.write_bytes(sound[:at] + bytes([sound[at] ^ (1 << chance.randrange(8))]) + sound[at + 1 :])
            store = SQLiteStore(path)
            try:
                everything(store.open(BINDING, lease=LEASE), INDEXES)
            except StoreError:
                reported += 1
            finally:
                store.close()
        assert reported >= 20

    @pytest.mark.parametrize("where", ["first page", "another page"])
    def test_is_mended_by_a_copy_if_the_files_of_the_message_are_moved_away(
        self, path: Path, sound: bytes, where: str
    ) -> None:
        """SQLite would apply a log that is left next to the copy."""
        path.write_bytes(sound)
        content, log = logged_store(path)
        logged = {int.from_bytes(log[at : at + 4], "big") for at in range(32, len(log), 24 + PAGE)}
        page = 1 if where == "first page" else next(n for n in range(2, len(content) // PAGE) if n not in logged)
        path.write_bytes(content[: PAGE * (page - 1)] + b"\xff" * PAGE + content[PAGE * page :])
        wal(path).write_bytes(log)
        message = refusal(path)
        for file in (path, wal(path)):
            if str(file) in message.split():
                file.unlink()
        path.write_bytes(sound)
        assert read_state(path) == "kept"

    def test_while_the_store_is_open_is_reported(self, path: Path) -> None:
        store = SQLiteStore(path)
        feed = store.open(BINDING, lease=LEASE)
        with closing(sqlite3.connect(path, isolation_level=None)) as vandal:
            vandal.execute("DROP TABLE seen")
        with pytest.raises(StoreError, match="is damaged"):
            put(feed, [seen(1)])
        store.close()


@pytest.mark.skipif(sys.platform == "win32", reason="permissions differ there")
class TestPermissions:
    @pytest.fixture
    def folder(self) -> Iterator[Path]:
        """Return a directory of an ordinary user, who runs the test, since root may do everything."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            is_root = os.geteuid() == 0
            if is_root:
                folder.chmod(0o755)
                os.chown(folder, UNPRIVILEGED, UNPRIVILEGED)
                os.seteuid(UNPRIVILEGED)
            try:
                yield folder
            finally:
                if is_root:
                    os.seteuid(0)
                folder.chmod(0o755)

    @pytest.mark.parametrize("mode", [0o444, 0])
    def test_to_write_the_file_are_required(self, folder: Path, mode: int) -> None:
        path = folder / "bot.db"
        assert read_state(path) is None
        path.chmod(mode)
        with pytest.raises(StoreError, match="give this user the right to write"):
            read_state(path)

    def test_to_write_the_directory_are_required(self, folder: Path) -> None:
        folder.chmod(0o555)
        assert "give this user the right to write" in refusal(folder / "bot.db")

    def test_to_write_the_lock_file_are_required(self, folder: Path) -> None:
        path, lock = folder / "bot.db", folder / "bot.db.lock"
        assert read_state(path) is None
        lock.chmod(0)
        message = f"{lock}, which the store {path} needs, cannot be written to: give this user the right to write"
        assert refusal(path).startswith(message)
