"""Store files of the bots under test: killed in the middle, full, copied and put back."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, cast

__all__ = ["Disk", "tapped_connections"]

_PARTS: Final = ("", "-wal", "-journal")
_WRITES: Final = ("INSERT", "UPDATE", "DELETE", "REPLACE", "COMMIT")
_CODES: Final = {
    "full": (sqlite3.SQLITE_FULL, "database or disk is full"),
    "failing": (sqlite3.SQLITE_IOERR, "disk I/O error"),
}

_disks: dict[str, Disk] = {}


class Disk:
    """Folder of one bot's store file.

    Attributes:
        before: Called before each statement with its text and number; it may raise, as the disk would.
        statements, writes: Statements so far, and those that write.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = name
        self._generation = 0
        self.statements = 0
        self.writes = 0
        self.before: Callable[[str], None] | None = None
        self.after: Callable[[str], None] | None = None
        self._move()

    @property
    def path(self) -> Path:
        """Return the path of the file that the next deploy opens."""
        return self._folder / f"{self._name}-{self._generation}" / "bot.db"

    def _move(self) -> None:
        self._generation += 1
        self.path.parent.mkdir()
        _disks[str(self.path)] = self

    def snapshot(self) -> None:
        """Give the file as it is on the disk to the next deploy; the old process continues to write elsewhere."""
        old = self.path
        _disks.pop(str(old), None)
        self._move()
        for part in _PARTS:
            if (source := old.with_name(old.name + part)).exists():
                shutil.copyfile(source, self.path.with_name(self.path.name + part))

    def copy(self) -> Path:
        """Copy the file by SQLite's own backup."""
        backup = self._folder / f"{self._name}-backup.db"
        backup.unlink(missing_ok=True)
        source, target = sqlite3.connect(self.path), sqlite3.connect(backup)
        with contextlib.closing(source), contextlib.closing(target):
            source.backup(target)
        return backup

    def put_back(self, backup: Path) -> None:
        """Replace the file with a copy."""
        self._move()
        shutil.copyfile(backup, self.path)

    def lose(self) -> None:
        """Continue without a file."""
        self._move()

    def meet(self, statement: str) -> None:
        """Count a statement, and raise an error if it must fail."""
        self.statements += 1
        self.writes += _writes(statement)
        if self.before is not None:
            self.before(statement)

    def met(self, statement: str) -> None:
        """Record that a statement was executed."""
        if self.after is not None:
            self.after(statement)

    def fail_from(self, write: int, kind: str, *, times: int | None = None, after_commit: bool = False) -> None:
        """Refuse writes from the given one on.

        Args:
            write: Number of the first refused write, counted from now.
            kind: `full` or `failing`.
            times: Number of refused writes (default: all).
            after_commit: Refuse a COMMIT after it has taken effect, as a failed fsync does.
        """
        begin = self.writes + write
        failed = 0

        def fail(statement: str) -> None:
            nonlocal failed
            if self.writes < begin or not _writes(statement) or (times is not None and failed >= times):
                return
            if after_commit != statement.startswith("COMMIT") and after_commit:
                return
            failed += 1
            code, text = _CODES[kind]
            error = sqlite3.OperationalError(text)
            error.sqlite_errorcode = code
            raise error

        if after_commit:
            self.after = fail
        else:
            self.before = fail

    def mend(self) -> None:
        """Let all later writes succeed."""
        self.before = self.after = None


def _writes(statement: str) -> bool:
    return statement.lstrip().startswith(_WRITES)


class _Tapped(sqlite3.Connection):
    """Connection that reports each statement to its disk."""

    disk: Disk | None = None

    def execute(self, statement: str, *parameters: Any) -> sqlite3.Cursor:
        if self.disk is None or not self._is_current():
            return super().execute(statement, *parameters)
        self.disk.meet(statement)
        cursor = super().execute(statement, *parameters)
        if self._is_current():
            self.disk.met(statement)
        return cursor

    def executemany(self, statement: str, *parameters: Any) -> sqlite3.Cursor:
        if self.disk is not None and self._is_current():
            self.disk.meet(statement)
        return super().executemany(statement, *parameters)

    def _is_current(self) -> bool:
        return self.disk is not None and _disks.get(self.path) is self.disk

    path: str = ""


@contextlib.contextmanager
def tapped_connections() -> Iterator[None]:
    """Have the connections to the files of disks report their statements."""
    connect = sqlite3.connect

    def tapped(path: Any, *arguments: Any, **options: Any) -> sqlite3.Connection:
        disk = _disks.get(str(path))
        if disk is None:
            return cast("sqlite3.Connection", connect(path, *arguments, **options))
        connection: _Tapped = _Tapped(path, *arguments, **options)
        connection.disk, connection.path = disk, str(path)
        return connection

    sqlite3.connect = tapped  # type: ignore[assignment]  # put back below
    try:
        yield
    finally:
        sqlite3.connect = connect
        _disks.clear()
