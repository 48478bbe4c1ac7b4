"""Build the wheel and use it as a user gets it: in empty environments, with the lowest and the highest dependencies.

In the environment with the lowest dependencies, each direct dependency must have the version of its lower bound in the
wheel: another version would leave the bound untested. With `--smoke EXTRAS`, it is the program in such an environment.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.resources
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from email.parser import HeaderParser
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
EXTRAS = ("cli", "httpx2")
# Name, uv's resolution, and the extras that are added one after the other. None at first: an extra can hide a missing
# dependency.
ENVIRONMENTS = (("lowest", "lowest-direct", ((), EXTRAS)), ("highest", "highest", ((), ("cli",), EXTRAS)))
CONTENT = ("freight_exchange/py.typed", "freight_sandbox/py.typed", "freight_sandbox/page/board.html")


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    done = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def build(folder: Path) -> Path:
    """Build the wheel, and look into it."""
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder)
    (wheel,) = folder.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    if missing := [name for name in CONTENT if name not in names]:
        sys.exit(f"the wheel lacks {missing}")
    if foreign := [name for name in names if not name.startswith("freight_")]:
        sys.exit(f"the wheel has {foreign}")
    return wheel


def requirements(wheel: Path, extras: tuple[str, ...]) -> list[Any]:
    from packaging.requirements import Requirement

    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        headers = HeaderParser().parsestr(archive.read(metadata).decode())
    required = [Requirement(line) for line in headers.get_all("Requires-Dist", [])]
    return [
        requirement
        for requirement in required
        if requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in ("", *extras))
    ]


def try_extras(wheel: Path, folder: Path, resolution: str, extras: tuple[str, ...]) -> str:
    """Install the wheel with extras, check the versions of its dependencies, and use it."""
    from packaging.utils import canonicalize_name
    from packaging.version import Version

    uv = Path(sys.executable).parent / "uv"
    python = folder / Path(sys.executable).parent.name / Path(sys.executable).name
    direct = requirements(wheel, extras)
    # uv counts as direct what it is asked for by name, and not what a wheel asks for: so each is named.
    named = [f"{requirement.name}{requirement.specifier}" for requirement in direct]
    named.append(f"freight-exchange[{','.join(extras)}] @ {wheel.as_uri()}")
    run(uv, "pip", "install", "--quiet", "--python", python, "--resolution", resolution, *named)
    lines = run(uv, "pip", "freeze", "--python", python).splitlines()
    found = {canonicalize_name(line.partition("==")[0]): line.partition("==")[2] for line in lines}
    for requirement in direct if resolution == "lowest-direct" else ():
        (bound,) = (Version(part.version) for part in requirement.specifier if part.operator in {">=", "=="})
        version = found[canonicalize_name(requirement.name)]
        if Version(version) != bound:
            sys.exit(f"{requirement} was installed as {version}: nothing was tested at {bound}")
    # Isolated and from another folder: the tree must not lend the wheel what it lacks.
    return run(python, "-I", "-W", "error", Path(__file__), "--smoke", *extras, cwd=folder).strip()


# In an environment of the wheel


def program(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the installed program `freight-exchange`, without a terminal."""
    return subprocess.run(
        [Path(sys.executable).parent / "freight-exchange", *arguments],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, env={**os.environ, **environment}, check=False,
    )  # fmt: skip


async def list_currencies(exchange: Any) -> None:
    async with exchange:
        assert await exchange.currencies.list()


def list_and_offer(libraries: list[str]) -> None:
    """Check that the program serves a sandbox, lists its requests, and offers on one; list over HTTP libraries."""
    import anyio

    from freight_exchange import FreightExchange

    command = [
        str(Path(sys.executable).parent / "freight-exchange"),
        "sandbox",
        "--port",
        "0",
        "--requests",
        "1",
        "--json",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as sandbox:
        try:
            assert sandbox.stdout is not None
            url = json.loads(sandbox.stdout.readline())["url"]
            names = {"URL": url, "EMAIL": "forwarder@demo.example", "PASSWORD": "forwarder"}
            account = {f"FREIGHT_EXCHANGE_{name}": value for name, value in names.items()}
            for arguments in (
                ("requests", "list", "--json"),
                ("bids", "submit", "1", "--amount", "12", "--currency", "USD", "--yes", "--json"),
            ):
                done = program(*arguments, **account)
                if done.returncode or done.stderr or json.loads(done.stdout)["index"] != 1:
                    sys.exit(f"freight-exchange {' '.join(arguments)}: {done.stdout}{done.stderr}")
            for library in map(importlib.import_module, libraries):
                client = library.AsyncClient()
                exchange = FreightExchange(url, email=names["EMAIL"], password=names["PASSWORD"], http_client=client)
                anyio.run(list_currencies, exchange)
        finally:
            sandbox.terminate()


def smoke(extras: list[str]) -> None:
    import anyio

    import freight_exchange
    from freight_exchange.testing import Sandbox

    for name in freight_exchange.__all__:
        getattr(freight_exchange, name)
    anyio.run(list_currencies, Sandbox().client())
    done = program("--help")
    if "cli" in extras:
        if done.returncode or done.stderr or not done.stdout.startswith("Usage: freight-exchange"):
            sys.exit(f"freight-exchange --help: {done.stdout}{done.stderr}")
        list_and_offer(["httpx", *(extra for extra in extras if extra == "httpx2")])
    elif done.returncode != 2 or "pip install" not in done.stderr:
        sys.exit(f"without its extra the program does not say what to install: {done.stdout}{done.stderr}")
    print(f"freight-exchange {importlib.metadata.version('freight-exchange')} on Python {sys.version.split()[0]}")


def main() -> int:
    if sys.argv[1:2] == ["--smoke"]:
        smoke(sys.argv[2:])
        return 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        wheel = build(folder)
        print(f"built {wheel.name}")
        for name, resolution, steps in ENVIRONMENTS:
            run(Path(sys.executable).parent / "uv", "venv", "--quiet", "--python", sys.executable, folder / name)
            for extras in steps:
                result = try_extras(wheel, folder / name, resolution, extras)
                print(f"{name}, {' '.join(extras) or 'no extras'}: {result}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
