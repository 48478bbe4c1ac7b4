"""What a bot counts while it runs."""

from __future__ import annotations

from collections import Counter

import attrs

from freight_exchange.bot.at_work import AtWork

__all__ = ["Tally"]


@attrs.define
class Tally:
    """Counts since the process began.

    Attributes:
        events: Events by kind.
        deliveries: Ends of attempts, by handler and how they ended: `done`, `dropped`, `failed`, `later`, `doubt`,
            `trouble`, `released`, `dead`. An attempt that was done with several deliveries counts for each of them.
        offers: Offers by what became of them: `confirmed`, `rejected`, `doubtful`, `not taken`.
        at_work: Deliveries at their handlers now.
    """

    events: Counter[str] = attrs.field(factory=Counter)
    deliveries: Counter[tuple[str, str]] = attrs.field(factory=Counter)
    offers: Counter[str] = attrs.field(factory=Counter)
    at_work: AtWork = attrs.field(factory=AtWork)

    def ended(self, how: str) -> int:
        """How many ended like this."""
        return sum(count for (_, ending), count in self.deliveries.items() if ending == how)
