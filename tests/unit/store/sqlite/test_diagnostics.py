"""Files that are torn, foreign, newer, full or forbidden: the clear error for each, and nothing is touched."""

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

import attrs
import pytest
from tests.unit.store.rows import BINDING, LEASE, effect, event, everything, put, seen

from freight_exchange.errors import HeldError, StoreError
from freight_exchange.store import SQLiteStore
from freight_exchange.store.protocol import TrackedRequest
from freight_exchange.store.sqlite import connection as connection_module
from freight_exchange.store.sqlite import diagnostics, feed_sql
from freight_exchange.store.sqlite.inspect import open_snapshot
from freight_exchange.store.sqlite.schema import APPLICATION_ID, VERSION

INDEXES = range(100)
NOBODY = 65534


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "bot.db"


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store's file with a little of everything in it."""
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
    return path


def refused(path: Path) -> str:
    store = SQLiteStore(path)
    with pytest.raises(StoreError) as caught:
        store.open(BINDING, lease=LEASE)
    store.close()
    return str(caught.value)


def state(path: Path) -> str | None:
    store = SQLiteStore(path)
    found = store.open(BINDING, lease=LEASE).state
    store.close()
    return found


class TestAFile:
    def test_that_is_no_database_is_left_alone(self, path: Path) -> None:
        garbage = b"Dear forwarder,\n" * 1000
        path.write_bytes(garbage)
        assert "no database" in refused(path)
        assert path.read_bytes() == garbage

    def test_of_another_program_is_left_alone(self, path: Path) -> None:
        with closing(sqlite3.connect(path)) as other:
            other.execute("CREATE TABLE invoice (number)")
            other.execute("INSERT INTO invoice VALUES (4711)")
            other.commit()
        content = path.read_bytes()
        assert "another program's database" in refused(path)
        assert path.read_bytes() == content

    def test_of_another_application_is_left_alone(self, path: Path) -> None:
        with closing(sqlite3.connect(path)) as other:
            other.execute("PRAGMA application_id = 7")
            other.execute(f"PRAGMA user_version = {VERSION}")
            other.execute("CREATE TABLE feed (id)")
            other.commit()
        content = path.read_bytes()
        assert "another program's database" in refused(path)
        assert path.read_bytes() == content

    @pytest.mark.parametrize(
        ("change", "said"), [("PRAGMA application_id = 7", "another program's"), ("PRAGMA user_version = 99", "newer")]
    )
    def test_that_is_not_its_own_is_left_alone_with_its_log(self, path: Path, change: str, said: str) -> None:
        store = SQLiteStore(path)
        put(store.open(BINDING, lease=LEASE), state="kept")
        copy, log = path.with_name("copy.db"), path.with_name("copy.db-wal")
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute(change)
            shutil.copy(path, copy)
            shutil.copy(path.with_name("bot.db-wal"), log)
        store.close()
        before = copy.read_bytes(), log.read_bytes()
        assert said in refused(copy)
        assert (copy.read_bytes(), log.read_bytes()) == before

    def test_of_a_newer_version_is_left_alone(self, path: Path, sound: Path) -> None:
        shutil.copy(sound, path)
        with closing(sqlite3.connect(path)) as newer:
            newer.execute(f"PRAGMA user_version = {VERSION + 1}")
        content = path.read_bytes()
        assert f"schema {VERSION + 1}, this one reads up to {VERSION}" in refused(path)
        assert path.read_bytes() == content

    def test_without_a_table_becomes_a_store(self, path: Path) -> None:
        path.touch()
        assert state(path) is None
        with closing(sqlite3.connect(path)) as plain:
            assert plain.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
            assert plain.execute("PRAGMA user_version").fetchone() == (VERSION,)

    def test_that_is_a_directory_is_refused(self, tmp_path: Path) -> None:
        assert "is a directory" in refused(tmp_path)

    @pytest.mark.skipif(sys.platform == "win32", reason="there is none of them there")
    @pytest.mark.parametrize("kind", ["pipe", "socket", "device"])
    def test_that_is_no_file_is_refused_before_anything_is_made(
        self, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "bot.db"
        # From within: the name of a socket may not be long.
        monkeypatch.chdir(tmp_path)
        with socket.socket(socket.AF_UNIX) as listening:
            if kind == "pipe":
                os.mkfifo(path)
            elif kind == "socket":
                listening.bind(path.name)
            else:
                path.symlink_to(os.devnull)
            said = "is a device, a pipe or a socket: give the path of a file on a disk"
            assert said in refused(path)
            with pytest.raises(StoreError, match=said), open_snapshot(path):
                pass
        assert list(tmp_path.iterdir()) == [path]
        assert not Path(f"{os.devnull}.lock").exists()

    @pytest.mark.skipif(sys.platform == "win32", reason="the system calls it forbidden there")
    def test_whose_lock_is_a_directory_says_so_of_the_lock(self, path: Path) -> None:
        lock = path.with_name("bot.db.lock")
        lock.mkdir()
        assert refused(path).startswith(f"{lock}, which the store {path} needs, is a directory: move it away")
        assert not path.exists()

    def test_without_its_directory_is_refused(self, tmp_path: Path) -> None:
        assert "make it first" in refused(tmp_path / "missing" / "bot.db")
        assert not (tmp_path / "missing").exists()

    def test_that_lost_all_but_its_log_is_refused(self, path: Path) -> None:
        log = path.with_name("bot.db-wal")
        log.write_bytes(b"the last that was committed")
        assert "its log" in refused(path)
        assert log.read_bytes() == b"the last that was committed"
        assert not path.exists()

    @pytest.mark.parametrize("length", [0, 1, 2, 16, 99])
    def test_that_lost_its_first_page_is_refused_for_its_log(self, path: Path, length: int) -> None:
        store = SQLiteStore(path)
        put(store.open(BINDING, lease=LEASE), [seen(1)], state="in the log alone")
        torn, log = path.with_name("torn.db"), path.with_name("torn.db-wal")
        torn.write_bytes(path.read_bytes()[:length])
        shutil.copy(path.with_name("bot.db-wal"), log)
        store.close()
        before = torn.read_bytes(), log.read_bytes()
        assert before[1]
        assert f"but its log {log} is not" in refused(torn)
        with pytest.raises(StoreError, match="its log"), open_snapshot(torn):
            pass
        assert (torn.read_bytes(), log.read_bytes()) == before

    @pytest.mark.parametrize("looks", [1, 2, 3])
    def test_that_another_makes_just_then_is_held(
        self, path: Path, looks: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first, look, looked = SQLiteStore(path), diagnostics._size, 0

        def interrupted(file: Path) -> int:
            nonlocal looked
            looked += 1
            found = look(file)
            if looked == looks:
                monkeypatch.setattr(diagnostics, "_size", look)
                put(first.open(BINDING, lease=LEASE), state="the first")
                monkeypatch.setattr(diagnostics, "_size", interrupted)
            return found

        monkeypatch.setattr(diagnostics, "_size", interrupted)
        with pytest.raises(HeldError):
            SQLiteStore(path).open(BINDING, lease=LEASE)
        assert looked >= looks
        first.close()
        assert state(path) == "the first"

    def test_is_the_same_by_any_name(self, path: Path, sound: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        shutil.copy(sound, path)
        link = path.with_name("link.db")
        link.symlink_to(path)
        store = SQLiteStore(link)
        store.open(BINDING, lease=LEASE)
        monkeypatch.chdir(path.parent)
        assert "is open already in this process" in refused(Path("bot.db"))
        store.close()

    def test_that_has_a_second_name_is_refused_by_each(self, path: Path, sound: Path) -> None:
        """By another name it would be held twice: log and lock lie beside one."""
        shutil.copy(sound, path)
        other = path.with_name("other.db")
        other.hardlink_to(path)
        for name in (path, other):
            assert "is one file by 2 names" in refused(name)
            with pytest.raises(StoreError, match="by 2 names"), open_snapshot(name):
                pass
        assert {file.name for file in path.parent.iterdir()} == {"bot.db", "other.db"}
        other.unlink()
        assert state(path) == "kept"

    @pytest.mark.skipif(sys.platform == "win32", reason="no file may be called so there")
    @pytest.mark.parametrize("name", ["bot.db", "the bot's\\1\n\t#é.db"])
    def test_that_is_mounted_without_its_folder_is_refused(
        self, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path, mounts = tmp_path / name, tmp_path / "mountinfo"
        monkeypatch.setattr(diagnostics, "_MOUNTS", mounts)
        told = os.fsencode(path)
        for sign, number in ((b"\\", b"134"), (b" ", b"040"), (b"\t", b"011"), (b"\n", b"012")):
            told = told.replace(sign, b"\\" + number)
        line = b"36 35 253:0 /host/bot.db %s rw,noatime - ext4 /dev/vda rw\n"
        mounts.write_bytes(b"\n" + line % b"/" + line % os.fsencode(tmp_path) + line % (told + b"-wal"))
        assert state(path) is None
        mounts.write_bytes(line % b"/" + line % told)
        assert "mount the folder that the file lies in" in refused(path)
        mounts.unlink()
        assert state(path) is None


class TestDamage:
    def test_torn_at_any_length_is_told(self, path: Path, sound: Path) -> None:
        whole = sound.read_bytes()
        lengths = {1, 15, 16, 99, 100, 512, 4095, 4096, *range(8192, len(whole), 4096), len(whole) - 1}
        lengths |= {random.Random(7).randrange(1, len(whole)) for _ in range(30)}
        for length in sorted(lengths):
            path.write_bytes(whole[:length])
            refusal = refused(path)
            assert "is damaged" in refusal or "no database" in refusal, length
            assert path.read_bytes() == whole[:length], length

    def test_what_was_cut_off_with_its_log_beside_it_is_told(self, path: Path, sound: Path) -> None:
        shutil.copy(sound, path)
        store = SQLiteStore(path)
        put(store.open(BINDING, lease=LEASE), state="in the log")
        torn = path.with_name("torn.db")
        shutil.copy(path.with_name("bot.db-wal"), torn.with_name("torn.db-wal"))
        store.close()
        log = torn.with_name("torn.db-wal").read_bytes()
        assert log
        for length in (20_000, sound.stat().st_size - 4096):
            torn.write_bytes(content := sound.read_bytes()[:length])
            assert "is damaged" in refused(torn)
            assert (torn.read_bytes(), torn.with_name("torn.db-wal").read_bytes()) == (content, log)

    def test_a_page_of_noise_is_told(self, path: Path, sound: Path) -> None:
        whole = sound.read_bytes()
        for start in range(0, len(whole), 4096):
            noise = random.Random(start).randbytes(4096)
            path.write_bytes(whole[:start] + noise + whole[start + 4096 :])
            refusal = refused(path)
            assert "is damaged" in refusal or "no database" in refusal, start
            assert path.read_bytes() == whole[:start] + noise + whole[start + 4096 :], start

    def test_flipped_bits_are_told_or_harmless_to_what_reads(self, path: Path, sound: Path) -> None:
        whole = sound.read_bytes()
        chance = random.Random(11)
        told = 0
        for _ in range(150):
            # The heads of the pages, where the structure is: inside a text SQLite has nothing to tell a flip by.
            at = chance.randrange(0, len(whole), 4096) + chance.randrange(0, 200)
            path.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << chance.randrange(8))]) + whole[at + 1 :])
            store = SQLiteStore(path)
            try:
                feed = store.open(BINDING, lease=LEASE)
                everything(feed, INDEXES)
            except StoreError:
                told += 1
            finally:
                store.close()
        assert told >= 50

    @pytest.mark.parametrize("where", ["first", "another"])
    def test_a_copy_put_back_as_told_is_the_copy_where_a_log_was_left(
        self, path: Path, sound: Path, where: str
    ) -> None:
        """SQLite would lay the old log over it."""
        shutil.copy(sound, path)
        store = SQLiteStore(path)
        put(store.open(BINDING, lease=LEASE), state="in the log")
        log, killed = path.with_name("bot.db-wal"), path.with_name("killed")
        killed.mkdir()
        for file in (path, log):
            shutil.copy(file, killed)
        store.close()
        assert state(path) == "in the log"
        shutil.copytree(killed, path.parent, dirs_exist_ok=True)
        torn, frames = bytearray(path.read_bytes()), log.read_bytes()[32:]
        logged = {int.from_bytes(frames[at : at + 4], "big") for at in range(0, len(frames), 24 + 4096)}
        page = next(page for page in range(2, len(torn) // 4096) if page not in logged) if where != "first" else 1
        at = 4096 * (page - 1)
        torn[at : at + 4096] = b"\xff" * 4096
        path.write_bytes(torn)
        told = refused(path)
        assert (path.read_bytes(), log.exists()) == (bytes(torn), True)
        for file in (path, log):
            if str(file) in told.split():
                file.rename(killed / "away")
        shutil.copy(sound, path)
        assert state(path) == "kept"

    def test_that_comes_while_it_is_open_is_told(self, path: Path, sound: Path) -> None:
        shutil.copy(sound, path)
        store = SQLiteStore(path)
        feed = store.open(BINDING, lease=LEASE)
        with closing(sqlite3.connect(path, isolation_level=None)) as vandal:
            vandal.execute("DROP TABLE seen")
        with pytest.raises(StoreError, match="is damaged"):
            put(feed, [seen(1)])
        store.close()


class TestTrouble:
    def test_a_full_disk_is_survived(self, path: Path) -> None:
        store = SQLiteStore(path)
        feed = store.open(BINDING, lease=LEASE)
        put(feed, [seen(1)], [event("1", 1)], state="kept")
        before = everything(feed, INDEXES)
        connection = store._database._connection
        assert connection is not None
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages}")
        for _ in range(2):
            with pytest.raises(StoreError, match="no room left: make room"):
                put(feed, [seen(index, record=b"x" * 900) for index in INDEXES], [event("2", 2)], state="lost")
        assert everything(feed, INDEXES) == before
        connection.execute("PRAGMA max_page_count = 100000")
        assert put(feed, [seen(index, record=b"x" * 900) for index in INDEXES], [event("2", 2)], state="new") == 1
        assert feed.unacknowledged == len(feed.pending()) == 2
        store.close()
        assert state(path) == "new"

    @pytest.mark.skipif(sys.platform == "win32", reason="there is no limit to a file's size to set")
    def test_a_write_that_the_system_refuses_is_survived(self, path: Path) -> None:
        import resource

        store = SQLiteStore(path)
        feed = store.open(BINDING, lease=LEASE)
        put(feed, [seen(1)], state="kept")
        before = everything(feed, INDEXES)
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.with_name("bot.db-wal").stat().st_size + 5000, limits[1]))
        try:
            with pytest.raises(StoreError, match=r"check the disk|make room"):
                put(feed, [seen(index, record=b"x" * 900) for index in INDEXES], state="lost")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert everything(feed, INDEXES) == before
        put(feed, [seen(index, record=b"x" * 900) for index in INDEXES], state="new")
        store.close()
        assert state(path) == "new"

    def test_another_programs_lock_is_waited_for_and_told(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(connection_module, "_BUSY_TIMEOUT", 0.05)
        store = SQLiteStore(path)
        feed = store.open(BINDING, lease=LEASE)
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreError, match="locked by another program"):
                put(feed, state="late")
            other.execute("ROLLBACK")
        put(feed, state="in time")
        store.close()
        assert state(path) == "in time"

    @pytest.mark.parametrize(
        "strange",
        [seen(2**63), seen(2, first_seen=float("nan"))],
    )
    def test_what_cannot_be_kept_is_told(self, path: Path, strange: TrackedRequest) -> None:
        store = SQLiteStore(path)
        feed = store.open(BINDING, lease=LEASE)
        with pytest.raises(StoreError, match="cannot keep a value"):
            put(feed, [seen(1), strange], state="lost")
        with pytest.raises(StoreError, match="cannot keep a value"):
            put(feed, state="\ud800")
        assert put(feed, [], [event("1")]) == 1
        assert feed.history(1)[0] is None
        store.close()

    def test_acknowledging_touches_no_other_feed(self, path: Path) -> None:
        store = SQLiteStore(path)
        first, second = (store.open(attrs.evolve(BINDING, feed=name), lease=LEASE) for name in ("one", "two"))
        put(first, events=[event("a")])
        second.acknowledge([one.id for one in first.pending()], at=1.0)
        assert (len(first.pending()), first.unacknowledged, second.unacknowledged) == (1, 1, 0)
        store.close()


@pytest.mark.skipif(sys.platform == "win32", reason="rights are another matter there")
class TestRights:
    @pytest.fixture
    def place(self) -> Iterator[Path]:
        """A directory of an ordinary user's, as which the test then runs: to root nothing is forbidden."""
        with tempfile.TemporaryDirectory() as name:
            place = Path(name)
            root = os.geteuid() == 0
            if root:
                place.chmod(0o755)
                os.chown(place, NOBODY, NOBODY)
                os.seteuid(NOBODY)
            try:
                yield place
            finally:
                if root:
                    os.seteuid(0)
                place.chmod(0o755)

    def test_a_file_that_may_only_be_read_is_refused(self, place: Path) -> None:
        path = place / "bot.db"
        assert state(path) is None
        path.chmod(0o444)
        assert "give this user the right to write" in refused(path)

    def test_a_directory_that_may_only_be_read_is_refused(self, place: Path) -> None:
        place.chmod(0o555)
        assert "give this user the right to write" in refused(place / "bot.db")

    def test_a_file_that_may_not_be_read_is_refused(self, place: Path) -> None:
        path = place / "bot.db"
        assert state(path) is None
        path.chmod(0)
        assert "give this user the right to write" in refused(path)
        path.chmod(0o644)
        assert state(path) is None

    def test_a_lock_that_may_not_be_written_is_named(self, place: Path) -> None:
        """As one is that a run as another user has left."""
        path, lock = place / "bot.db", place / "bot.db.lock"
        assert state(path) is None
        lock.chmod(0)
        said = f"{lock}, which the store {path} needs, cannot be written to: give this user the right to write"
        assert refused(path).startswith(said)


def test_no_question_reads_a_whole_table(path: Path, sound: Path) -> None:
    shutil.copy(sound, path)
    questions = {
        feed_sql._ABSENT: (1, 0.0, 1),
        feed_sql._PENDING: (1, 0, 1),
        feed_sql._PENDING_OF_KIND: (1, "new"),
        feed_sql._OF_REQUEST: (1, 1),
        feed_sql._OLD_REQUESTS: (1, 0.0, 1),
        feed_sql._DELETE_EVENTS: (1, 0.0, 1),
        feed_sql._DELETE_DELIVERIES: (1, 1, 0.0, 1),
        feed_sql._CAN_PRUNE: (1, 0.0, 1, 0.0),
        feed_sql._ACKNOWLEDGE: (b"", 0.0, 1, 1),
        feed_sql._PROPOSE_AGAIN: (0.0, 1, "a", 0.0),
        "SELECT count(*) FROM event WHERE feed = ? AND acknowledged = 0": (1,),
    }
    with closing(sqlite3.connect(path)) as plain:
        for question, given in questions.items():
            plan = [row[3] for row in plain.execute(f"EXPLAIN QUERY PLAN {question}", given)]
            assert plan
            assert [step for step in plan if step.startswith("SCAN") and "CONSTANT" not in step] == [], question
            assert not any("TEMP B-TREE" in step for step in plan), question
