"""`explain`: why a request was, or was not yet, handed out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import click

from freight_exchange.bot.ops.admin import BotFile
from freight_exchange.cli.commands.bot import file_options
from freight_exchange.cli.options import INDEX, json_option
from freight_exchange.cli.render.tables import plain, said, show_json

if TYPE_CHECKING:
    from freight_exchange.store.work import DeliveryState

__all__ = ["explain"]

_WHEREABOUTS: Final[Mapping[DeliveryState, str]] = {
    "ready": "is to be called",
    "claimed": "is at work on it",
    "done": "is done with it",
    "dead": "failed for the last time",
}


@click.command
@click.argument("index", type=INDEX)
@file_options
@json_option
def explain(index: int, store: str, name: str | None, as_json: bool) -> None:
    """Say why request INDEX was, or was not yet, handed out, and what became of it: to which handlers, and whether an
    offer was made.

    \b
    Example:
      freight-exchange explain 4 --store bot.db
    """
    told = BotFile(store, name=name).explain(index)
    explanation = told.explanation
    if as_json:
        show_json(
            {
                "index": index,
                "verdict": explanation.verdict,
                "sentence": explanation.sentence,
                "first_seen": plain(explanation.first_seen),
                "last_seen": plain(explanation.last_seen),
                "events": plain(explanation.events),
                "deliveries": [
                    {"kind": kind, "handler": handler, "state": state, "error": error}
                    for kind, handler, state, error in told.deliveries
                ],
                "offers": [
                    {
                        "revision": offer.revision,
                        "state": offer.state,
                        "amount": offer.amount,
                        "currency": offer.currency,
                    }
                    for offer in told.offers
                ],
            }
        )
        return
    click.echo(f"{said(explanation)}.".replace("request", "Request", 1))
    if explanation.first_seen is not None:
        click.echo(f"First seen {explanation.first_seen:%Y-%m-%d %H:%M:%S} UTC.")
    for kind, handler, state, error in told.deliveries:
        click.echo(f"The handler {said(handler)} {_whereabouts(state, error)} ({kind}).")
    for offer in told.offers:
        click.echo(f"The offer of {offer.amount:f}, revision {offer.revision}, is {offer.state}.")


def _whereabouts(state: DeliveryState, error: str | None) -> str:
    if error is None:
        return _WHEREABOUTS[state]
    if state == "ready":
        return f"is to be called again, after it ended by {said(error)}"
    return f"{_WHEREABOUTS[state]}, by {said(error)}" if state == "dead" else _WHEREABOUTS[state]
