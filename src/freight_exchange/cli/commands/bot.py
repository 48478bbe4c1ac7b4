"""`bot`: run a bot, and look after its file."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click
from click.core import ParameterSource

from freight_exchange.bot.ops.admin import BotFile
from freight_exchange.cli.confirm import check, confirm
from freight_exchange.cli.exit_status import Status
from freight_exchange.cli.load_bot import imported
from freight_exchange.cli.options import FILE, INDEX, json_option, yes_option
from freight_exchange.cli.render.tables import Column, instant, plain, show_details, show_json, show_table, tell
from freight_exchange.cli.runner import run as run_loop
from freight_exchange.errors import ValidationError
from freight_exchange.settings import EMAIL_VARIABLE, URL_VARIABLE

if TYPE_CHECKING:
    from freight_exchange import Bot, DeadLetter, Doubt, Gap
    from freight_exchange.cli.settings import Settings

__all__ = ["bot", "file_options"]

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def file_options(command: Decorated) -> Decorated:
    """Adds what says which bot's file is meant."""
    command = click.option("--name", metavar="NAME", help="The bot's name, where the file has several.")(command)
    return click.option(
        "--store",
        required=True,
        type=FILE,
        envvar="FREIGHT_EXCHANGE_STORE",
        show_envvar=True,
        metavar="FILE",
        help="The bot's file.",
    )(command)


@click.group
def bot() -> None:
    """Run a bot, and look after its file.

    The file can be read at any time. To change what is in it, stop the bot: it holds its file while it runs.
    """


@bot.command
@click.argument("target", metavar="MODULE:BOT")
@click.option("--backend", type=click.Choice(["asyncio", "trio"]), default="asyncio", show_default=True)
@click.pass_obj
def run(settings: Settings, /, target: str, backend: Literal["asyncio", "trio"]) -> None:
    """Run the bot that is called BOT in MODULE.

    Ctrl-C or SIGTERM drain it. The module is looked for in the current directory too. The bot takes the service and
    the account from the environment or the options before the command, and the password from the environment: it has
    to log in for months. One whose own client has another URL or account than those options is not run.

    \b
    Example:
      freight-exchange bot run my_bot:bot
    """
    typed = _typed("url", "email", "token_file", "timeout")
    for name in sorted(typed & {"token_file", "timeout"}):
        raise click.UsageError(f"bot run has no use for --{name.replace('_', '-')}: the bot's own client says that")
    # Before the module is there, which may make a client of its own; and again, for it may change the environment.
    _put_into_environment(settings)
    found = imported(target)
    _put_into_environment(settings)
    _check_client(found, settings, typed)
    found.run(backend=backend)


def _typed(*names: str) -> set[str]:
    """Which of these options stand before the command, where the environment may say the same."""
    root = click.get_current_context().find_root()
    return {name for name in names if root.get_parameter_source(name) is ParameterSource.COMMANDLINE}


def _put_into_environment(settings: Settings) -> None:
    for variable, value in ((URL_VARIABLE, settings.url), (EMAIL_VARIABLE, settings.email)):
        if value is not None:
            os.environ[variable] = value


def _check_client(found: Bot, settings: Settings, typed: set[str]) -> None:
    """Refuse a bot whose own client would go elsewhere than the options say."""
    client = found._exchange
    if client is None:
        return
    if "url" in typed and client._base_url != (settings.url or "").strip().rstrip("/"):
        raise click.UsageError(f"the bot's own client is for {client._base_url}, and --url says {settings.url}")
    if "email" in typed and (account := run_loop(client._account)) != settings.email:
        raise click.UsageError(f"the bot's own client is for the account {account}, and --email says {settings.email}")


@bot.command
@file_options
@json_option
def status(store: str, name: str | None, as_json: bool) -> None:
    """Say how the bot is, as far as its file tells.

    \b
    Example:
      freight-exchange bot status --store bot.db
    """
    told = BotFile(store, name=name).status()
    if as_json:
        show_json(
            {field: plain(getattr(told, field)) for field in _STATUS} | {"gaps": [_gap(gap) for gap in told.gaps]}
        )
        return
    doubtful = told.offers["sending"] + told.offers["unknown"]
    show_details(
        [
            ("bot", told.name),
            ("service", told.base_url),
            ("account", told.account),
            ("held by", told.holder or "nobody: it does not run"),
            (
                "covered until",
                "nothing yet" if told.covered_until is None else f"{told.covered_until:%Y-%m-%d %H:%M:%S} UTC",
            ),
            ("events", f"{told.unacknowledged} wait"),
            ("deliveries", ", ".join(f"{count} {state}" for state, count in told.deliveries.items())),
            ("offers", f"{told.offers['confirmed']} taken, {told.offers['rejected']} refused, {doubtful} in doubt"),
            ("parked", f"{told.parked}: a person has to decide" if told.parked else None),
            ("gaps", f"{len(told.gaps)} not acknowledged" if told.gaps else None),
        ]
    )


@bot.group
def dead() -> None:
    """Deliveries that were given up.

    Their handler failed again and again.
    """


@dead.command("list")
@file_options
@json_option
def dead_list(store: str, name: str | None, as_json: bool) -> None:
    """List the dead letters, the oldest first.

    \b
    Example:
      freight-exchange bot dead list --store bot.db
    """
    _show(BotFile(store, name=name).dead_letters(), _DEAD, as_json=as_json, nothing="There are no dead letters.")


@dead.command("replay")
@click.argument("event", type=INDEX, required=False)
@click.argument("handler", required=False)
@click.option("--all", "every", is_flag=True, help="All of them.")
@file_options
@yes_option
@json_option
def dead_replay(
    store: str, name: str | None, event: int | None, handler: str | None, every: bool, yes: bool, as_json: bool
) -> None:
    """Have a handler called again for EVENT.

    The next run of the bot does it, as if for the first time.

    Mend first what it died of. The bot must not run meanwhile.

    \b
    Examples:
      freight-exchange bot dead replay 17 quote --store bot.db
      freight-exchange bot dead replay --all --store bot.db
    """
    if every == (event is not None) or (event is None) != (handler is None):
        raise click.UsageError("give the EVENT and the HANDLER of one dead letter, or --all")
    check(yes=yes, done="changed")
    file = BotFile(store, name=name)
    letters = [letter for letter in file.dead_letters() if every or (letter.event, letter.handler) == (event, handler)]
    if not (letters or every):
        raise _NoRecordError("there is no such dead letter")
    if letters:
        confirm(f"Try {len(letters)} again?", yes=yes, done="changed")
    for letter in letters:
        file.replay(letter.event, letter.handler)
    sentence = f"{len(letters)} will be tried again by the next run of the bot."
    tell(sentence, {"replayed": len(letters)}, as_json=as_json)


@bot.group
def doubts() -> None:
    """Offers of which it is not known whether the service took them."""


@doubts.command("list")
@file_options
@json_option
def doubts_list(store: str, name: str | None, as_json: bool) -> None:
    """List the offers in doubt, the oldest first.

    Those that are parked wait for you; the bot looks for the others.

    \b
    Example:
      freight-exchange bot doubts list --store bot.db
    """
    _show(BotFile(store, name=name).doubts(), _DOUBTS, as_json=as_json, nothing="There are no offers in doubt.")


@doubts.command("resolve")
@click.argument("request", type=INDEX)
@click.option("--taken/--not-taken", default=None, help="Whether the service shows the offer on its own pages.")
@click.option(
    "--revision", type=click.IntRange(min=0), default=0, show_default=True, help="Which offer on the request."
)
@file_options
@yes_option
@json_option
def doubts_resolve(
    store: str, name: str | None, request: int, taken: bool | None, revision: int, yes: bool, as_json: bool
) -> None:
    """Say whether the offer on REQUEST is there.

    Look at the service's own pages first: one that is said not to be there may be made again.

    \b
    Example:
      freight-exchange bot doubts resolve 4 --taken --store bot.db
    """
    if taken is None:
        raise click.UsageError("say --taken or --not-taken")
    check(yes=yes, done="changed")
    then = "it counts as made" if taken else "it may be made again"
    confirm(f"The offer on request {request} is {'' if taken else 'not '}there, and {then}?", yes=yes, done="changed")
    try:
        done = BotFile(store, name=name).resolve(request, taken=taken, revision=revision)
    except ValidationError as error:
        # Options are checked before: what is wrong is that there is no such doubt.
        raise _NoRecordError(str(error)) from error
    if not done:
        then = "nothing is sure to make it again: replay its dead letter, if there is one, or make it by hand"
    elif not taken:
        then = "its handler makes it again, if the bot still has it"
    tell(f"Noted: {then}.", {"request": request, "revision": revision, "taken": taken}, as_json=as_json)


@bot.group
def gaps() -> None:
    """Times in which nobody watched.

    They were longer than the service looks back.
    """


@gaps.command("list")
@file_options
@json_option
def gaps_list(store: str, name: str | None, as_json: bool) -> None:
    """List the gaps that were not acknowledged.

    Look through what was published then by hand.

    \b
    Example:
      freight-exchange bot gaps list --store bot.db
    """
    found = BotFile(store, name=name).gaps()
    if as_json:
        for gap in found:
            show_json(_gap(gap))
    else:
        show_table(found, _GAPS, nothing="There are no gaps.")


@gaps.command("ack")
@file_options
@yes_option
@json_option
def gaps_ack(store: str, name: str | None, yes: bool, as_json: bool) -> None:
    """Acknowledge the gaps: somebody has seen to them.

    \b
    Example:
      freight-exchange bot gaps ack --store bot.db
    """
    check(yes=yes, done="changed")
    file = BotFile(store, name=name)
    if there := len(file.gaps()):
        confirm(f"Acknowledge {there}?", yes=yes, done="changed")
    count = file.acknowledge_gaps() if there else 0
    tell(f"{count} acknowledged.", {"acknowledged": count}, as_json=as_json)


class _NoRecordError(click.ClickException):
    exit_code = Status.NOT_FOUND


_STATUS = ("name", "base_url", "account", "holder", "covered_until", "unacknowledged", "deliveries", "offers", "parked")

_DEAD: tuple[Column[DeadLetter], ...] = (
    Column("EVENT", lambda letter: letter.event, right=True),
    Column("HANDLER", lambda letter: letter.handler, folds=True),
    Column("REQUEST", lambda letter: letter.request, right=True, spare=2),
    Column("KIND", lambda letter: letter.kind, spare=3),
    Column("ATTEMPTS", lambda letter: letter.attempts, right=True, spare=4),
    Column("ERROR", lambda letter: letter.error, folds=True, spare=1),
)
_DOUBTS: tuple[Column[Doubt], ...] = (
    Column("REQUEST", lambda doubt: doubt.request, right=True),
    Column("REVISION", lambda doubt: doubt.revision, right=True, spare=2),
    Column("AMOUNT", lambda doubt: doubt.amount, right=True),
    Column("CURRENCY", lambda doubt: doubt.currency, right=True, spare=4),
    Column("HANDLER", lambda doubt: doubt.handler, folds=True, spare=5),
    Column("SINCE", lambda doubt: f"{doubt.since:%Y-%m-%d %H:%M:%S} UTC", spare=3),
    Column("PARKED", lambda doubt: doubt.parked, spare=1),
)
_GAPS: tuple[Column[Gap], ...] = (
    Column("SINCE", lambda gap: f"{gap.since:%Y-%m-%d %H:%M:%S} UTC"),
    Column("UNTIL", lambda gap: f"{gap.until:%Y-%m-%d %H:%M:%S} UTC"),
)

T = TypeVar("T", "DeadLetter", "Doubt")


def _show(records: Sequence[T], columns: Sequence[Column[T]], *, as_json: bool, nothing: str) -> None:
    if as_json:
        for record in records:
            show_json(record)
    else:
        show_table(records, columns, nothing=nothing)


def _gap(gap: Gap) -> dict[str, str]:
    return {"since": instant(gap.since), "until": instant(gap.until)}
