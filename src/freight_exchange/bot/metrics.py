"""What a bot counts while it runs."""

from __future__ import annotations

from collections import Counter
from typing import Final

import attrs

from freight_exchange.bot.delivery.in_flight import InFlight

__all__ = ["ENDINGS", "OUTCOMES", "Metrics"]

ENDINGS: Final = ("done", "dropped", "failed", "later", "doubt", "trouble", "released", "dead")
"""How an attempt ends."""

OUTCOMES: Final = ("confirmed", "rejected", "doubtful", "not taken")
"""What becomes of an offer; one that was doubtful is counted again once that is known."""


@attrs.define
class Metrics:
    """Counts since the process began.

    Attributes:
        events: Events by kind.
        deliveries: Ends of attempts, by handler and how they ended: `ENDINGS`. An attempt that was done with several
            deliveries counts for each of them.
        offers: Offers by what became of them: `OUTCOMES`.
        at_work: Deliveries at their handlers now.
    """

    events: Counter[str] = attrs.field(factory=Counter)
    deliveries: Counter[tuple[str, str]] = attrs.field(factory=Counter)
    offers: Counter[str] = attrs.field(factory=Counter)
    at_work: InFlight = attrs.field(factory=InFlight)

    def ended(self, how: str) -> int:
        """How many ended like this."""
        return sum(count for (_, ending), count in self.deliveries.items() if ending == how)
