"""Sessions of the command line against a sandbox: each command with its exit status and the start of its output.

`python benchmarks/baseline/sessions.py --save` writes `sessions.txt` beside this file. `--compare` runs the sessions
again and prints what differs. The sandbox runs behind a proxy: the first segment of a path names a
failure of the service.
Ports, times and paths are replaced. The script imports nothing of the package, so that it outlives any rebuilding.
"""

from __future__ import annotations

import argparse
import difflib
import http.client
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, NamedTuple

SAVED: Final = Path(__file__).with_name("sessions.txt")
PROGRAM: Final = Path(sys.executable).parent / "freight-exchange"
LINES: Final = 6
"""Lines of each stream that are kept."""
TIMEOUT: Final = 60.0
BOT_RUNS: Final = 8.0

TILES: Final = """commodity = "Ceramic tiles"
type = "Shipping"
origin = "Hong Kong"
destination = "Long Beach"
arrival = 2036-03-01
packaging = "pallet"
quantity = 20
length = 1.2
width = 1.0
height = 0.9
weight = 640
incoterm = "FOB"
hazardous = false
"""
IMPORTED: Final = (
    "commodity,type,origin,destination,arrival,packaging,quantity,length,width,height,weight,incoterm,hazardous\n"
    "Machine parts,Shipping,Shenzhen,Hamburg,2036-04-01,carton,12,1.2,1,0.9,80,FOB,no\n"
    "Textiles,Air Freight,Hong Kong,Frankfurt,2036-04-02,carton,9,0.6,0.5,0.4,12,FCA,no\n"
)
SAILING: Final = """origin = "Hong Kong"
destination = "Long Beach"
cy_cutoff = "2036-02-01 17:00"
cfs_cutoff = "2036-01-31 12:00"
departure = "2036-02-03 06:00"
arrival = "2036-02-19 08:00"
carrier = 1
vessel = "Ever Sandbox"
voyage_id = "017E"
timezone = "Asia/Hong_Kong"
"""
TARIFF: Final = """type,origin,destination,currency,kind,charge,unit,from,rate,minimum
Shipping,Hong Kong|Shenzhen,Long Beach,USD,freight,Ocean Freight,revenue ton,0,62.40,95.00
Shipping,Hong Kong|Shenzhen,Long Beach,USD,freight,Ocean Freight,revenue ton,10,58.00,
Shipping,*,*,USD,surcharge,Documents,shipment,,45.00,
"""
BOT: Final = """from __future__ import annotations

from datetime import timedelta

from freight_exchange import Bot

SECOND = timedelta(seconds=1)
bot = Bot(store={store!r}, start="backfill", interval=SECOND, settle=SECOND, drain=2 * SECOND, concurrency=1)


@bot.on_new(id="quote", retries=0)
async def quote(request, ctx):
    if request.index == 2:
        raise ValueError("no tariff")
    await ctx.offer(amount=1000 + request.index, currency="USD")
"""

WRITES: Final = ("submitrequest", "submitoffer", "approveoffer", "createroute", "updateroute", "quote/request", "bid")
FAILURES: Final[dict[str, Callable[[str, str], str]]] = {
    "well": lambda method, path: "",
    "busy": lambda method, path: "503",
    "throttled": lambda method, path: "429",
    "html": lambda method, path: "html",
    "refusing": lambda method, path: "400" if is_write(method, path) else "",
    "lost": lambda method, path: "lost" if is_write(method, path) else "",
    "doubtful": lambda method, path: (
        "lost" if is_write(method, path) else "503" if "bid" in path and Proxy.has_lost else ""
    ),
    "forgetful": lambda method, path: "401" if "login" not in path else "",
}
"""Failure of each call, by the first segment of the path: a status, `html`, or `lost`, a write without
its reply; after one, a doubtful service shows no bids."""


def is_write(method: str, path: str) -> bool:
    return method != "GET" and path.endswith(WRITES)


class Proxy(BaseHTTPRequestHandler):
    """Handler of the proxy, which forwards to `target` unless the path names a failure."""

    protocol_version = "HTTP/1.1"
    target: int
    has_lost = False

    def forward(self) -> None:
        name, path = self.path.lstrip("/").split("/", 1)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        failure = FAILURES[name](self.command, path.split("?")[0])
        if failure.isdigit():
            self.reply(int(failure), "application/json", b'{"message":"Not now."}')
        elif failure == "html":
            self.reply(200, "text/html", b"<html><body>Maintenance</body></html>")
        else:
            connection = http.client.HTTPConnection("127.0.0.1", self.target, timeout=30)
            headers = {key: value for key, value in self.headers.items() if key.lower() not in ("host", "connection")}
            connection.request(self.command, f"/{path}", body, headers)
            answer = connection.getresponse()
            text = answer.read()
            connection.close()
            if failure == "lost":
                self.close_connection = Proxy.has_lost = True
            else:
                self.reply(answer.status, answer.headers["Content-Type"], text)

    do_GET = do_POST = do_PUT = do_DELETE = forward  # noqa: N815  # the names are those of http.server

    def reply(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if status == 429:
            self.send_header("Retry-After", "600")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


class Session(NamedTuple):
    """One command.

    Attributes:
        command: The words after `freight-exchange`.
        account: Account in the environment; empty for none.
        service: Name of a failure, or `none` for no address.
        typed: Standard input.
    """

    command: str
    account: str = ""
    service: str = "well"
    typed: str = ""


def sessions() -> Iterator[Session]:
    """Yield the sessions in order; later ones see what earlier ones have done."""
    f, s = "forwarder", "shipper"
    for command in (
        "--help",
        "--version",
        "requests --help",
        "bot dead --help",
        "nonsense",
        "requests lst",
        "sandbox --port x",
    ):
        yield Session(command, service="none")
    yield Session("requests list", service="none")
    yield Session("whoami", service="none")
    # A saved login, which the file `token` keeps.
    yield Session("--token-file token --email forwarder@demo.example login", "password:forwarder")
    yield Session("--token-file token --email forwarder@demo.example login", "password:wrong")
    yield Session("--token-file token whoami", service="none")
    yield Session("--token-file token whoami --json", service="none")
    yield Session("--token-file token requests list --limit 2", service="none")
    yield Session("--token-file token logout", service="none")
    yield Session("--token-file token whoami", service="none")
    yield Session("--token-file token login --json", service="none", typed="forwarder\n")
    # A shipper publishes.
    yield Session("requests publish --file tiles.toml", s)
    yield Session("requests publish --file tiles.toml --yes", s)
    yield Session("requests publish --file tiles.toml --quantity 24 --type air-freight --yes --json", s)
    yield Session("requests publish --file tiles.toml --quantity many --yes", s)
    yield Session("requests publish --file tiles.toml --arrival 2020-01-01 --yes", s)
    yield Session("requests publish --commodity Tiles --yes", s)
    yield Session("requests publish --file - --yes --json", s, typed='{"commodity": null}')
    yield Session("requests import rows.csv --yes", s)
    yield Session("requests import rows.csv --yes --json", s)
    yield Session("requests import missing.csv --yes", s)
    yield Session("requests import tiles.toml --yes", s)
    # A forwarder reads and offers.
    yield Session("requests list", f)
    yield Session('requests list --origin "Hong Kong" --type shipping --max-volume 60', f)
    yield Session("requests list --json --limit 1", f)
    yield Session("requests list --csv", f)
    yield Session("requests list --not-hazardous --weight total", f)
    yield Session("requests list --max-volume big", f)
    yield Session("requests list --limit 0", f)
    yield Session("requests get 6", f)
    yield Session("requests get 6 --json", f)
    yield Session("requests get 999", f)
    yield Session("requests get six", f)
    yield Session("requests watch --start backfill --count 2", f)
    yield Session("requests watch --start backfill --count 1 --json --store watch.db", f)
    yield Session("bids list", f)
    yield Session('bids submit 6 --amount 1840.50 --currency USD --terms "valid 14 days"', f)
    yield Session('bids submit 6 --amount 1840.50 --currency USD --terms "valid 14 days" --yes', f)
    yield Session("bids submit 6 --amount 1840.50 --currency USD --yes", f)
    yield Session("bids submit 6 --amount 1840.50 --currency USD --yes --again --json", f)
    yield Session("bids submit 6 --amount 2000 --currency ZZZ --yes", f)
    yield Session("bids submit 6 --amount -5 --currency USD --yes", f)
    yield Session('bids submit 7 --amount 100 --currency USD --rate "Ocean Freight=90" --yes', f)
    yield Session("bids submit 999 --amount 100 --currency USD --yes", f)
    yield Session("bids list --json", f)
    yield Session("bids list --csv --state active", f)
    # The shipper compares and answers.
    yield Session("offers list", s)
    yield Session("offers list --json --state with-offers", s)
    yield Session("offers list --csv", s)
    yield Session("offers get 6", s)
    yield Session("offers compare 6 --to USD", s)
    yield Session("offers compare 6 --to EUR", s)
    yield Session("offers export 6", s)
    yield Session("offers watch 6 --count 1", s)
    yield Session("offers approve 5001", s)
    yield Session("offers approve 5001 --yes", s)
    yield Session("offers approve 5001 --yes", s)
    yield Session("offers decline 5002 --yes --json", s)
    yield Session("offers approve 999 --yes", s)
    yield Session("requests list", s)
    # Routes and lists.
    yield Session("carriers", f)
    yield Session("currencies --json", f)
    yield Session("currencies --csv", f)
    yield Session("routes create --file sailing.toml --yes", f)
    yield Session("routes create --file sailing.toml --timezone Mars/Base --yes", f)
    yield Session('routes list --origin "Hong Kong"', f)
    yield Session("routes list --json --limit 1", f)
    yield Session("routes get 304", f)
    yield Session("routes get 99", f)
    yield Session('routes update 304 --vessel "Ever Patient" --yes', f)
    yield Session("routes update 99 --vessel Gone --yes", f)
    # Failures of the service.
    for service in ("busy", "throttled", "html", "forgetful"):
        yield Session("--timeout 4 requests list", f, service)
    yield Session("--timeout 4 bids submit 8 --amount 70 --currency USD --yes", f, "busy")
    yield Session("--timeout 8 bids submit 8 --amount 71 --currency USD --yes", f, "lost")
    yield Session("--timeout 4 bids submit 8 --amount 72 --currency USD --yes", f, "doubtful")
    yield Session("bids submit 8 --amount 73 --currency USD --yes", f, "refusing")
    yield Session("requests list", "password:forwarder:stranger@demo.example")
    yield Session("--url http://127.0.0.1:9/api --timeout 2 requests list", f)
    yield Session("--url ftp://somewhere requests list", f)
    yield Session("--proxy nonsense requests list", f)
    yield Session("--ca-file missing.pem requests list", f)
    # Bots.
    yield Session("bot run missing:bot", f)
    yield Session("bot run quote_bot:nothing", f)
    yield Session("bot status --store missing.db", service="none")
    yield Session("bot run quote_bot:bot", f)
    yield Session("bot run doubtful_bot:bot", "rival", "doubtful")
    for store in ("bot.db", "doubtful.db"):
        for command in ("status", "dead list", "doubts list", "gaps list"):
            yield Session(f"bot {command} --store {store}", service="none")
        yield Session(f"bot status --store {store} --json", service="none")
        yield Session(f"explain 2 --store {store}", service="none")
    yield Session("bot dead list --store bot.db --json", service="none")
    yield Session("bot dead replay 99 quote --store bot.db --yes", service="none")
    yield Session("bot dead replay --all --store bot.db --yes", service="none")
    yield Session("bot doubts list --store doubtful.db --csv", service="none")
    yield Session("bot doubts resolve 6 --taken --store doubtful.db --yes", service="none")
    yield Session("bot doubts resolve 99 --taken --store doubtful.db --yes", service="none")
    yield Session("bot gaps ack --store bot.db --yes", service="none")
    yield Session("bot status --store tiles.toml", service="none")
    yield Session("tariff check tariff.csv --weight unit", service="none")
    yield Session("tariff check tiles.toml --weight unit", service="none")
    yield Session("tariff check tariff.csv --weight unit --requests --limit 2", f)


def run(session: Session, folder: Path, proxy: int) -> str:
    """Run a session, and return its record."""
    keep = ("PATH", "LANG", "HOME", "VIRTUAL_ENV")
    environment = {key: value for key, value in os.environ.items() if key in keep}
    environment |= {"COLUMNS": "160", "TZ": "UTC", "PYTHONPATH": ".", "HOME": str(folder)}
    environment["FREIGHT_EXCHANGE_TOKEN_FILE"] = f"{session.account or 'none'}-{session.service}.token".replace(
        ":", "-"
    )
    if session.service != "none":
        environment["FREIGHT_EXCHANGE_URL"] = f"http://127.0.0.1:{proxy}/{session.service}/api"
    if session.account.startswith("password:"):
        _, password, *email = session.account.split(":")
        environment |= {"FREIGHT_EXCHANGE_PASSWORD": password}
        environment |= {"FREIGHT_EXCHANGE_EMAIL": email[0]} if email else {}
        if not email and "--email" not in session.command:
            environment["FREIGHT_EXCHANGE_EMAIL"] = f"{password}@demo.example"
    elif session.account:
        environment["FREIGHT_EXCHANGE_EMAIL"] = f"{session.account}@demo.example"
        environment["FREIGHT_EXCHANGE_PASSWORD"] = session.account
    Proxy.has_lost = False
    process = subprocess.Popen(
        [PROGRAM, *shlex.split(session.command)], cwd=folder, env=environment, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    if " bot run" in f" {session.command}" and "_bot:bot" in session.command:
        threading.Timer(BOT_RUNS, process.send_signal, (signal.SIGTERM,)).start()
    try:
        out, err = process.communicate(session.typed, TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        err += "\nNOTHING CAME"
    is_bot = "_bot:bot" in session.command and process.returncode == 0
    lines = [f"$ {session.command}" + (f"   [{session.service}]" if session.service not in ("well", "none") else "")]
    lines.append(f"status {process.returncode}")
    lines += kept("|", out, folder)
    # What a bot logs depends on its timing.
    lines += [] if is_bot else kept("!", err, folder)
    return "\n".join(lines)


def kept(mark: str, text: str, folder: Path) -> Iterator[str]:
    for line in text.splitlines()[:LINES]:
        yield f"{mark} {normalised(line, folder)}".rstrip()
    if (more := len(text.splitlines()) - LINES) > 0:
        yield f"{mark} ... and {more} more lines"


def normalised(line: str, folder: Path) -> str:
    line = line.replace(str(folder), "FOLDER")[:300]
    line = re.sub(r"127\.0\.0\.1:\d{2,}", "HOST", line)
    line = re.sub(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d)?(\.\d+)?(Z|[+-]\d\d:\d\d)?)?", "DATE", line)
    line = re.sub(r"\b\d\d:\d\d(:\d\d)?\b", "TIME", line)
    line = re.sub(r"\b\d+(\.\d+)? ?(s|ms|seconds?|minutes?)\b", "N s", line)
    line = re.sub(r'"(at|since|until|seen_at|taken_at|last_scan|run|loop)": ?[\d.]+', r'"\1": N', line)
    return re.sub(r"  +", "  ", line)


def make_all(report: Callable[[str], None]) -> list[str]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, text in {
            "tiles.toml": TILES, "rows.csv": IMPORTED, "sailing.toml": SAILING, "tariff.csv": TARIFF,
            "quote_bot.py": BOT.format(store="bot.db"), "doubtful_bot.py": BOT.format(store="doubtful.db"),
        }.items():  # fmt: skip
            (folder / file).write_text(text)
        sandbox = subprocess.Popen(
            [PROGRAM, "sandbox", "--port", "0", "--json", "--requests", "5", "--seed", "1"],
            cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        try:
            assert sandbox.stdout is not None
            line = sandbox.stdout.readline()
            Proxy.target = int(re.findall(r"127\.0\.0\.1:(\d+)", line)[0])
            with ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as server:
                threading.Thread(target=server.serve_forever, daemon=True).start()
                records = []
                for session in sessions():
                    began = time.monotonic()
                    records.append(run(session, folder, server.server_port))
                    report(f"{time.monotonic() - began:5.1f} s  {records[-1].splitlines()[1]}  {session.command}")
                server.shutdown()
        finally:
            sandbox.terminate()
            sandbox.wait()
    return records


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--save", action="store_true", help=f"write {SAVED.name}")
    parser.add_argument("--compare", action="store_true", help=f"print what differs from {SAVED.name}")
    arguments = parser.parse_args()
    records = make_all(lambda line: print(line, file=sys.stderr, flush=True))
    text = "\n\n".join(records) + "\n"
    if arguments.save:
        SAVED.write_text(text)
    elif arguments.compare:
        before = SAVED.read_text().strip().split("\n\n")
        pairs = dict(zip((f"{n} {old.splitlines()[0]}" for n, old in enumerate(before)), before, strict=True))
        changed = statuses = 0
        for number, new in enumerate(records):
            old = pairs.get(f"{number} {new.splitlines()[0]}", "")
            if old != new.strip():
                changed += 1
                statuses += old.splitlines()[1:2] != new.splitlines()[1:2]
                print(
                    *difflib.unified_diff(old.splitlines(), new.splitlines(), "before", "now", n=2, lineterm=""),
                    sep="\n",
                )
        print(f"{len(records)} sessions, {changed} differ, {statuses} of them in their status")
        return int(changed > 0)
    else:
        print(text)
    print(json.dumps({"sessions": len(records)}), file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
