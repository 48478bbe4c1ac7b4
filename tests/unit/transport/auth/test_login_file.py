"""Tests of the token file on disk: owner, mode, lock and atomic replacement."""

from __future__ import annotations

import errno
import logging
import os
import socket
import stat
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.transport.fleet import EMAIL, URL, kept, put

from freight_exchange.platform.file_lock import FileLock
from freight_exchange.transport.auth.cached_login import CachedLogin
from freight_exchange.transport.auth.login_file import LoginFile

CANARY = "c4nary-t0ken"

posix = pytest.mark.skipif(sys.platform == "win32", reason="modes and owners as POSIX has them")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "token.json"


@pytest.fixture
def file(path: Path) -> LoginFile:
    return LoginFile(path, URL, EMAIL)


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def anything(_: CachedLogin) -> bool:
    return True


def nothing(_: CachedLogin) -> bool:
    return False


def warned(caplog: pytest.LogCaptureFixture, file: LoginFile, words: str) -> None:
    """Check that there is one warning, with the path and these words, and without the token."""
    [record] = caplog.records
    assert (record.levelno, record.name) == (logging.WARNING, "freight_exchange.auth")
    assert str(file.path) in record.getMessage()
    assert words in record.getMessage()
    assert CANARY not in caplog.text
    caplog.clear()


class TestReadingAndWriting:
    def test_written_login_is_read(self, file: LoginFile, caplog: pytest.LogCaptureFixture) -> None:
        assert file.read() is None
        for login in (kept("one"), kept("two", lifetime=None)):
            file.write(login, locked=True)
            assert file.read() == login
        assert caplog.records == []
        assert [found.name for found in file.path.parent.iterdir()] == ["token.json"]

    @posix
    @pytest.mark.usefixtures("open_umask")
    def test_only_the_owner_can_read_any_of_it(self, tmp_path: Path) -> None:
        file = LoginFile(tmp_path / "new" / "newer" / "token.json", URL, EMAIL)
        lock = file.read_or_lock(anything)
        assert isinstance(lock, FileLock)
        file.write(kept(), locked=True)
        lock.release()
        folders = [mode(tmp_path / "new"), mode(tmp_path / "new" / "newer")]
        assert folders == [0o700, 0o700]
        assert {found.name: mode(found) for found in file.path.parent.iterdir()} == {
            "token.json": 0o600,
            "token.json.lock": 0o600,
        }

    @posix
    @pytest.mark.usefixtures("open_umask")
    def test_temporary_file_is_private(self, file: LoginFile, monkeypatch: pytest.MonkeyPatch) -> None:
        modes = []
        real = os.fdopen

        def watching(descriptor: int, *rest: Any) -> Any:
            modes.append((stat.S_IMODE(os.fstat(descriptor).st_mode), os.fstat(descriptor).st_size))
            return real(descriptor, *rest)

        monkeypatch.setattr(os, "fdopen", watching)
        file.write(kept(), locked=True)
        assert modes == [(0o600, 0)]

    def test_reader_never_sees_half_a_file(self, file: LoginFile) -> None:
        logins = [kept("a" * 20_000), kept("b" * 10)]
        file.write(logins[0], locked=True)
        done = threading.Event()
        seen = []

        def look() -> None:
            while not done.is_set():
                seen.append(file.read())

        reader = threading.Thread(target=look)
        reader.start()
        for number in range(100):
            file.write(logins[number % 2], locked=True)
        done.set()
        reader.join()
        assert {login.token for login in seen if login is not None} <= {login.token for login in logins}
        assert None not in seen

    @pytest.mark.parametrize("fails", ["fsync", "replace", "open"])
    def test_a_write_that_fails_leaves_the_old_one_and_no_draft(
        self, fails: str, file: LoginFile, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        file.write(kept("old"), locked=True)
        full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        with monkeypatch.context() as patch:

            def fail(*_: object) -> None:
                raise full

            patch.setattr(Path if fails == "replace" else os, fails, fail)
            file.write(kept(CANARY), locked=True)
        warned(caplog, file, f"cannot be written ({full.strerror})")
        found = file.read()
        assert found is not None
        assert found.token.reveal() == "old"
        assert [found.name for found in file.path.parent.iterdir()] == ["token.json"]

    def test_login_that_no_file_can_hold_is_not_written(
        self, file: LoginFile, caplog: pytest.LogCaptureFixture
    ) -> None:
        file.write(kept(CANARY, account="\ud800"), locked=True)
        warned(caplog, file, "is not written: it cannot hold")
        assert not file.path.exists()

    def test_the_drafts_of_the_killed_are_removed_and_nothing_else(self, file: LoginFile) -> None:
        draft, *others = [
            file.path.with_name(name)
            for name in (
                f"token.json.{'0f' * 8}.tmp",
                "token.json.mine.tmp",
                f"token.json.{'0f' * 8}",
                f"other.json.{'0f' * 8}.tmp",
            )
        ]
        for found in (draft, *others):
            found.touch()
        file.write(kept(), locked=False)
        assert draft.exists(), "another may be writing it"
        file.write(kept(), locked=True)
        assert not draft.exists()
        assert all(other.exists() for other in others)


class TestWhatIsNotUsed:
    @pytest.fixture(autouse=True)
    def _level(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.DEBUG)

    @posix
    @pytest.mark.parametrize("bits", [0o640, 0o604, 0o644, 0o620, 0o602, 0o601, 0o666])
    def test_file_open_to_others_is_not_used(
        self, bits: int, file: LoginFile, caplog: pytest.LogCaptureFixture
    ) -> None:
        put(file.path, kept(CANARY))
        file.path.chmod(bits)
        assert file.read() is None
        warned(caplog, file, f"is not used: it is open to other users (mode {bits:04o})")
        file.write(kept("new"), locked=True)
        assert mode(file.path) == 0o600
        assert file.read() is not None

    @posix
    def test_a_link_is_not_followed(self, file: LoginFile, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        target = tmp_path / "target"
        put(target, kept(CANARY))
        content = target.read_bytes()
        file.path.symlink_to(target)
        assert file.read() is None
        warned(caplog, file, "is not used: it is a symbolic link")
        file.write(kept("new"), locked=True)
        assert not file.path.is_symlink()
        assert target.read_bytes() == content

    @posix
    def test_a_link_in_place_of_the_lock_is_not_followed(
        self, file: LoginFile, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        file.path.with_name("token.json.lock").symlink_to(tmp_path / "target")
        lock = file.read_or_lock(anything)
        assert isinstance(lock, FileLock)
        assert not lock.is_held
        warned(caplog, file, "cannot be locked")
        assert not (tmp_path / "target").exists()

    @posix
    def test_file_of_another_user_is_neither_read_nor_replaced(
        self, file: LoginFile, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        put(file.path, kept(CANARY))
        content = file.path.read_bytes()
        somebody = os.geteuid() + 1
        monkeypatch.setattr(os, "geteuid", lambda: somebody)
        assert file.read() is None
        warned(caplog, file, "is not used: it belongs to another user")
        file.write(kept("new"), locked=True)
        warned(caplog, file, "is not written: it belongs to another user")
        assert file.path.read_bytes() == content

    @pytest.mark.parametrize(
        ("content", "words"),
        [
            (b"", "no login"),
            (CANARY.encode(), "no login"),
            (kept(CANARY).to_bytes()[:-20], "no login"),
            (kept(CANARY).to_bytes() + b" " * 100_000, "too large"),
            (kept(CANARY, account="you@co.example").to_bytes(), "another account"),
            (kept(CANARY, base_url="https://other.example/api").to_bytes(), "another account or service"),
        ],
        ids=["empty", "text", "cut", "large", "account", "service"],
    )
    def test_file_with_other_content_is_not_used_and_replaced(
        self, content: bytes, words: str, file: LoginFile, caplog: pytest.LogCaptureFixture
    ) -> None:
        put(file.path, kept())
        file.path.write_bytes(content)
        assert file.read() is None
        warned(caplog, file, words)
        file.write(kept("new"), locked=True)
        assert file.read() is not None

    def test_a_directory(self, file: LoginFile, caplog: pytest.LogCaptureFixture) -> None:
        file.path.mkdir()
        assert file.read() is None
        warned(caplog, file, "is not a file" if sys.platform != "win32" else "cannot be read")
        file.write(kept(CANARY), locked=True)
        warned(caplog, file, "is not written: it is not a file")

    @posix
    def test_a_pipe_is_not_waited_for_nor_replaced(self, file: LoginFile, caplog: pytest.LogCaptureFixture) -> None:
        os.mkfifo(file.path, 0o600)
        assert file.read() is None
        warned(caplog, file, "is not used: it is not a file")
        file.write(kept(CANARY), locked=True)
        warned(caplog, file, "is not written: it is not a file")
        assert file.path.is_fifo()

    @posix
    def test_a_socket(self, file: LoginFile, caplog: pytest.LogCaptureFixture) -> None:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(file.path))
            assert file.read() is None
        warned(caplog, file, "cannot be read")

    def test_a_file_where_a_directory_should_be(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        (tmp_path / "folder").touch()
        file = LoginFile(tmp_path / "folder" / "token.json", URL, EMAIL)
        lock = file.read_or_lock(anything)
        assert isinstance(lock, FileLock)
        assert not lock.is_held
        caplog.clear()
        file.write(kept(CANARY), locked=False)
        warned(caplog, file, "cannot be written")

    def test_a_warning_is_given_once_until_all_is_well(self, file: LoginFile, caplog: pytest.LogCaptureFixture) -> None:
        for _ in range(2):
            put(file.path, kept())
            file.path.write_bytes(b"?")
            for _ in range(5):
                assert file.read() is None
            warned(caplog, file, "no login")
            file.write(kept(), locked=True)
            assert file.read() is not None

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
    @given(content=st.binary(max_size=200), bits=st.integers(0, 0o777))
    def test_any_file_costs_a_warning_and_no_error(self, content: bytes, bits: int, path: Path) -> None:
        file = LoginFile(path, URL, EMAIL)
        path.unlink(missing_ok=True)
        path.write_bytes(content)
        path.chmod(bits)
        assert file.read() is None
        lock = file.read_or_lock(anything)
        assert isinstance(lock, FileLock)
        file.write(kept("new"), locked=True)
        lock.release()
        assert file.read() is not None


class TestTheTurn:
    def test_a_login_that_is_wanted_needs_no_lock(self, file: LoginFile) -> None:
        put(file.path, kept())
        assert isinstance(file.read_or_lock(anything), CachedLogin)
        assert not file.path.with_name("token.json.lock").exists()

    def test_lock_has_one_holder(self, file: LoginFile, path: Path) -> None:
        lock = file.read_or_lock(nothing)
        assert isinstance(lock, FileLock)
        assert lock.is_held
        other = LoginFile(path, URL, EMAIL)
        assert other.read_or_lock(nothing) is None
        lock.release()
        lock.release()
        assert not lock.is_held
        assert isinstance(other.read_or_lock(nothing), FileLock)

    def test_login_of_the_last_holder_is_read_under_the_lock(
        self, file: LoginFile, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """That holder writes and releases the lock between this process's first read and its own lock."""
        real = FileLock.acquire

        def late(where: Path, **options: Any) -> FileLock | None:
            put(path, kept("theirs"))
            return real(where, **options)

        monkeypatch.setattr(FileLock, "acquire", late)
        found = file.read_or_lock(anything)
        assert isinstance(found, CachedLogin)
        monkeypatch.undo()
        assert isinstance(LoginFile(path, URL, EMAIL).read_or_lock(nothing), FileLock), "the lock was given back"

    @posix
    def test_lock_of_another_user_is_not_waited_for(
        self, file: LoginFile, path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        path.with_name("token.json.lock").touch()
        other_user = os.geteuid() + 1
        monkeypatch.setattr(os, "geteuid", lambda: other_user)
        lock = file.read_or_lock(nothing)
        assert isinstance(lock, FileLock)
        assert not lock.is_held
        warned(caplog, file, "cannot be locked (the lock belongs to another user): each process logs in for itself")

    def test_file_system_without_locks_gives_an_empty_lock(
        self, file: LoginFile, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        def fail(*_: object, **__: object) -> None:
            raise OSError(errno.ENOLCK, "No locks available")

        monkeypatch.setattr(FileLock, "acquire", fail)
        for _ in range(3):
            lock = file.read_or_lock(nothing)
            assert isinstance(lock, FileLock)
            assert not lock.is_held
        warned(caplog, file, "cannot be locked (No locks available)")
