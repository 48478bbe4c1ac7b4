"""Commands `bot dead`, `bot doubts` and `bot gaps`: records of a bot's file that need a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

import click

import freight_exchange
from freight_exchange.bot.ops.admin import BotFile
from freight_exchange.cli.exit_status import Status
from freight_exchange.cli.options import INDEX, bot_file_options, json_option, yes_option
from freight_exchange.cli.output import Output, format_options
from freight_exchange.cli.render.csv_rows import csv_columns
from freight_exchange.cli.render.listing import print_records
from freight_exchange.cli.render.record import print_result
from freight_exchange.cli.render.table import Column
from freight_exchange.cli.terminal import confirm, require_confirmation, warn
from freight_exchange.errors import ValidationError

if TYPE_CHECKING:
    from freight_exchange import DeadLetter, Doubt, Gap

__all__ = ["dead", "doubts", "gaps"]

_NO_DEAD_LETTERS: Final = "There are no dead letters."
_NO_GAPS: Final = "There are no gaps."

T = TypeVar("T", "DeadLetter", "Doubt")


@click.group
def dead() -> None:
    """Dead letters: deliveries whose handler failed too often."""


@dead.command("list")
@bot_file_options
@format_options
def dead_list(store: str, name: str | None, output: Output) -> None:
    """List the dead letters, the oldest first.

    \b
    Example:
      freight-exchange bot dead list --store bot.db
    """
    print_records(
        BotFile(store, name=name).dead_letters(),
        _DEAD_LETTER_COLUMNS,
        output=output,
        csv_columns=csv_columns(freight_exchange.DeadLetter),
        empty_message=_NO_DEAD_LETTERS,
    )


@dead.command("replay")
@click.argument("event", type=INDEX, required=False)
@click.argument("handler", required=False)
@click.option("--all", "replay_all", is_flag=True, help="Replay all dead letters.")
@bot_file_options
@yes_option
@json_option
def dead_replay(
    store: str, name: str | None, event: int | None, handler: str | None, replay_all: bool, yes: bool, as_json: bool
) -> None:
    """Call HANDLER again for EVENT.

    The bot calls it as if for the first time, as soon as it runs. Fix the handler first. If the store is a file, stop
    the bot first too.

    \b
    Examples:
      freight-exchange bot dead replay 17 quote --store bot.db
      freight-exchange bot dead replay --all --store bot.db
    """
    if replay_all == (event is not None) or (event is None) != (handler is None):
        raise click.UsageError("give the EVENT and the HANDLER of one dead letter, or --all")
    require_confirmation(yes=yes, action="changed")
    file = BotFile(store, name=name)
    letters = [
        letter for letter in file.dead_letters() if replay_all or (letter.event, letter.handler) == (event, handler)
    ]
    if not (letters or replay_all):
        raise _NoRecordError(f"there is no dead letter of event {event} and handler {handler}: see `bot dead list`")
    count = f"{len(letters)} dead letter{'' if len(letters) == 1 else 's'}"
    if letters:
        confirm(f"Deliver {count} again?", yes=yes, action="changed")
    for letter in letters:
        file.replay(letter.event, letter.handler)
    sentence = f"The bot delivers {count} again, as soon as it runs." if letters else _NO_DEAD_LETTERS
    print_result(sentence, {"replayed": len(letters)}, as_json=as_json)


@click.group
def doubts() -> None:
    """Offers, approvals and declines in doubt.

    The service may or may not have carried them out.
    """


@doubts.command("list")
@bot_file_options
@format_options
def doubts_list(store: str, name: str | None, output: Output) -> None:
    """List the offers, approvals and declines in doubt.

    Offers come before approvals and declines, the oldest first. The parked ones need your decision; the bot resolves
    the others.

    \b
    Example:
      freight-exchange bot doubts list --store bot.db
    """
    print_records(
        BotFile(store, name=name).doubts(),
        _DOUBT_COLUMNS,
        output=output,
        csv_columns=csv_columns(freight_exchange.Doubt),
        empty_message="There are no offers in doubt.",
    )


@doubts.command("resolve")
@click.argument("request", type=INDEX)
@click.option("--taken/--not-taken", default=None, help="Whether the service shows the offer on its website.")
@click.option("--revision", type=click.IntRange(min=0), default=0, show_default=True, help="Revision of your offer.")
@click.option("--offer", type=INDEX, help="The offer of another that you approved or declined.")
@bot_file_options
@yes_option
@json_option
def doubts_resolve(
    store: str,
    name: str | None,
    request: int,
    taken: bool | None,
    revision: int,
    offer: int | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Record whether the service took an offer in doubt.

    The command is about your offer on REQUEST or, with --offer, about your approval or decline of another's offer.
    Check the service's website first: after --not-taken, the bot may send it again. In a database, --not-taken waits
    for 20 seconds if the service may still receive it.

    \b
    Examples:
      freight-exchange bot doubts resolve 4 --taken --store bot.db
      freight-exchange bot doubts resolve 4 --offer 5001 --not-taken --store tender.db
    """
    if taken is None:
        raise click.UsageError("give --taken or --not-taken")
    require_confirmation(yes=yes, action="changed")
    effect = "it counts as made" if taken else "it may be made again"
    subject = (
        f"The offer on request {request}" if offer is None else f"The answer to offer {offer} on request {request}"
    )
    confirm(f"{subject} is {'' if taken else 'not '}there, and {effect}?", yes=yes, action="changed")
    try:
        is_certain = BotFile(store, name=name).resolve(
            request, taken=taken, revision=revision, offer=offer, on_wait=warn
        )
    except ValidationError as error:
        # The options are valid, so there is no such doubt.
        raise _NoRecordError(str(error)) from error
    if not is_certain:
        effect = "the bot may not make it again: replay its dead letter, if there is one, or make it by hand"
    elif not taken:
        effect = "its handler makes it again, if the bot still has that handler"
    about = {"revision": revision} if offer is None else {"offer": offer}
    print_result(f"Noted: {effect}.", {"request": request, **about, "taken": taken}, as_json=as_json)


@click.group
def gaps() -> None:
    """Gaps: periods without a scan, which may lack requests."""


@gaps.command("list")
@bot_file_options
@format_options
def gaps_list(store: str, name: str | None, output: Output) -> None:
    """List the gaps that were not acknowledged.

    Check the requests of these periods on the service's website.

    \b
    Example:
      freight-exchange bot gaps list --store bot.db
    """
    print_records(
        BotFile(store, name=name).gaps(),
        _GAP_COLUMNS,
        output=output,
        csv_columns=csv_columns(freight_exchange.Gap),
        empty_message=_NO_GAPS,
    )


@gaps.command("ack")
@bot_file_options
@yes_option
@json_option
def gaps_ack(store: str, name: str | None, yes: bool, as_json: bool) -> None:
    """Acknowledge the gaps, after you have checked their requests.

    \b
    Example:
      freight-exchange bot gaps ack --store bot.db
    """
    require_confirmation(yes=yes, action="changed")
    file = BotFile(store, name=name)
    if gap_count := len(file.gaps()):
        confirm(f"Acknowledge {_count_gaps(gap_count)}?", yes=yes, action="changed")
    count = file.acknowledge_gaps() if gap_count else 0
    sentence = f"{_count_gaps(count)} acknowledged." if gap_count else _NO_GAPS
    print_result(sentence, {"acknowledged": count}, as_json=as_json)


def _count_gaps(count: int) -> str:
    return f"{count} gap{'' if count == 1 else 's'}"


class _NoRecordError(click.ClickException):
    exit_code = Status.NOT_FOUND


_DEAD_LETTER_COLUMNS: tuple[Column[DeadLetter], ...] = (
    Column("EVENT", lambda letter: letter.event, align_right=True),
    Column("HANDLER", lambda letter: letter.handler, wraps=True),
    Column("REQUEST", lambda letter: letter.request, align_right=True, drop_order=2),
    Column("KIND", lambda letter: letter.kind, drop_order=3),
    Column("ATTEMPTS", lambda letter: letter.attempts, align_right=True, drop_order=4),
    Column("ERROR", lambda letter: letter.error, wraps=True, drop_order=1),
)
_DOUBT_COLUMNS: tuple[Column[Doubt], ...] = (
    Column("REQUEST", lambda doubt: doubt.request, align_right=True),
    Column("KIND", lambda doubt: doubt.kind, drop_order=6),
    Column("OFFER", lambda doubt: doubt.offer, align_right=True, drop_order=7),
    Column("REVISION", lambda doubt: doubt.revision, align_right=True, drop_order=2),
    Column("AMOUNT", lambda doubt: doubt.amount, align_right=True),
    Column("CURRENCY", lambda doubt: doubt.currency, align_right=True, drop_order=4),
    Column("HANDLER", lambda doubt: doubt.handler, wraps=True, drop_order=5),
    Column("SINCE", lambda doubt: f"{doubt.since:%Y-%m-%d %H:%M:%S} UTC", drop_order=3),
    Column("PARKED", lambda doubt: doubt.parked, drop_order=1),
)
_GAP_COLUMNS: tuple[Column[Gap], ...] = (
    Column("SINCE", lambda gap: f"{gap.since:%Y-%m-%d %H:%M:%S} UTC"),
    Column("UNTIL", lambda gap: f"{gap.until:%Y-%m-%d %H:%M:%S} UTC"),
)
