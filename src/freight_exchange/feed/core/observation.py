"""How a page of a scan came to be seen, and what was known of the service's shape then. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime
from typing import Final

import attrs

from freight_exchange.feed.core.first_scan import BASELINE

__all__ = ["UNTOLD", "Lately", "Observation", "Schema"]


@attrs.frozen(kw_only=True)
class Schema:
    """What is known of the service's shape.

    Attributes:
        fields: Those of its last change.
        at: When that was noticed, on the feed's clock.
        extras: Fields beside those of the service's document that any request had since.
    """

    fields: frozenset[str] = frozenset()
    at: float = 0.0
    extras: frozenset[str] = frozenset()


@attrs.frozen
class Lately:
    """What a narrow look listed at the same time.

    Attributes:
        listed: The indexes, or `None` where no such look tells.
        window: Seconds that it looked back.
    """

    listed: frozenset[int] | None
    window: int = 0


UNTOLD: Final = Lately(None)
"""Nobody can tell what was updated lately: what differs may be an update."""


@attrs.frozen(kw_only=True)
class Observation:
    """How a page came to be seen. Times are on the feed's clock.

    Attributes:
        scan: The scan's number.
        sent: When the page was asked for.
        window: Seconds that it looked back from then.
        silent: Whether what is seen for the first time is no event.
        version: The version of what is seen for the first time and is no event.
        baseline_is_new: Whether what was only baseline until now counts as seen for the first time.
        undecided_since: What is undecided counts as seen for the first time if a scan saw it first after this time.
        covered: Up to when updates would have been seen before, if they would; what is seen now for the first time was
            updated later, unless it is shown late: whatever follows from that, a look-up has to confirm.
        between: When what is seen now came to be seen: after the cover, if there was one, and before the reply.
        schema: What is known of the service's shape.
        lately: What a narrow look at the same time listed; `None` before one was made, where one can be.
        unsteady: Gives by index the fields that come and go from reply to reply.
        unsteady_extras: Those beside the service's document that come and go for all requests.
    """

    scan: int
    sent: float
    window: int
    silent: bool
    version: int = BASELINE
    baseline_is_new: bool = False
    undecided_since: float = math.inf
    covered: float | None
    between: tuple[datetime | None, datetime]
    schema: Schema
    lately: Lately | None = UNTOLD
    unsteady: Callable[[int], frozenset[str]] = lambda index: frozenset()
    unsteady_extras: frozenset[str] = frozenset()
