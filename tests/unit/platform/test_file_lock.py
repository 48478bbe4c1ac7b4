"""Tests of the advisory file lock."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from freight_exchange.platform.file_lock import FileLock

ROOT = Path(__file__).parents[3]

HOLDER = """
import sys
from pathlib import Path
from freight_exchange.platform.file_lock import FileLock

lock = FileLock.acquire(Path(sys.argv[1]))
print(lock is not None, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lock"


def acquire(path: Path) -> FileLock:
    lock = FileLock.acquire(path)
    assert lock is not None
    return lock


def open_files() -> int:
    files = Path("/proc/self/fd")
    return len([*files.iterdir()]) if files.exists() else 0


def test_killed_process_releases_its_lock(path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT / "src",
    ) as holder:  # fmt: skip
        assert holder.stdout is not None
        assert holder.stdout.readline() == "True\n"
        assert FileLock.acquire(path) is None
        holder.kill()
        holder.wait()
        acquire(path)


def test_released_lock_can_be_acquired_and_keeps_its_file(path: Path) -> None:
    lock = acquire(path)
    lock.release()
    lock.release()
    assert path.exists()
    acquire(path)


def test_failed_acquisition_leaks_no_descriptor(path: Path) -> None:
    lock = acquire(path)
    before = open_files()
    for _ in range(20):
        assert FileLock.acquire(path) is None
    assert open_files() == before
    lock.release()


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
def test_forked_child_does_not_hold_the_lock(path: Path) -> None:
    lock = acquire(path)
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()

    def child() -> None:
        there.send(FileLock.acquire(path) is None)
        there.recv()

    with warnings.catch_warnings():
        # Later Pythons warn of forks where there are threads; this one does nothing that they could disturb.
        warnings.simplefilter("ignore", DeprecationWarning)
        process = context.Process(target=child)
        process.start()
    try:
        assert here.recv() is True
        assert FileLock.acquire(path) is None, "the parent holds it"
        lock.release()
        acquire(path).release()
    finally:
        here.send("done")
        process.join()
    assert process.exitcode == 0


def test_symbolic_link_is_not_followed(path: Path, tmp_path: Path) -> None:
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError):
        FileLock.acquire(path)
    assert not (tmp_path / "elsewhere").exists()
