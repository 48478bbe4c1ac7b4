"""Repeat the tests and the wheel test on each Python >= 3.11 that this machine has (`make test-all`).

An interpreter counts when it is found on PATH as `python3.N` or among pyenv's versions, starts, and can make
a virtual environment. The newest patch of each minor version stands for it, with an environment in `.venvs`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OLDEST = (3, 11)
PROBE = "import sys, venv, ensurepip; print(*sys.version_info[:3]); print(sys.executable)"

Version = tuple[int, int, int]


def candidates() -> list[Path]:
    names = [f"python3.{minor}" for minor in range(OLDEST[1], 30)]
    folders = [Path(folder) for folder in os.get_exec_path()]
    found = [folder / name for folder in folders for name in names]
    if roots := pyenv_root():
        found += sorted(roots.glob("versions/*/bin/python"))
    return [path for path in found if path.exists()]


def pyenv_root() -> Path | None:
    if named := os.environ.get("PYENV_ROOT"):
        return Path(named)
    if pyenv := shutil.which("pyenv"):
        reported = subprocess.run([pyenv, "root"], capture_output=True, text=True, check=False)
        if reported.returncode == 0:
            return Path(reported.stdout.strip())
    return None


def probe(python: Path) -> tuple[Version, Path] | None:
    # A pyenv shim exists for versions that are not switched on, and fails with its exit code.
    probed = subprocess.run([python, "-c", PROBE], capture_output=True, text=True, check=False)
    if probed.returncode != 0:
        return None
    numbers, executable = probed.stdout.splitlines()
    major, minor, patch = map(int, numbers.split())
    return (major, minor, patch), Path(executable)


def newest_of_each() -> dict[tuple[int, int], tuple[Version, Path]]:
    best: dict[tuple[int, int], tuple[Version, Path]] = {}
    for python in candidates():
        found = probe(python)
        if found is None or found[0][:2] < OLDEST:
            continue
        minor = found[0][:2]
        if minor not in best or found[0] > best[minor][0]:
            best[minor] = found
    return dict(sorted(best.items()))


def main() -> int:
    verdicts: list[str] = []
    failed = False
    for minor, (version, python) in newest_of_each().items():
        name = ".".join(map(str, version))
        print(f"\n=== Python {name}", flush=True)
        venv = f".venvs/{minor[0]}.{minor[1]}"
        make = ["make", "--no-print-directory", "pytest", "wheel-test", f"VENV={venv}", f"PYTHON={python}"]
        code = subprocess.run(make, cwd=ROOT, check=False).returncode
        failed |= code != 0
        verdicts.append(f"Python {name:<8} {'ok' if code == 0 else f'FAILED (exit {code})'}")
    print("\n" + "\n".join(verdicts or ["no Python >= 3.11 found"]))
    return int(failed or not verdicts)


if __name__ == "__main__":
    sys.exit(main())
