"""State of a feed, apart from its requests; stored as text. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import attrs

from freight_exchange.errors import StoreError
from freight_exchange.feed.core.changes.observation import Schema
from freight_exchange.feed.core.clock_lags import ClockLag
from freight_exchange.feed.core.first_scan import Stage
from freight_exchange.feed.core.watermark import Watermark
from freight_exchange.feed.serialization import NOT_OURS, UNREADABLE
from freight_exchange.platform.clock import Reading

__all__ = ["AbsenceDoubt", "State"]


@attrs.frozen(kw_only=True)
class AbsenceDoubt:
    """Doubt about listings that lack a third or more of the known requests. Times are on the feed's clock.

    After an hour, only listings about as deep as `window` count as a part of the doubt.

    Attributes:
        since: When the first such listing was read. If requests vanished together again: when they did.
        last: When the last one was read; once an hour has passed and one of them was about as deep, any one counts.
        window: Window of the deepest one, in seconds.
        scan: Number of the scan that read the first one.
    """

    since: float
    last: float
    window: int
    scan: int = 0


@attrs.frozen(kw_only=True)
class State:
    """State of a feed, committed in one transaction with the page that changed it. Times are on the feed's clock.

    Attributes:
        watermark: Time before which all updates were seen. In the stage `entering` it is the time at which the feed was
            first entered. Until the stage is `primed`, only updates since that time were seen.
        stage: Stage of the first scan.
        allowance: Seconds that the service may take to show an update.
        scan: Number of the last scan.
        tiers: When each tier was last completed.
        longest: Largest number of rows on one page so far.
        clamp: Maximum number of rows that the service returns in a page, if known.
        late: Number of requests that deep scans found and narrow ones should have found.
        gap_until: End of the last reported gap, until a scan covers the time after it.
        schema: The last known change of the service's schema.
        clock_lags: Times that the feed's clock may not have counted, the oldest first.
        absence_doubt: Doubt about the last listings, if any.
    """

    watermark: Watermark
    stage: Stage = "entering"
    allowance: float
    scan: int = 0
    tiers: Mapping[str, float] = attrs.field(factory=dict)
    longest: int = 0
    clamp: int | None = None
    late: int = 0
    gap_until: float | None = None
    schema: Schema = attrs.field(factory=Schema)
    clock_lags: tuple[ClockLag, ...] = ()
    absence_doubt: AbsenceDoubt | None = None

    @property
    def is_primed(self) -> bool:
        """`True` once the first scan is complete: everything that the service lists is known."""
        return self.stage == "primed"

    @property
    def is_listed(self) -> bool:
        """`True` once everything listed was read: from then on, a scan may show that a request is missing."""
        return self.stage in ("settling", "primed")

    @property
    def is_entered(self) -> bool:
        """`True` once the first scan has reached the point from which updates are reported."""
        return self.stage != "entering"

    def since_entered(self, now: Reading) -> float:
        """Return the maximum seconds that can have passed since the feed was first entered."""
        return self.watermark.time + self.watermark.most(now) + sum(lag.by for lag in self.clock_lags)

    def continued(self, now: Reading, allowance: float) -> State:
        """Return the state for the start of a new run; its allowance is at least the user's."""
        watermark = self.watermark.continued(now)
        return attrs.evolve(self, watermark=watermark, allowance=max(self.allowance, allowance))

    def dump(self) -> str:
        """Return the state as text."""
        fields = attrs.asdict(self, recurse=True)
        fields["schema"] |= {"fields": sorted(self.schema.fields), "extras": sorted(self.schema.extras)}
        return json.dumps(fields, separators=(",", ":"))

    @classmethod
    def load(cls, text: str) -> State:
        """Return the state from its text.

        Raises:
            StoreError: It is damaged, or another version of this package wrote it.
        """
        try:
            fields: dict[str, Any] = json.loads(text)
            watermark, schema = fields.pop("watermark"), fields.pop("schema")
            lags, doubt = fields.pop("clock_lags"), fields.pop("absence_doubt")
            return cls(
                **fields,
                watermark=Watermark(watermark["time"], Reading(**watermark["reading"])),
                clock_lags=tuple(ClockLag(**lag) for lag in lags),
                absence_doubt=None if doubt is None else AbsenceDoubt(**doubt),
                schema=Schema(fields=frozenset(schema["fields"]), at=schema["at"], extras=frozenset(schema["extras"])),
            )
        except NOT_OURS as error:
            raise StoreError(f"the feed's state in the store {UNREADABLE}") from error
