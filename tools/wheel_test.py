"""Build the wheel and test it as a user gets it: in empty environments, with the lowest and highest dependencies.

In the environment with the lowest dependencies, each direct dependency must have the version of its lower bound in the
wheel: another version would leave the bound untested.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from email.parser import HeaderParser
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
UV = Path(sys.executable).parent / "uv"
SMOKE = ROOT / "tools" / "lib" / "wheel_smoke.py"
EXTRAS = ("cli", "httpx2", "speedups")

# Name, uv's resolution, and the extras that are added one after the other. None at first: an extra can hide a missing
# dependency.
ENVIRONMENTS = (
    ("lowest", "lowest-direct", ((), EXTRAS)),
    ("highest", "highest", ((), ("cli",), EXTRAS)),
)


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    done = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def build(folder: Path) -> Path:
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder)
    (wheel,) = folder.glob("*.whl")
    return wheel


def requirements(wheel: Path) -> list[Requirement]:
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        headers = HeaderParser().parsestr(archive.read(metadata).decode())
    return [Requirement(line) for line in headers.get_all("Requires-Dist", [])]


def wanted(required: list[Requirement], extras: tuple[str, ...]) -> list[Requirement]:
    return [
        requirement
        for requirement in required
        if requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in ("", *extras))
    ]


def lower_bound(requirement: Requirement) -> Version:
    (bound,) = (Version(part.version) for part in requirement.specifier if part.operator in {">=", "=="})
    return bound


def installed(python: Path) -> dict[str, Version]:
    lines = run(UV, "pip", "freeze", "--python", python).splitlines()
    pairs = (line.split("==") for line in lines if "==" in line)
    return {canonicalize_name(name): Version(version) for name, version in pairs}


def interpreter(folder: Path) -> Path:
    return folder / Path(sys.executable).parent.name / Path(sys.executable).name


def try_extras(wheel: Path, folder: Path, resolution: str, extras: tuple[str, ...]) -> str:
    python = interpreter(folder)
    named = [f"freight-exchange[{','.join(extras)}] @ {wheel.as_uri()}"]
    direct = wanted(requirements(wheel), extras)
    # uv counts as direct what it is asked for by name, and not what a wheel asks for: so each is named.
    named += [f"{requirement.name}{requirement.specifier}" for requirement in direct]
    run(UV, "pip", "install", "--quiet", "--python", python, "--resolution", resolution, *named)
    found = installed(python)
    if resolution == "lowest-direct":
        for requirement in direct:
            version, bound = found[canonicalize_name(requirement.name)], lower_bound(requirement)
            if version != bound:
                sys.exit(f"{requirement} was installed as {version}: nothing was tested at {bound}")
    # Isolated and from another folder: the tree must not lend the wheel what it lacks.
    result = run(python, "-I", "-W", "error", SMOKE, *extras, cwd=folder)
    versions = " ".join(f"{name}=={found[name]}" for name in sorted(canonicalize_name(r.name) for r in direct))
    return f"{result.strip()}; {versions}"


def main() -> int:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        wheel = build(folder)
        print(f"built {wheel.name}")
        for name, resolution, steps in ENVIRONMENTS:
            run(UV, "venv", "--quiet", "--python", sys.executable, folder / name)
            for extras in steps:
                result = try_extras(wheel, folder / name, resolution, extras)
                print(f"{name}, {' '.join(extras) or 'no extras'}: {result}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
