"""The lock that lets one process at a time log in: it goes with its holder, whatever becomes of that."""

from __future__ import annotations

import gc
import multiprocessing
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from freight_exchange.transport.auth.turn_lock import TurnLock

ROOT = Path(__file__).parents[3]

HOLDER = """
import sys
from pathlib import Path
from freight_exchange.transport.auth.turn_lock import TurnLock

lock = TurnLock.take(Path(sys.argv[1]))
print(lock is not None and lock.held, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lock"


def taken(path: Path) -> TurnLock:
    lock = TurnLock.take(path)
    assert lock is not None
    assert lock.held
    return lock


def test_a_holder_that_is_killed_holds_nothing(path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT / "src",
    ) as holder:  # fmt: skip
        assert holder.stdout is not None
        assert holder.stdout.readline() == "True\n"
        assert TurnLock.take(path) is None
        holder.kill()
        holder.wait()
        taken(path)


def test_one_that_is_forgotten_holds_nothing(path: Path) -> None:
    lock = taken(path)
    assert TurnLock.take(path) is None
    del lock
    gc.collect()
    taken(path)


def test_one_that_cannot_be_had_is_closed(path: Path) -> None:
    lock = taken(path)
    before = _open_files()
    for _ in range(20):
        assert TurnLock.take(path) is None
    assert _open_files() == before
    lock.close()


def _open_files() -> int:
    files = Path("/proc/self/fd")
    return len([*files.iterdir()]) if files.exists() else 0


def test_a_file_that_is_removed_meanwhile_keeps_nobody_out(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = TurnLock._locked
    removed: list[None] = []

    def removing(lock: TurnLock) -> bool:
        done = real(lock)
        if not removed:
            removed.append(None)
            path.unlink()
        return done

    monkeypatch.setattr(TurnLock, "_locked", removing)
    lock = taken(path)
    assert path.exists(), "the lock is on the file that is there now"
    assert TurnLock.take(path) is None
    lock.close()


def test_where_files_have_no_identity_there_is_no_lock(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os.path, "samestat", lambda *_: False)
    with pytest.raises(OSError, match="lock"):
        TurnLock.take(path)
    monkeypatch.undo()
    taken(path)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
def test_a_fork_does_not_keep_it(path: Path) -> None:
    lock = taken(path)
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()

    def child() -> None:
        there.send(lock.held)
        there.recv()

    with warnings.catch_warnings():
        # Later Pythons warn of forks where there are threads; this one does nothing that they could disturb.
        warnings.simplefilter("ignore", DeprecationWarning)
        process = context.Process(target=child)
        process.start()
    try:
        assert here.recv() is False
        assert TurnLock.take(path) is None, "the parent has it still"
        lock.close()
        taken(path).close()
    finally:
        here.send("done")
        process.join()
    assert process.exitcode == 0
