"""Command `explain`: deliveries of a request, or the reason why there is none yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import click

from freight_exchange.bot.ops.admin import BotFile
from freight_exchange.cli.options import INDEX, bot_file_options, json_option
from freight_exchange.cli.render.record import format_value, print_json, to_json

if TYPE_CHECKING:
    from freight_exchange.store.work import DeliveryState

__all__ = ["explain"]

_STATES: Final[Mapping[DeliveryState, str]] = {
    "ready": "will be called",
    "claimed": "is running",
    "done": "is done",
    "dead": "failed for the last time",
}


@click.command
@click.argument("index", type=INDEX)
@bot_file_options
@json_option
def explain(index: int, store: str, name: str | None, as_json: bool) -> None:
    """Show the deliveries of request INDEX to handlers, or why there is none yet, and its offers and answers.

    \b
    Example:
      freight-exchange explain 4 --store bot.db
    """
    report = BotFile(store, name=name).explain(index)
    explanation = report.explanation
    if as_json:
        print_json(
            {
                **to_json(explanation),
                "deliveries": [
                    {"kind": kind, "handler": handler, "state": state, "error": error}
                    for kind, handler, state, error in report.deliveries
                ],
                "offers": [
                    {
                        "revision": offer.revision,
                        "state": offer.state,
                        "amount": to_json(offer.amount),
                        "currency": offer.currency,
                    }
                    for offer in report.offers
                ],
                "answers": [
                    {
                        "kind": "approval" if answer.approved else "decline",
                        "offer": answer.offer,
                        "state": answer.state,
                        "amount": None if answer.amount is None else to_json(answer.amount),
                    }
                    for answer in report.answers
                ],
            }
        )
        return
    click.echo(f"{format_value(explanation)}.".replace("request", "Request", 1))
    if explanation.first_seen is not None:
        click.echo(f"First seen {explanation.first_seen:%Y-%m-%d %H:%M:%S} UTC.")
    for kind, handler, state, error in report.deliveries:
        click.echo(f"The handler {format_value(handler)} {_describe(state, error)} ({kind}).")
    if explanation.verdict == "handed-out" and not report.deliveries:
        click.echo("No handler has a delivery of it: none matched, or the record has expired.")
    for offer in report.offers:
        click.echo(f"The offer of {offer.amount:f}, revision {offer.revision}, is {offer.state}.")
    for answer in report.answers:
        amount = "" if answer.amount is None else f" of {answer.amount:f}"
        kind = "approval" if answer.approved else "decline"
        click.echo(f"The {kind} of offer {answer.offer}{amount}, by {answer.handler}, is {answer.state}.")


def _describe(state: DeliveryState, error: str | None) -> str:
    if error is None:
        return _STATES[state]
    if state == "ready":
        return f"will be called again, after {format_value(error)}"
    return f"{_STATES[state]}, with {format_value(error)}" if state == "dead" else _STATES[state]
