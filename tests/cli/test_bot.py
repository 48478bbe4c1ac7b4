"""Tests of `bot`, `explain` and `store`: a bot's file or database, also beside the bot that runs with it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.cli.harness import Result, Shell, finish, start, wait_until
from tests.store.conftest import address, server

from freight_exchange import Bot
from freight_exchange.cli.run import Status
from freight_exchange.store import Store
from freight_exchange.testing import FAULTS, Profile, Sandbox, virtual_time_options

__all__ = ["address", "server"]

MODULE = """
from datetime import timedelta
from freight_exchange import Bot

second = timedelta(seconds=1)
bot = Bot(store="bot.db", start="backfill", interval=second, settle=0 * second, selection_interval=60 * second)


@bot.on_new
async def quote(request, ctx):
    await ctx.offer(amount="1840.50", currency="USD")


@bot.on_new(retries=0)
async def tell(request, ctx):
    raise ValueError("no \\x1b[31mmail")
"""
ELSEWHERE = "http://127.0.0.1:9/api"
SECRET = "s3cret-Pa55"
NO_BOT = "has no Bot named {!r}, and no function of that name that makes one"
NO_TARGET = "give MODULE:BOT, such as my_bot:bot, not {!r}"


def run_virtually(sandbox: Sandbox, *, shipper: bool = False) -> None:
    """Run a bot for an hour of virtual time: it offers 1840.50, or approves as the shipper, and a handler fails."""
    store = Store("bot.db", inline=True)
    bot = Bot(store=store, start="backfill", interval=timedelta(minutes=10), settle=timedelta(0))

    async def award(offer: Any, ctx: Any) -> None:
        await ctx.approve(offer)

    async def quote(request: Any, ctx: Any) -> None:
        await ctx.offer(amount="1840.50", currency="USD")

    async def tell(request: Any, ctx: Any) -> None:
        raise ValueError("no \x1b[31mmail")

    if shipper:
        bot.on_offer(id="award")(award)
    else:
        bot.on_new(id="quote")(quote)
        bot.on_new(id="tell", retries=0)(tell)

    async def main() -> None:
        async with sandbox.running(bot, account=sandbox.shipper if shipper else sandbox.forwarder):
            await anyio.sleep(3600)

    anyio.run(main, backend="asyncio", backend_options=virtual_time_options("asyncio"))


def in_doubt() -> Sandbox:
    """Return a sandbox that loses a reply. It rounds prices: the one that is there may be the bot's, or not."""
    sandbox = Sandbox(Profile(amount_rounding="whole"))
    sandbox.strike(*FAULTS["reset_after_processing"](path="quote/submitoffer"))
    sandbox.publish()
    return sandbox


@pytest.fixture
def bot_shell(shell: Shell) -> Shell:
    """Return a shell and the file of a bot with one request, one offer and one dead letter."""
    sandbox = Sandbox()
    sandbox.publish()
    run_virtually(sandbox)
    shell.set("FREIGHT_EXCHANGE_STORE", "bot.db")
    return shell


@contextmanager
def running_bot(*options: str, store: str = "bot.db") -> Iterator[subprocess.Popen[str]]:
    Path("my_bot.py").write_text(MODULE.replace("bot.db", store))
    with start("bot", "run", "my_bot:bot", *options) as process:
        try:
            yield process
        finally:
            process.kill()


def test_status_and_explanation_of_a_request(bot_shell: Shell) -> None:
    status = bot_shell("bot", "status").out
    for line in (
        "held by        no process: the bot is not running",
        "deliveries     0 ready, 0 claimed, 1 done, 1 dead",
        "offers         1 made, 0 refused, 0 in doubt",
    ):
        assert f"{line}\n" in status
    check = bot_shell("bot", "status", "--check", "--json")
    assert (check.status, check.objects[0]["deliveries"]["dead"]) == (Status.UNAVAILABLE, 1)
    assert check.err == 'Error: the bot "bot" needs attention: it is not running; 1 dead\n'
    explanation = bot_shell("explain", "1").out
    assert explanation.startswith("Request 1 was handed out and acknowledged")
    assert "The handler tell failed for the last time, with ValueError: no \\x1b[31mmail (new).\n" in explanation
    assert "The offer of 1840.50 (currency 840), revision 0, is confirmed.\n" in explanation
    (report,) = bot_shell("explain", "1", "--json").objects
    assert (report["verdict"], report["offers"][0]["state"]) == ("handed-out", "confirmed")
    assert bot_shell("explain", "2").out.startswith("Request 2 was in no scan")


@pytest.mark.parametrize(
    ("command", "key", "done"),
    [
        ("replay", "replayed", "The bot delivers 1 dead letter again: within seconds, if it runs.\n"),
        ("drop", "dropped", "Discarded 1 dead letter.\n"),
    ],
)
def test_dead_letter_is_replayed_or_dropped(bot_shell: Shell, command: str, key: str, done: str) -> None:
    (letter,) = bot_shell("bot", "dead", "list", "--json").objects
    assert (letter["handler"], letter["request"]) == ("tell", 1)
    (row,) = bot_shell("bot", "dead", "list").rows
    assert row["SINCE"].endswith(" UTC")
    assert "no \\x1b[31mmail" in row["ERROR"]
    change = ("bot", "dead", command, str(letter["event"]), "tell")
    unconfirmed = bot_shell(*change)
    assert unconfirmed.status == Status.USAGE
    assert unconfirmed.err.endswith("give --yes to confirm; nothing was changed\n")
    declined = bot_shell(*change, typed="n\n")
    assert (declined.status, declined.err.endswith("Error: nothing was changed\n")) == (Status.USAGE, True)
    assert bot_shell(*change, typed="y\n").out == done
    assert bot_shell("bot", "dead", "list").err == "There are no dead letters.\n"
    again = bot_shell(*change, "--yes")
    assert again.status == Status.NOT_FOUND
    assert f"there is no dead letter of event {letter['event']} and handler tell: see `bot dead list`" in again.err
    assert bot_shell("bot", "dead", command, "--all", "--json", "--yes").objects == [{key: 0}]


def test_file_is_read_and_changed_beside_its_bot(shell: Shell) -> None:
    request = shell.publish()
    shell.set("FREIGHT_EXCHANGE_STORE", "bot.db")
    with running_bot() as process:
        wait_until(lambda: shell("bot", "dead", "list", "--json").out and shell.exchange.audit_log.offers_on(request))
        assert "held by        process" in shell("bot", "status").out
        wait_until(lambda: shell("bot", "status", "--check").err.endswith("needs attention: 1 dead\n"))
        late = shell("bot", "status", "--check", "0.0001")
        assert (late.status, "covered until 20" in late.err) == (Status.UNAVAILABLE, True)
        (letter,) = shell("bot", "dead", "list", "--json").objects
        assert shell("bot", "dead", "drop", str(letter["event"]), "tell", "--yes").out == "Discarded 1 dead letter.\n"
        assert shell("bot", "status", "--check", "30") == Result(0, "", "")
        assert shell("bot", "backup", "copy.db").out == "Copied bot.db to copy.db.\n"
        process.kill()
        process.wait()
    # A killed bot and a copy leave the row of the process behind, but no lock.
    for file in ("bot.db", "copy.db"):
        assert shell("bot", "status", "--check", "--store", file).err.endswith("needs attention: it is not running\n")
        status = shell("bot", "status", "--store", file).out
        assert "held by        no process: the bot is not running\n" in status
        assert "1 made" in status
    again = shell("bot", "backup", "copy.db")
    assert (again.status, "copy.db exists: give a new file" in again.err) == (Status.STORE, True)


def test_doubt_is_resolved(shell: Shell) -> None:
    run_virtually(in_doubt())
    shell.set("FREIGHT_EXCHANGE_STORE", "bot.db")
    assert [doubt["parked"] for doubt in shell("bot", "doubts", "list", "--json").objects] == [True]
    assert "1840.50" in shell("bot", "doubts", "list").out
    assert "parked         1: a person has to decide\n" in shell("bot", "status").out
    resolve = ("bot", "doubts", "resolve", "1")
    assert "give --taken or --not-taken" in shell(*resolve, "--yes").err
    resolved = shell(*resolve, "--taken", typed="y\n")
    assert "The offer on request 1 is there, and it counts as made? [y/N]:" in resolved.err
    assert resolved.out == "Noted: it counts as made.\n"
    assert shell("bot", "doubts", "list").err == "There are no offers in doubt.\n"
    again = shell(*resolve, "--taken", "--yes")
    assert again.status == Status.NOT_FOUND
    assert "is not in doubt, nor was it refused" in again.err


def test_approval_in_doubt_is_shown_and_resolved(shell: Shell) -> None:
    sandbox = Sandbox()
    request = sandbox.publish()
    sandbox.exchange.offer(sandbox.forwarder, request, sandbox.now(), amount=900)
    lost = FAULTS["reset_after_send"](path="quote/approveoffer")
    sandbox.strike(*lost, *FAULTS["unavailable"](path="quote/offer", times=None, skip=1))
    run_virtually(sandbox, shipper=True)
    shell.set("FREIGHT_EXCHANGE_STORE", "bot.db")
    (doubt,) = shell("bot", "doubts", "list", "--json").objects
    assert (doubt["kind"], doubt["offer"], doubt["amount"]) == ("approval", 5001, "900")
    assert "answers        0 carried out, 0 refused" in shell("bot", "status").out
    explanation = shell("explain", "1").out
    assert "The handler award will be called again, after " in explanation
    assert "The approval of offer 5001 of 900 (currency 840), by award, is" in explanation
    resolve = ("bot", "doubts", "resolve", "1", "--offer", "5001")
    resolved = shell(*resolve, "--not-taken", typed="y\n")
    assert "The answer to offer 5001 on request 1 is not there, and its handler makes it again" in resolved.err
    assert resolved.out == "Noted: its handler makes it again, if the bot still has that handler.\n"
    assert shell("bot", "doubts", "list").out == ""


def test_fleet_is_moved_to_a_database_and_managed_there(shell: Shell, address: str) -> None:
    sandbox = in_doubt()
    run_virtually(sandbox)
    sandbox.machine.suspend(7 * 24 * 3600)
    run_virtually(sandbox)
    nothing = shell("bot", "status", "--store", address)
    assert (nothing.status, "has no store of this version yet" in nothing.err) == (Status.STORE, True)
    assert shell("store", "copy", "bot.db", address, "--yes").out.startswith("Copied and verified: 1 binding")
    moved = shell("bot", "dead", "drop", "--all", "--yes", "--store", "bot.db")
    assert (moved.status, "was moved into the database" in moved.err) == (Status.STORE, True)
    shell.set("FREIGHT_EXCHANGE_STORE", address)
    assert shell("bot", "status", "--check").err.endswith("; 1 parked; 1 dead; 1 gap\n")
    assert shell("bot", "gaps", "ack", "--yes").out == "1 gap acknowledged.\n"
    assert shell("bot", "gaps", "ack", "--yes", "--json").objects == [{"acknowledged": 0}]
    assert shell("bot", "gaps", "list").err == "There are no gaps.\n"
    assert shell("bot", "doubts", "resolve", "1", "--taken", "--yes").out == "Noted: it counts as made.\n"
    assert shell("bot", "dead", "drop", "--all", "--yes", "--json").objects == [{"dropped": 1}]
    (report,) = shell("explain", "1", "--json").objects
    assert [offer["state"] for offer in report["offers"]] == ["confirmed"]
    again = shell("store", "copy", "bot.db", address, "--yes")
    assert (again.status, "has another bot" in again.err) == (Status.STORE, True)


@pytest.mark.parametrize("kind", ["store", "database"])
def test_store_without_a_bot_is_called_what_it_is(shell: Shell, kind: str, request: pytest.FixtureRequest) -> None:
    """Fault 48: a bot whose login was refused leaves a store without itself."""
    place = str(Path("bot.db").resolve()) if kind == "store" else request.getfixturevalue("address")

    async def make() -> None:
        async with Store(place):
            pass

    anyio.run(make)
    for command in (("bot", "status"), ("bot", "status", "--check"), ("explain", "1")):
        result = shell(*command, "--store", place)
        assert result.status == Status.CONFIGURATION
        assert result.err == f"Error: the {kind} {place} has no bot: none has run with it yet\n"


def test_live_replica_is_shown_and_changed_beside_it(shell: Shell, address: str) -> None:
    shell.publish()
    shell.set("FREIGHT_EXCHANGE_STORE", address)
    with running_bot(store=address) as process:
        wait_until(lambda: shell("bot", "dead", "list", "--json").out)
        (report,) = shell("bot", "status", "--json").objects
        assert report["holder"].startswith("process")
        assert [one.split()[:2] for one in report["replicas"]] == [report["holder"].split()[:2]]
        assert "replicas       process" in shell("bot", "status").out
        assert "All commands work beside a running bot" in " ".join(shell("bot", "--help").out.split())
        assert shell("bot", "status", "--check").err.endswith("needs attention: 1 dead\n")
        assert shell("bot", "dead", "replay", "--all", "--yes").status == 0
        wait_until(lambda: shell("bot", "dead", "list", "--json").out)
        assert shell("bot", "dead", "drop", "--all", "--yes").out == "Discarded 1 dead letter.\n"
        assert shell("bot", "status", "--check").status == 0
        assert finish(process, signal.SIGTERM).status == 0
    assert "it is not running" in shell("bot", "status", "--check").err


WRONG_STORES: list[tuple[tuple[str, ...], int, str]] = [
    (("bot", "status", "--store", "none.db"), Status.STORE, "there is no store"),
    (("bot", "status"), Status.USAGE, "Missing option '--store'"),
    (("store", "copy", f"Host=h;Password={SECRET}", "postgresql://u@h/d", "--yes"), Status.USAGE, "give the path of a"),
    *(
        ((*command, *extra), Status.CONFIGURATION, "the address of the database cannot be read")
        for wrong in (f"postgresql://u:{SECRET}@h:x/d", f"Host=h;Username=u;Password={SECRET}", f"u:{SECRET}@h/d")
        for command, extra in (
            (("bot", "status", "--store", wrong), ()),
            (("requests", "watch", "--store", wrong), ()),
        )
    ),
    (("bot", "status", "--store", "postgresql://u@127.0.0.1:1/d"), Status.TRY_LATER, "cannot be reached"),
]


@pytest.mark.parametrize(("words", "status", "reason"), WRONG_STORES)
def test_wrong_store_is_refused_without_its_password(
    shell: Shell, words: tuple[str, ...], status: int, reason: str
) -> None:
    refused = shell(*words)
    assert (refused.status, refused.out) == (status, "")
    assert refused.err.count(reason) == 1
    assert SECRET not in refused.err
    assert not list(Path.cwd().glob("*.db*"))


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("nowhere.at.all:bot", "there is no module 'nowhere.at.all' here"),
        ("json:JSONDecoder", NO_BOT.format("JSONDecoder")),
        ("gc:collect", NO_BOT.format("collect")),
        ("anyio:sleep_forever", NO_BOT.format("sleep_forever")),
        *((target, NO_TARGET.format(target)) for target in ("json", ".my_bot:bot", "..:bot")),
    ],
)
def test_unknown_bot_is_a_usage_error(shell: Shell, target: str, message: str) -> None:
    result = shell("bot", "run", target)
    assert (result.status, message in result.err) == (Status.USAGE, True)


@pytest.fixture
def run_bot(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Any, list[Bot]]]:
    """Return a function that writes a module, and calls `bot run` with a `Bot.run` that only notes its bot."""
    bots: list[Bot] = []
    monkeypatch.setattr(Bot, "run", lambda bot, backend: bots.append(bot))
    shell.set("FREIGHT_EXCHANGE_ADDRESSES", "")  # the command changes the environment
    number = iter(range(100))

    def run(source: str, *options: str, name: str = "bot") -> tuple[Any, list[Bot]]:
        module = f"{Path.cwd().name.replace('-', '_')}_{next(number)}"
        Path(f"{module}.py").write_text(f"from freight_exchange import Bot, FreightExchange\n{source}\n")
        bots.clear()
        return shell(*options, "bot", "run", f"{module}:{name}"), bots

    return run


def test_failed_import_within_module_is_raised(run_bot: Callable[..., Any]) -> None:
    with pytest.raises(ModuleNotFoundError, match="something_that_is_not_installed"):
        run_bot("import something_that_is_not_installed")


def test_module_that_runs_its_bot_on_import_is_refused(shell: Shell) -> None:
    Path("bot_that_runs.py").write_text("from freight_exchange import Bot\nbot = Bot(store=None)\nbot.run()\n")
    result = shell("bot", "run", "bot_that_runs:bot")
    assert result.status == Status.CONFIGURATION
    assert "module bot_that_runs runs its bot while it is imported: move its bot.run() under `if __name__" in result.err


def test_bot_takes_service_and_conventions_from_options(shell: Shell, run_bot: Callable[..., Any]) -> None:
    assert run_bot("def make_bot(store=None):\n    return Bot(store=store)", name="make_bot")[1]
    assert os.environ["FREIGHT_EXCHANGE_TRUST_ENV"] == "1"
    shell.set("FREIGHT_EXCHANGE_TRUST_ENV", "0")
    shell.set("FREIGHT_EXCHANGE_URL", ELSEWHERE)
    options = ("--url", f"{shell.url}/", "--email", "shipper@demo.example", "--addresses", "submit=quote/bid")
    _, (bot,) = run_bot("bot = Bot(FreightExchange(), store=None)", *options)
    assert bot._exchange._base_url == shell.url
    assert anyio.run(bot._exchange._account) == "shipper@demo.example"
    assert os.environ["FREIGHT_EXCHANGE_TRUST_ENV"] == "0"
    assert os.environ["FREIGHT_EXCHANGE_ADDRESSES"] == "submit=quote/bid"
    other = f"import os\nos.environ['FREIGHT_EXCHANGE_URL'] = {ELSEWHERE!r}\nbot = Bot(store=None)"
    assert run_bot(other, "--url", shell.url)[1]
    assert os.environ["FREIGHT_EXCHANGE_URL"] == shell.url


@pytest.mark.parametrize("credentials", ["email='mine@demo.example', password='x'", "credentials=mine"])
def test_bot_whose_client_contradicts_options_does_not_run(
    shell: Shell, run_bot: Callable[..., Any], credentials: str
) -> None:
    mine = "async def mine():\n    return 'mine@demo.example', 'x'\n"
    source = f"{mine}bot = Bot(FreightExchange({ELSEWHERE!r}, {credentials}), store=None)"
    account = "the bot's own client is for mine@demo.example, and --email is shipper@demo.example"
    for options, message in (
        (["--url", shell.url], f"the bot's own client is for {ELSEWHERE}, and --url is {shell.url}"),
        (["--email", "shipper@demo.example"], account),
        *(([name, "5"], f"bot run does not support {name}") for name in ("--timeout", "--token-file", "--proxy")),
    ):
        result, bots = run_bot(source, *options)
        assert (result.status, message in result.err, bots) == (Status.USAGE, True, [])
    # The environment contradicts too, but is only a default.
    assert run_bot(source)[1]
    for url in (ELSEWHERE, f"HTTP{ELSEWHERE.removeprefix('http')}/"):
        assert run_bot(source, "--url", url, "--email", "mine@demo.example")[1]


def test_program_exits_with_status_of_bot(shell: Shell) -> None:
    shell.set("FREIGHT_EXCHANGE_PASSWORD", "wrong")
    with running_bot("--log-format", "json") as process:
        result = finish(process)
    assert result.status == Status.LOGIN_REJECTED
    lines = [json.loads(line) for line in result.err.splitlines()]
    assert [line["level"] for line in lines].count("CRITICAL") == 1
    assert "the bot ends with status 77" in lines[-1]["message"]
