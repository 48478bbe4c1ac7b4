"""A lock file that another user has put there: in a shared folder, anybody can, and hold it for ever."""

from __future__ import annotations

import errno
import logging
import os
from pathlib import Path

import pytest

from freight_exchange.transport.auth.login_file import LoginFile
from freight_exchange.transport.auth.turn_lock import TurnLock

pytestmark = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owner here")


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lock that was there before, of a user who is not this one."""
    path = tmp_path / "token.json"
    lock = path.with_name("token.json.lock")
    lock.touch()
    lock.chmod(0o666)
    somebody = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: somebody)
    return path


def test_another_users_lock_is_none(path: Path) -> None:
    files = Path("/proc/self/fd")
    before = len([*files.iterdir()]) if files.exists() else 0
    for _ in range(5):
        with pytest.raises(OSError, match="another user") as caught:
            TurnLock.take(path.with_name("token.json.lock"))
        assert caught.value.errno == errno.EPERM
    assert (len([*files.iterdir()]) if files.exists() else 0) == before


def test_nobody_waits_for_another_users_lock(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    file = LoginFile(path, "https://co.example/api", "me@co.example")
    lock = file.look(lambda kept: True)
    assert isinstance(lock, TurnLock)
    assert not lock.held
    assert "cannot be locked (the lock belongs to another user): each process logs in for itself" in caplog.text
