"""Process that holds a lease or the lock of a file."""

from __future__ import annotations

import json
import os
import socket
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Self

import attrs

from freight_exchange.platform.clock import boot_id

__all__ = ["Holder"]

_MACHINE_ID: Final = Path("/etc/machine-id")


@attrs.frozen(kw_only=True)
class Holder:
    """A process that holds a lease.

    Attributes:
        host: The host's name; each container has its own.
        pid: The process.
        since: When it took the lease.
        boot, machine: IDs of the boot and of the machine; empty on systems without them.
        lock: The inode of the lock file that it locked; 0 if unknown.
    """

    host: str
    pid: int
    since: str
    boot: str = ""
    machine: str = ""
    lock: int = 0

    @classmethod
    def current(cls, *, lock: int = 0) -> Self:
        """Return this process, as the holder of a lock file with this inode."""
        return cls(
            host=socket.gethostname(),
            pid=os.getpid(),
            since=f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC",
            boot=boot_id(),
            machine=_read_id(_MACHINE_ID),
            lock=lock,
        )

    @classmethod
    def from_json(cls, text: str | None) -> Self | None:
        """Return the holder that `to_json` wrote, or `None` for any other text."""
        try:
            fields = json.loads(text or "")
            return cls(
                host=str(fields["host"]),
                pid=int(fields["pid"]),
                since=str(fields["since"]),
                boot=str(fields.get("boot", "")),
                machine=str(fields.get("machine", "")),
                lock=int(fields.get("lock", 0)),
            )
        except (ValueError, KeyError, TypeError, AttributeError):
            return None

    def to_json(self) -> str:
        """Write the holder as JSON."""
        return json.dumps(attrs.asdict(self))

    def shares_locks_with(self, other: Holder) -> bool:
        """Return whether both run on one machine, where a file lock excludes one of them."""
        if self.boot and self.boot == other.boot:
            # One kernel. Host names differ between its containers.
            return True
        if self.machine and other.machine and self.machine != other.machine:
            return False
        return self.host == other.host

    def is_gone(self, current: Holder) -> bool:
        """Return whether this process is known to have ended. For other machines and containers that is unknown."""
        if self.host != current.host or not current.shares_locks_with(self):
            return False
        has_rebooted = bool(self.boot and current.boot) and self.boot != current.boot
        return has_rebooted or not _is_running(self.pid)

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} since {self.since}"


def _is_running(pid: int) -> bool:
    if sys.platform == "win32":
        # Signal 0 would end the process there.
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _read_id(file: Path) -> str:
    try:
        return file.read_text().strip()
    except (OSError, ValueError):
        return ""
