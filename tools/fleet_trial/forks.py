"""Processes from which `fleet_faults.py` forks its replicas: one for each revision of the code."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

__all__ = ["Forks", "revisions"]

_ROOT: Final = Path(__file__).resolve().parent.parent.parent


class Forks:
    """Forks of one process for each tree of code.

    Args:
        trees: The trees, the latest last.
        earliest: Number of the first forks that have the code of the first tree.
        random: Chooses the tree of each later fork.

    Attributes:
        is_latest: Whether all forks from now on have the code of the latest tree.
    """

    def __init__(self, trees: Sequence[Path], earliest: int, random: Random) -> None:
        self._trees = trees
        self._earliest = earliest
        self._random = random
        self._processes: list[asyncio.subprocess.Process] = []
        self._forks = 0
        self.is_latest = False

    async def start(self) -> None:
        """Start the processes."""
        for tree in self._trees:
            self._processes.append(
                await asyncio.create_subprocess_exec(
                    sys.executable, "-m", "tools.lib.fleet_replica", cwd=tree, stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE, env={**os.environ, "PYTHONPATH": f"{tree / 'src'}:{tree}"},
                )
            )  # fmt: skip

    async def fork(self, order: dict[str, Any]) -> int:
        """Start a replica from an order, and return its process id."""
        self._forks += 1
        which = 0 if self._forks <= self._earliest else self._random.randrange(len(self._processes))
        process = self._processes[-1 if self.is_latest else which]
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(order).encode() + b"\n")
        return int(await process.stdout.readline())

    async def end(self) -> None:
        """End the processes."""
        for process in self._processes:
            process.kill()
            await process.wait()


def revisions(earlier: str | None, directory: Path) -> list[Path]:
    """Return this tree, and before it an earlier revision of it, unpacked into a directory, if one is named."""
    if earlier is None:
        return [_ROOT]
    directory.mkdir(parents=True)
    archive = subprocess.run(["git", "archive", earlier], cwd=_ROOT, stdout=subprocess.PIPE, check=True)
    subprocess.run(["tar", "-x", "-C", str(directory)], input=archive.stdout, check=True)
    return [directory, _ROOT]
