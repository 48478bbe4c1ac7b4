"""`bot` and `explain`: run a bot, and look after its file."""

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
from tests.unit.cli.rig import COMMAND, PATIENCE, Shell, until

from freight_exchange import Bot
from freight_exchange.cli.exit_status import Status
from freight_exchange.store import SQLiteStore
from freight_exchange.testing import FAULTS, Profile, Sandbox
from freight_exchange.testing.virtual_time import virtual_time_options

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


@pytest.fixture
def ran(shell: Shell) -> Shell:
    """A shell beside the file of a bot that has run: one request, one offer, one dead letter."""
    sandbox = Sandbox()
    sandbox.publish()
    run_virtually(sandbox)
    return shell


def run_virtually(sandbox: Sandbox) -> None:
    """Run the same bot for an hour that passes at once."""
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


@contextmanager
def started() -> Iterator[subprocess.Popen[str]]:
    """The bot as a process, which does not outlive a test that fails."""
    with subprocess.Popen([*COMMAND, "bot", "run", "my_bot:bot"], stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def objects(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def test_the_status_and_what_became_of_a_request(ran: Shell) -> None:
    ran.set("FREIGHT_EXCHANGE_STORE", "bot.db")
    done = ran("bot", "status")
    assert "held by        nobody: it does not run\n" in done.out
    assert "deliveries     0 ready, 0 claimed, 1 done, 1 dead\n" in done.out
    assert "offers         1 taken, 0 refused, 0 in doubt\n" in done.out
    told = ran("explain", "1")
    assert told.out.startswith("Request 1 was handed out and acknowledged")
    assert "The handler tell failed for the last time, by ValueError: no \\x1b[31mmail (new).\n" in told.out
    assert "The offer of 1840.50, revision 0, is confirmed.\n" in told.out
    (explained,) = objects(ran("explain", "1", "--json").out)
    assert (explained["verdict"], explained["offers"][0]["state"]) == ("handed-out", "confirmed")
    assert "is no" not in ran("explain", "2").out
    assert ran("explain", "2").out.startswith("Request 2 was in no scan")


def test_a_dead_letter_is_replayed(ran: Shell) -> None:
    (letter,) = objects(ran("bot", "dead", "list", "--store", "bot.db", "--json").out)
    assert (letter["handler"], letter["request"]) == ("tell", 1)
    assert "no \\x1b[31mmail" in ran("bot", "dead", "list", "--store", "bot.db").out
    arguments = ("bot", "dead", "replay", str(letter["event"]), "tell", "--store", "bot.db")
    unasked = ran(*arguments)
    assert (unasked.status, unasked.err.endswith("give --yes if it is to be changed; nothing was changed\n")) == (
        2,
        True,
    )
    declined = ran(*arguments, typed="n\n")
    assert (declined.status, declined.err.endswith("Error: nothing was changed\n")) == (Status.USAGE, True)
    done = ran(*arguments, typed="y\n")
    assert done.out == "1 will be tried again by the next run of the bot.\n"
    assert ran("bot", "dead", "list", "--store", "bot.db").err == "There are no dead letters.\n"
    again = ran(*arguments, "--yes")
    assert (again.status, again.err) == (Status.NOT_FOUND, "Error: there is no such dead letter\n")
    every = ran("bot", "dead", "replay", "--all", "--store", "bot.db", "--json", "--yes")
    assert (every.status, objects(every.out)) == (0, [{"replayed": 0}])


def test_a_bot_runs_and_beside_it_its_file_is_read_and_not_changed(shell: Shell) -> None:
    Path("my_bot.py").write_text(MODULE)
    request = shell.publish()
    letters = ("bot", "dead", "list", "--store", "bot.db", "--json")
    with started() as process:
        until(lambda: shell(*letters).out and shell.exchange.audit_log.offers_on(request))
        assert "held by        process" in shell("bot", "status", "--store", "bot.db").out
        done = shell("bot", "dead", "replay", "--all", "--store", "bot.db", "--yes")
        assert done.status == Status.TRY_LATER
        assert f"is held by process {process.pid}" in done.err
        assert "stop that one first" in done.err
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE)
    assert process.returncode == 0


def test_a_doubt_is_resolved(shell: Shell) -> None:
    # A service that rounds shows a price that may be the offer's, or not: a person has to decide.
    sandbox = Sandbox(Profile(amount_rounding="whole"))
    sandbox.strike(*FAULTS["reset_after_processing"](path="quote/submitoffer"))
    sandbox.publish()
    run_virtually(sandbox)
    doubts = ("bot", "doubts", "list", "--store", "bot.db")
    assert [doubt["parked"] for doubt in objects(shell(*doubts, "--json").out)] == [True]
    assert "1840.50" in shell(*doubts).out
    assert "parked         1: a person has to decide\n" in shell("bot", "status", "--store", "bot.db").out
    resolve = ("bot", "doubts", "resolve", "1", "--store", "bot.db")
    assert "say --taken or --not-taken" in shell(*resolve, "--yes").err
    done = shell(*resolve, "--taken", typed="y\n")
    assert "The offer on request 1 is there, and it counts as made? [y/N]:" in done.err
    assert done.out == "Noted: it counts as made.\n"
    assert shell(*doubts).err == "There are no offers in doubt.\n"
    again = shell(*resolve, "--taken", "--yes")
    assert again.status == Status.NOT_FOUND
    assert "is not in doubt, nor was it refused" in again.err


def test_gaps_are_listed_and_acknowledged(ran: Shell) -> None:
    assert ran("bot", "gaps", "list", "--store", "bot.db").err == "There are no gaps.\n"
    assert ran("bot", "gaps", "ack", "--store", "bot.db", "--yes").out == "0 acknowledged.\n"
    assert objects(ran("bot", "gaps", "ack", "--store", "bot.db", "--yes", "--json").out) == [{"acknowledged": 0}]


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        ("nowhere:bot", "there is no module 'nowhere' here"),
        ("nowhere.at.all:bot", "there is no module 'nowhere.at.all' here"),
        ("json:dumps", "json has no Bot that is called 'dumps'"),
        ("json", "give MODULE:BOT, such as my_bot:bot, not 'json'"),
        (".my_bot:bot", "give MODULE:BOT, such as my_bot:bot, not '.my_bot:bot'"),
        ("..:bot", "give MODULE:BOT, such as my_bot:bot, not '..:bot'"),
    ],
)
def test_a_bot_that_there_is_not(shell: Shell, target: str, sentence: str) -> None:
    done = shell("bot", "run", target)
    assert done.status == Status.USAGE
    assert sentence in done.err


def test_what_a_module_lacks_itself_is_its_own_trouble(shell: Shell) -> None:
    Path("lacking_bot.py").write_text("import something_that_is_not_installed\n")
    with pytest.raises(ModuleNotFoundError, match="something_that_is_not_installed"):
        shell("bot", "run", "lacking_bot:bot")


ELSEWHERE = "http://127.0.0.1:9/api"


@pytest.fixture
def ran_bots(monkeypatch: pytest.MonkeyPatch) -> list[Bot]:
    """The bots that were run, which takes no time."""
    bots: list[Bot] = []
    monkeypatch.setattr(Bot, "run", lambda bot, backend: bots.append(bot))
    return bots


def test_a_client_that_the_module_makes_is_for_whom_the_options_say(shell: Shell, ran_bots: list[Bot]) -> None:
    Path("client_of_the_environment.py").write_text(
        "from freight_exchange import Bot, FreightExchange\nbot = Bot(FreightExchange(), store=None)\n"
    )
    shell.set("FREIGHT_EXCHANGE_URL", ELSEWHERE)
    shell.set("FREIGHT_EXCHANGE_EMAIL", "nobody@demo.example")
    who = ("--url", f"{shell.url}/", "--email", "shipper@demo.example")
    assert shell(*who, "bot", "run", "client_of_the_environment:bot").status == 0
    (client,) = [bot._exchange for bot in ran_bots]
    assert client is not None
    assert client._base_url == shell.url
    assert anyio.run(client._account) == "shipper@demo.example"


def test_an_environment_that_the_module_changes_does_not_count_before_the_options(
    shell: Shell, ran_bots: list[Bot]
) -> None:
    Path("environment_of_its_own.py").write_text(
        f"import os\nfrom freight_exchange import Bot\nos.environ['FREIGHT_EXCHANGE_URL'] = {ELSEWHERE!r}\n"
        "bot = Bot(store=None)\n"
    )
    assert shell("--url", shell.url, "bot", "run", "environment_of_its_own:bot").status == 0
    assert os.environ["FREIGHT_EXCHANGE_URL"] == shell.url
    assert len(ran_bots) == 1


@pytest.mark.parametrize("credentials", ["email='mine@demo.example', password='x'", "credentials=mine"])
def test_a_bot_whose_own_client_would_go_elsewhere_is_not_run(
    shell: Shell, ran_bots: list[Bot], credentials: str
) -> None:
    module = f"client_of_its_own_{len(credentials)}"
    Path(f"{module}.py").write_text(
        "from freight_exchange import Bot, FreightExchange\n"
        "async def mine():\n    return 'mine@demo.example', 'x'\n"
        f"bot = Bot(FreightExchange({ELSEWHERE!r}, {credentials}), store=None)\n"
    )
    for options, sentence in (
        (["--url", shell.url], f"the bot's own client is for {ELSEWHERE}, and --url says {shell.url}"),
        (
            ["--email", "shipper@demo.example"],
            "the bot's own client is for the account mine@demo.example, and --email says shipper@demo.example",
        ),
        (["--timeout", "5"], "bot run has no use for --timeout"),
        (["--token-file", "login.json"], "bot run has no use for --token-file"),
    ):
        done = shell(*options, "bot", "run", f"{module}:bot")
        assert done.status == Status.USAGE
        assert sentence in done.err
    assert ran_bots == []
    # The environment is for those that have none of their own.
    assert shell("bot", "run", f"{module}:bot").status == 0
    assert shell("--url", ELSEWHERE, "--email", "mine@demo.example", "bot", "run", f"{module}:bot").status == 0
    assert len(ran_bots) == 2


def test_a_bot_exits_as_it_does_by_itself(shell: Shell) -> None:
    Path("my_bot.py").write_text(MODULE)
    shell.set("FREIGHT_EXCHANGE_PASSWORD", "wrong")
    with started() as process:
        _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == Status.LOGIN_REJECTED
    assert "the bot ends with status 77" in said


def test_a_file_that_there_is_not(shell: Shell) -> None:
    done = shell("bot", "status", "--store", "bot.db")
    assert done.status == Status.STORE
    assert "there is no store" in done.err
    assert not Path("bot.db").exists()
    assert shell("bot", "status").status == Status.USAGE
