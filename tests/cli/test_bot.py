"""Tests of `bot` and `explain`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.cli.harness import Shell, finish, start, wait_until

from freight_exchange import Bot
from freight_exchange.cli.run import Status
from freight_exchange.store import SQLiteStore
from freight_exchange.testing import FAULTS, Profile, Sandbox, virtual_time_options

MODULE = """
from datetime import timedelta
from freight_exchange import Bot

bot = Bot(
    store="bot.db", start="backfill", interval=timedelta(seconds=1), settle=timedelta(0),
    selection_interval=timedelta(seconds=60),
)


@bot.on_new
async def quote(request, ctx):
    await ctx.offer(amount="1840.50", currency="USD")


@bot.on_new(retries=0)
async def tell(request, ctx):
    raise ValueError("no \\x1b[31mmail")
"""
STORE = ("--store", "bot.db")
ELSEWHERE = "http://127.0.0.1:9/api"


def run_virtually(sandbox: Sandbox) -> None:
    """Run the bot of `MODULE` for an hour of virtual time."""
    bot = Bot(store=SQLiteStore("bot.db", inline=True), start="backfill", interval=timedelta(minutes=10))

    @bot.on_new(id="quote")
    async def quote(request: Any, ctx: Any) -> None:
        await ctx.offer(amount="1840.50", currency="USD")

    @bot.on_new(id="tell", retries=0)
    async def tell(request: Any, ctx: Any) -> None:
        raise ValueError("no \x1b[31mmail")

    async def main() -> None:
        async with sandbox.running(bot):
            await anyio.sleep(3600)

    anyio.run(main, backend="asyncio", backend_options=virtual_time_options("asyncio"))


@pytest.fixture
def bot_shell(shell: Shell) -> Shell:
    """Return a shell and the file of a bot with one request, one offer and one dead letter."""
    sandbox = Sandbox()
    sandbox.publish()
    run_virtually(sandbox)
    return shell


@contextmanager
def running_bot(*options: str) -> Iterator[subprocess.Popen[str]]:
    Path("my_bot.py").write_text(MODULE)
    with start("bot", "run", "my_bot:bot", *options) as process:
        try:
            yield process
        finally:
            process.kill()


def test_status_and_explanation_of_a_request(bot_shell: Shell) -> None:
    bot_shell.set("FREIGHT_EXCHANGE_STORE", "bot.db")
    status = bot_shell("bot", "status").out
    assert "held by        no process: the bot is not running\n" in status
    assert "deliveries     0 ready, 0 claimed, 1 done, 1 dead\n" in status
    assert "offers         1 made, 0 refused, 0 in doubt\n" in status
    explanation = bot_shell("explain", "1").out
    assert explanation.startswith("Request 1 was handed out and acknowledged")
    assert "The handler tell failed for the last time, with ValueError: no \\x1b[31mmail (new).\n" in explanation
    assert "The offer of 1840.50 (currency 840), revision 0, is confirmed.\n" in explanation
    (report,) = bot_shell("explain", "1", "--json").objects
    assert (report["verdict"], report["offers"][0]["state"]) == ("handed-out", "confirmed")
    assert bot_shell("explain", "2").out.startswith("Request 2 was in no scan")


def test_dead_letter_is_replayed(bot_shell: Shell) -> None:
    (letter,) = bot_shell("bot", "dead", "list", *STORE, "--json").objects
    assert (letter["handler"], letter["request"]) == ("tell", 1)
    assert "no \\x1b[31mmail" in bot_shell("bot", "dead", "list", *STORE).out
    replay = ("bot", "dead", "replay", str(letter["event"]), "tell", *STORE)
    unconfirmed = bot_shell(*replay)
    assert unconfirmed.status == Status.USAGE
    assert unconfirmed.err.endswith("give --yes to confirm; nothing was changed\n")
    declined = bot_shell(*replay, typed="n\n")
    assert (declined.status, declined.err.endswith("Error: nothing was changed\n")) == (Status.USAGE, True)
    assert bot_shell(*replay, typed="y\n").out == "The bot delivers 1 dead letter again, as soon as it runs.\n"
    assert bot_shell("bot", "dead", "list", *STORE).err == "There are no dead letters.\n"
    again = bot_shell(*replay, "--yes")
    assert again.status == Status.NOT_FOUND
    assert f"there is no dead letter of event {letter['event']} and handler tell: see `bot dead list`" in again.err
    replay_all = bot_shell("bot", "dead", "replay", "--all", *STORE, "--json", "--yes")
    assert (replay_all.status, replay_all.objects) == (0, [{"replayed": 0}])


def test_file_of_running_bot_can_be_read_and_not_changed(shell: Shell) -> None:
    request = shell.publish()
    with running_bot() as process:
        letters = ("bot", "dead", "list", *STORE, "--json")
        wait_until(lambda: shell(*letters).out and shell.exchange.audit_log.offers_on(request))
        assert "held by        process" in shell("bot", "status", *STORE).out
        replay = shell("bot", "dead", "replay", "--all", *STORE, "--yes")
        assert replay.status == Status.TRY_LATER
        assert f"is held by process {process.pid}" in replay.err
        assert "stop that one first" in replay.err
        assert finish(process, signal.SIGINT).status == 0


def test_doubt_is_resolved(shell: Shell) -> None:
    # A service that rounds shows a price that may be the offer's, or not: a person has to decide.
    sandbox = Sandbox(Profile(amount_rounding="whole"))
    sandbox.strike(*FAULTS["reset_after_processing"](path="quote/submitoffer"))
    sandbox.publish()
    run_virtually(sandbox)
    doubts = ("bot", "doubts", "list", *STORE)
    assert [doubt["parked"] for doubt in shell(*doubts, "--json").objects] == [True]
    assert "1840.50" in shell(*doubts).out
    assert "parked         1: a person has to decide\n" in shell("bot", "status", *STORE).out
    resolve = ("bot", "doubts", "resolve", "1", *STORE)
    assert "give --taken or --not-taken" in shell(*resolve, "--yes").err
    resolved = shell(*resolve, "--taken", typed="y\n")
    assert "The offer on request 1 is there, and it counts as made? [y/N]:" in resolved.err
    assert resolved.out == "Noted: it counts as made.\n"
    assert shell(*doubts).err == "There are no offers in doubt.\n"
    again = shell(*resolve, "--taken", "--yes")
    assert again.status == Status.NOT_FOUND
    assert "is not in doubt, nor was it refused" in again.err


def test_gaps_are_listed_and_acknowledged(bot_shell: Shell) -> None:
    assert bot_shell("bot", "gaps", "list", *STORE).err == "There are no gaps.\n"
    assert bot_shell("bot", "gaps", "ack", *STORE, "--yes").out == "There are no gaps.\n"
    assert bot_shell("bot", "gaps", "ack", *STORE, "--yes", "--json").objects == [{"acknowledged": 0}]


def test_missing_file_is_reported_and_not_created(shell: Shell) -> None:
    result = shell("bot", "status", *STORE)
    assert result.status == Status.STORE
    assert "there is no store" in result.err
    assert not Path("bot.db").exists()
    assert shell("bot", "status").status == Status.USAGE


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("nowhere:bot", "there is no module 'nowhere' here"),
        ("nowhere.at.all:bot", "there is no module 'nowhere.at.all' here"),
        ("json:JSONDecoder", "json has no Bot named 'JSONDecoder', and no function of that name that makes one"),
        ("json:detect_encoding", "json:detect_encoding cannot make the bot: it is called without arguments: missing a"),
        ("gc:collect", "gc has no Bot named 'collect', and no function of that name that makes one"),
        ("anyio:sleep_forever", "anyio has no Bot named 'sleep_forever', and no function of that name that makes one"),
        ("json", "give MODULE:BOT, such as my_bot:bot, not 'json'"),
        (".my_bot:bot", "give MODULE:BOT, such as my_bot:bot, not '.my_bot:bot'"),
        ("..:bot", "give MODULE:BOT, such as my_bot:bot, not '..:bot'"),
    ],
)
def test_unknown_bot_is_a_usage_error(shell: Shell, target: str, message: str) -> None:
    result = shell("bot", "run", target)
    assert result.status == Status.USAGE
    assert message in result.err


def test_failed_import_within_module_is_raised(shell: Shell) -> None:
    Path("lacking_bot.py").write_text("import something_that_is_not_installed\n")
    with pytest.raises(ModuleNotFoundError, match="something_that_is_not_installed"):
        shell("bot", "run", "lacking_bot:bot")


@pytest.fixture
def run_bots(monkeypatch: pytest.MonkeyPatch) -> list[Bot]:
    """Return the bots whose `run` is called, which does nothing here."""
    bots: list[Bot] = []
    monkeypatch.setattr(Bot, "run", lambda bot, backend: bots.append(bot))
    return bots


def test_factory_makes_the_bot(shell: Shell, run_bots: list[Bot]) -> None:
    Path("factory_of_a_bot.py").write_text(
        "from freight_exchange import Bot\ndef make_bot(store=None):\n    return Bot(store=store)\n"
    )
    assert shell("bot", "run", "factory_of_a_bot:make_bot").status == 0
    assert len(run_bots) == 1


def test_module_that_runs_its_bot_on_import_is_refused(shell: Shell) -> None:
    Path("bot_that_runs.py").write_text("from freight_exchange import Bot\nbot = Bot(store=None)\nbot.run()\n")
    result = shell("bot", "run", "bot_that_runs:bot")
    assert result.status == Status.CONFIGURATION
    assert "module bot_that_runs runs its bot while it is imported: move its bot.run() under `if __name__" in result.err


def test_client_that_module_creates_uses_options(shell: Shell, run_bots: list[Bot]) -> None:
    Path("client_of_the_environment.py").write_text(
        "from freight_exchange import Bot, FreightExchange\nbot = Bot(FreightExchange(), store=None)\n"
    )
    shell.set("FREIGHT_EXCHANGE_URL", ELSEWHERE)
    shell.set("FREIGHT_EXCHANGE_EMAIL", "unknown@demo.example")
    options = ("--url", f"{shell.url}/", "--email", "shipper@demo.example")
    assert shell(*options, "bot", "run", "client_of_the_environment:bot").status == 0
    (client,) = [bot._exchange for bot in run_bots]
    assert client is not None
    assert client._base_url == shell.url
    assert anyio.run(client._account) == "shipper@demo.example"


def test_bot_takes_proxies_and_conventions_from_environment_and_options(shell: Shell, run_bots: list[Bot]) -> None:
    Path("bot_without_a_client.py").write_text("from freight_exchange import Bot\nbot = Bot(store=None)\n")
    shell.set("FREIGHT_EXCHANGE_ADDRESSES", "")
    assert shell("--addresses", "submit=quote/bid", "bot", "run", "bot_without_a_client:bot").status == 0
    assert os.environ["FREIGHT_EXCHANGE_TRUST_ENV"] == "1"
    assert os.environ["FREIGHT_EXCHANGE_ADDRESSES"] == "submit=quote/bid"
    shell.set("FREIGHT_EXCHANGE_TRUST_ENV", "0")
    assert shell("bot", "run", "bot_without_a_client:bot").status == 0
    assert os.environ["FREIGHT_EXCHANGE_TRUST_ENV"] == "0"


def test_options_override_environment_that_module_changes(shell: Shell, run_bots: list[Bot]) -> None:
    Path("environment_of_its_own.py").write_text(
        f"import os\nfrom freight_exchange import Bot\nos.environ['FREIGHT_EXCHANGE_URL'] = {ELSEWHERE!r}\n"
        "bot = Bot(store=None)\n"
    )
    assert shell("--url", shell.url, "bot", "run", "environment_of_its_own:bot").status == 0
    assert os.environ["FREIGHT_EXCHANGE_URL"] == shell.url
    assert len(run_bots) == 1


@pytest.mark.parametrize("credentials", ["email='mine@demo.example', password='x'", "credentials=mine"])
def test_bot_whose_client_contradicts_options_does_not_run(shell: Shell, run_bots: list[Bot], credentials: str) -> None:
    module = f"client_of_its_own_{len(credentials)}"
    Path(f"{module}.py").write_text(
        "from freight_exchange import Bot, FreightExchange\n"
        "async def mine():\n    return 'mine@demo.example', 'x'\n"
        f"bot = Bot(FreightExchange({ELSEWHERE!r}, {credentials}), store=None)\n"
    )
    for options, message in (
        (["--url", shell.url], f"the bot's own client is for {ELSEWHERE}, and --url is {shell.url}"),
        (
            ["--email", "shipper@demo.example"],
            "the bot's own client is for the account mine@demo.example, and --email is shipper@demo.example",
        ),
        (["--timeout", "5"], "bot run does not support --timeout"),
        (["--token-file", "login.json"], "bot run does not support --token-file"),
        (["--proxy", "http://proxy.example"], "bot run does not support --proxy"),
        (["--ca-file", "company.pem"], "bot run does not support --ca-file"),
    ):
        result = shell(*options, "bot", "run", f"{module}:bot")
        assert result.status == Status.USAGE
        assert message in result.err
    assert run_bots == []
    # The environment contradicts too, but is only a default.
    assert shell("bot", "run", f"{module}:bot").status == 0
    assert shell("--url", ELSEWHERE, "--email", "mine@demo.example", "bot", "run", f"{module}:bot").status == 0
    assert len(run_bots) == 2


def test_program_exits_with_status_of_bot(shell: Shell) -> None:
    shell.set("FREIGHT_EXCHANGE_PASSWORD", "wrong")
    with running_bot("--log-format", "json") as process:
        result = finish(process)
    assert result.status == Status.LOGIN_REJECTED
    lines = [json.loads(line) for line in result.err.splitlines()]
    assert [line["level"] for line in lines].count("CRITICAL") == 1
    assert "the bot ends with status 77" in lines[-1]["message"]
    assert lines[-1]["level"] == "CRITICAL"


def test_approval_in_doubt_is_shown_and_resolved(shell: Shell) -> None:
    sandbox = Sandbox()
    request = sandbox.publish()
    sandbox.exchange.offer(sandbox.forwarder, request, sandbox.now(), amount=900)
    lost = FAULTS["reset_after_send"](path="quote/approveoffer")
    sandbox.strike(*lost, *FAULTS["unavailable"](path="quote/offer", times=None, skip=1))
    bot = Bot(store=SQLiteStore("bot.db", inline=True), interval=timedelta(minutes=10), settle=timedelta(0))

    @bot.on_offer(id="award")
    async def award(offer: Any, ctx: Any) -> None:
        await ctx.approve(offer)

    async def main() -> None:
        async with sandbox.running(bot, account=sandbox.shipper):
            await anyio.sleep(900)

    anyio.run(main, backend="asyncio", backend_options=virtual_time_options("asyncio"))
    (doubt,) = shell("bot", "doubts", "list", *STORE, "--json").objects
    assert (doubt["kind"], doubt["offer"], doubt["amount"], doubt["parked"]) == ("approval", 5001, "900", True)
    status = shell("bot", "status", *STORE).out
    assert "answers        0 carried out, 0 refused, 1 in doubt\n" in status
    assert "parked         1: a person has to decide\n" in status
    assert (
        "The approval of offer 5001 of 900 (currency 840), by award, is unknown.\n" in shell("explain", "1", *STORE).out
    )
    resolve = ("bot", "doubts", "resolve", "1", "--offer", "5001", *STORE)
    resolved = shell(*resolve, "--not-taken", typed="y\n")
    assert "The answer to offer 5001 on request 1 is not there, and it may be made again?" in resolved.err
    assert resolved.out == "Noted: its handler makes it again, if the bot still has that handler.\n"
    assert shell("bot", "doubts", "list", *STORE).out == ""
    assert shell(*resolve, "--taken", "--yes").status == Status.NOT_FOUND
