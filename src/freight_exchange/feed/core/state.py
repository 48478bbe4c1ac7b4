"""What a feed knows beside the requests themselves, as text to keep, and back. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import attrs

from freight_exchange.errors import StoreError
from freight_exchange.feed.core.first_scan import Stage
from freight_exchange.feed.core.observation import Schema
from freight_exchange.feed.core.watermark import Watermark
from freight_exchange.feed.serialization import NOT_OURS, UNREADABLE
from freight_exchange.platform.clock import Reading

__all__ = ["Behind", "Lacking", "State"]


@attrs.frozen(kw_only=True)
class Behind:
    """How far the feed's clock may be behind the world's.

    Attributes:
        by: Seconds: what happened before `until` may be as much longer ago.
        until: On the feed's clock.
    """

    by: float = 0.0
    until: float = 0.0


@attrs.frozen(kw_only=True)
class Lacking:
    """Doubt about listings that lack a third or more of what they should hold. Times are on the feed's clock.

    Attributes:
        since: When the first of them was read.
        last: When the last of them was read.
        window: Seconds that the first one looked back.
        reach: The earliest moment to which a scan after the last of them looked back that lacked little.
    """

    since: float
    last: float
    window: int
    reach: float | None = None


@attrs.frozen(kw_only=True)
class State:
    """The state of a feed, committed together with what led to it.

    Attributes:
        cover: The moment before which everything is covered. While the stage is `entering`, the moment at which the
            feed was first entered; until it is `primed`, only what was updated since then is covered.
        stage: The stage of the first scan.
        allowance: Seconds that the service is given to show an update.
        scan: The number of the last scan.
        rungs: When each rung of the ladder was last completed, on the feed's clock.
        longest: The most rows that one page ever held.
        clamp: The most rows in a page that the service gives, where that is known.
        late: How many requests were found by deep scans that narrow ones should have found.
        gap_until: Up to when a gap was told that scans have not closed yet, on the feed's clock.
        schema: What is known of the service's shape.
        behind: How far the feed's clock may be behind.
        lacking: Doubt about the last listings, if there is any.
    """

    cover: Watermark
    stage: Stage = "entering"
    allowance: float
    scan: int = 0
    rungs: Mapping[str, float] = attrs.field(factory=dict)
    longest: int = 0
    clamp: int | None = None
    late: int = 0
    gap_until: float | None = None
    schema: Schema = attrs.field(factory=Schema)
    behind: Behind = attrs.field(factory=Behind)
    lacking: Lacking | None = None

    @property
    def primed(self) -> bool:
        """Whether the first scan is done: all that the service lists is known."""
        return self.stage == "primed"

    @property
    def entered(self) -> bool:
        """Whether the first scan has come so far that updates from then on are reported."""
        return self.stage != "entering"

    def since_entered(self, now: Reading) -> float:
        """Return the most seconds that can have passed since the feed was first entered."""
        return self.cover.time + self.cover.most(now) + self.behind.by

    def dump(self) -> str:
        said = attrs.asdict(self, recurse=True)
        said["schema"] |= {"fields": sorted(self.schema.fields), "extras": sorted(self.schema.extras)}
        return json.dumps(said, separators=(",", ":"))

    @classmethod
    def load(cls, text: str) -> State:
        """The state that was kept.

        Raises:
            StoreError: It is damaged, or another version of this package wrote it.
        """
        try:
            said: dict[str, Any] = json.loads(text)
            cover, schema, behind = said.pop("cover"), said.pop("schema"), said.pop("behind", {})
            lacking = said.pop("lacking", None)
            if said.pop("primed", False):
                # Earlier versions knew no other stages.
                said["stage"] = "primed"
            return cls(
                **said,
                cover=Watermark(cover["time"], Reading(**cover["reading"])),
                behind=Behind(**behind),
                lacking=None if lacking is None else Lacking(**lacking),
                schema=Schema(
                    fields=frozenset(schema["fields"]), at=schema["at"], extras=frozenset(schema.get("extras", ()))
                ),
            )
        except NOT_OURS as error:
            raise StoreError(f"the feed's state in the store {UNREADABLE}") from error
