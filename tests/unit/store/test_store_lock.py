"""Tests of the lock of a store's file; `tests/unit/platform` tests locks between processes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from freight_exchange.store import store_lock
from freight_exchange.store.store_lock import StoreLock


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "bot.db.lock"


def test_lock_is_exclusive_until_it_is_released_and_its_file_stays(path: Path) -> None:
    assert not StoreLock.is_held_here(path)
    lock = StoreLock.acquire(path)
    assert lock is not None
    assert StoreLock.is_held_here(path)
    assert StoreLock.acquire(path) is None
    lock.release()
    assert path.exists()
    assert not StoreLock.is_held_here(path)
    again = StoreLock.acquire(path)
    assert again is not None
    assert again.inode == lock.inode
    again.release()


def test_lock_file_that_is_made_again_has_another_inode(path: Path) -> None:
    lock = StoreLock.acquire(path)
    assert lock is not None
    path.unlink()
    other = StoreLock.acquire(path)
    assert other is not None
    assert other.inode != lock.inode
    other.release()
    lock.release()


def test_lock_of_the_parent_process_is_not_held_here(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = StoreLock.acquire(path)
    assert lock is not None
    monkeypatch.setitem(store_lock._pid_by_inode, lock.inode, os.getppid())
    assert not StoreLock.is_held_here(path)
    lock.release()
