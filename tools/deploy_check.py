"""Run the files of `deploy/` without a container engine: the image's steps, the services of `compose.yaml`, the unit.

`make deploy-check` runs it. The steps run in a separate folder and virtual environment, with the files that
`.dockerignore` lets into the image. They need the network, as a build of the image does.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, Request, build_opener

import yaml

__all__ = ["context_files", "instructions", "verify_unit"]

ROOT = Path(__file__).resolve().parent.parent
DEPLOY = ROOT / "deploy"
TIMEOUT = 120.0


def instructions(text: str) -> list[tuple[str, str]]:
    """Return the instructions of a Containerfile, with continued lines joined and without comments."""
    lines = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)).splitlines()
    return [(parts[0], parts[2].strip()) for line in lines if (parts := line.partition(" "))[0]]


def context_files() -> list[Path]:
    """Return the files that `.dockerignore` lets into the image, relative to the root."""
    rules = (ROOT / ".dockerignore").read_text().split()
    assert rules[0] == "*", "everything is left out but what is named"
    allowed = [ROOT / rule.removeprefix("!") for rule in rules if rule.startswith("!")]
    found = (path for named in allowed for path in ([named] if named.is_file() else sorted(named.rglob("*"))))
    return [path.relative_to(ROOT) for path in found if path.is_file() and "__pycache__" not in path.parts]


def verify_unit(folder: Path, program: str) -> str:
    """Return the problems that `systemd-analyze verify` finds in the unit, with a program that this machine has."""
    unit = folder / "bot.service"
    text = (DEPLOY / "bot.service").read_text()
    unit.write_text(re.sub(r"^ExecStart=\S+", f"ExecStart={program}", text, flags=re.MULTILINE))
    command = ["systemd-analyze", "verify", "--man=no", str(unit)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    # Problems of other units do not count.
    problems = [line for line in done.stderr.splitlines() if "bot.service" in line]
    return "\n".join(problems) or ("" if done.returncode == 0 else done.stderr)


def build(folder: Path) -> Path:
    """Run the image's steps; return the environment's folder of programs."""
    for path in context_files():
        (folder / "source" / path.parent).mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, folder / "source" / path)
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    programs = folder / "venv" / "bin"
    for name, rest in instructions((DEPLOY / "Containerfile").read_text()):
        if name == "RUN":
            for step in rest.split("&&"):
                words = shlex.split(re.sub(r"(?<![\w/])/(?=source|wheels)", f"{folder}/", step))
                if words[0] in ("pip", "rm"):
                    print("+", " ".join(words), flush=True)
                    command = [str(programs / "pip"), "-qq", *words[1:]] if words[0] == "pip" else words
                    subprocess.run(command, check=True)
        elif name == "COPY" and not rest.startswith(("--from", ". ")):
            source, target = rest.split()
            place = folder / target.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(folder / "source" / source, place)
    return programs


def serve(folder: Path, programs: Path) -> int:
    """Run the services of `compose.yaml` until the bot has offered; return its offers."""
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    environment = {"PATH": os.pathsep.join((str(programs), os.environ["PATH"]))}
    sandbox_command = [*services["sandbox"]["command"], "--port", "0", "--json"]
    image = dict(instructions((DEPLOY / "Containerfile").read_text()))
    bot_command = [
        str(folder / "app" / "bot.py") if word == "/app/bot.py" else word for word in json.loads(image["CMD"])
    ]
    (folder / "data").mkdir()
    options: dict[str, Any] = {"cwd": folder / "data", "text": True}
    with subprocess.Popen(sandbox_command, stdout=subprocess.PIPE, env=environment, **options) as sandbox:
        try:
            assert sandbox.stdout is not None
            reported = json.loads(sandbox.stdout.readline())
            port = reported["url"].split(":")[-1].split("/")[0]
            test = [word.replace("8765", port) for word in services["sandbox"]["healthcheck"]["test"][1:]]
            subprocess.run(test, env=environment, check=True)
            url = f"http://127.0.0.1:{port}"
            settings = {**services["bot"]["environment"], "FREIGHT_EXCHANGE_URL": f"{url}/api"}
            with subprocess.Popen(bot_command, env=environment | settings, **options) as bot:
                offers = _offers(url)
                bot.send_signal(signal.SIGTERM)
                assert bot.wait(TIMEOUT) == 0, "the bot did not drain"
        finally:
            sandbox.terminate()
    return offers


def _offers(url: str) -> int:
    """Publish a request every few seconds until the bot, which answers only new ones, has offered."""
    browser = build_opener(ProxyHandler({}))
    with browser.open(f"{url}/board/catalogue") as reply:
        sample = json.dumps(json.load(reply)["samples"][0]).encode()
    ends = time.monotonic() + TIMEOUT
    while time.monotonic() < ends:
        browser.open(
            Request(f"{url}/board/requests", sample, {"Origin": url, "Content-Type": "application/json"})
        ).close()
        time.sleep(5)
        with browser.open(f"{url}/board/state?after=0") as reply:
            waiting = int(json.load(reply)["counts"]["waiting"])
        if waiting:
            return waiting
    raise TimeoutError("the bot made no offer")


def main() -> int:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        programs = build(folder)
        print("the image's steps: done")
        print(f"compose.yaml: {serve(folder, programs)} offers, and the bot drained")
        if shutil.which("systemd-analyze") is None:
            print("bot.service: not checked, there is no systemd-analyze here")
        elif problems := verify_unit(folder, str(programs / "python")):
            sys.exit(problems)
        else:
            print("bot.service: valid")
    return 0


if __name__ == "__main__":
    sys.exit(main())
