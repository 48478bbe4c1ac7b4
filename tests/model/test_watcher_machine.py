"""State machine of the watcher's operations, for which Hypothesis finds small examples."""

from __future__ import annotations

import logging
from typing import Any

import attrs
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from tests.model.watcher import Op, Plan, run, settling

from freight_sandbox import Profile

_WHICH = st.integers(0, 40)
_LATER = st.sampled_from((0.0, 0.1, 5.0, 14.0, 31.0))
_INTERVAL = 15.0


class Watching(RuleBasedStateMachine):
    """State machine that collects operations, plays them at the end, and checks the run."""

    plan: Plan | None = None

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.ops: list[Op] = []

    @initialize(
        backend=st.sampled_from(("asyncio", "trio")),
        sqlite=st.booleans(),
        order=st.sampled_from(("newest", "oldest", "index", "updated", "random")),
        clamp=st.sampled_from((None, 1, 3, 10)),
        stride=st.sampled_from(("clamped", "asked")),
        past_end=st.sampled_from(("empty", "400", "404", "last_page")),
        late=st.sampled_from((0.0, 30.0, 55.0)),
        start=st.sampled_from(("now", "backfill", 3600.0)),
        boot=st.sampled_from(("steady", "reboots", "unreported")),
        ages=st.lists(st.sampled_from((400_000.0, 7000.0, 90.0)), max_size=4),
    )
    def begin(
        self,
        backend: Any,
        sqlite: bool,
        order: Any,
        clamp: int | None,
        stride: Any,
        past_end: Any,
        late: float,
        start: Any,
        boot: Any,
        ages: list[float],
    ) -> None:
        self.plan = Plan(
            seed=0,
            backend=backend,
            sqlite=sqlite,
            profile=Profile(
                order=order, rows_clamp=clamp, clamp_stride=stride, past_end=past_end, token_lifetime=10**7
            ),
            late=late,
            start=start,
            interval=_INTERVAL,
            boot=boot,
            ages=tuple(sorted(ages, reverse=True)),
            quiet=0.0,
            end=0.0,
        )

    def _add(self, later: float, what: str, **more: Any) -> None:
        self.now += later
        self.ops.append(Op(at=round(self.now, 3), what=what, **more))

    @rule(
        later=_LATER,
        what=st.sampled_from(("publish", "update", "revert", "touch", "withdraw", "poison", "alike")),
        which=_WHICH,
    )
    def change(self, later: float, what: str, which: int) -> None:
        self._add(later, what, which=which)

    @rule(later=_LATER, rows=st.integers(2, 5))
    def burst(self, later: float, rows: int) -> None:
        self._add(later, "burst", amount=rows)

    @rule(
        later=_LATER,
        what=st.sampled_from(("publish", "update", "touch", "withdraw", "reorder", "burst")),
        which=_WHICH,
        page=st.integers(0, 3),
    )
    def between_pages(self, later: float, what: str, which: int, page: int) -> None:
        self._add(later, what, which=which, amount=2.0, page=page)

    @rule(later=_LATER, what=st.sampled_from(("reorder", "respell", "late", "lie", "beyond")), which=_WHICH)
    def shown_otherwise(self, later: float, what: str, which: int) -> None:
        self._add(later, what, which=which)

    @rule(later=_LATER, rows=st.sampled_from((0, 3, 10)))
    def clamp(self, later: float, rows: int) -> None:
        self._add(later, "clamp", amount=rows)

    @rule(
        later=_LATER,
        name=st.sampled_from(("unavailable", "stall", "truncated_length", "html_200", "throttled_seconds")),
        times=st.integers(1, 4),
        skip=st.integers(0, 2),
    )
    def fail(self, later: float, name: str, times: int, skip: int) -> None:
        self._add(later, "fault", name=name, amount=times, which=skip)

    @rule(
        later=_LATER,
        name=st.sampled_from(("leave", "die", "die_await", "die_store", "die_statement")),
        which=_WHICH,
        down=st.sampled_from((0.0, 60.0, 7200.0, 300_000.0, 540_000.0)),
    )
    def stop(self, later: float, name: str, which: int, down: float) -> None:
        # One long absence is enough: what was missed in the first is past reporting in the second.
        down = 60.0 if any(op.amount > 7200.0 for op in self.ops) else down
        self._add(later, "stop", name=name, which=which, amount=down)
        self._add(min(down, _INTERVAL), "stop", name="overdue", which=which, amount=max(0.0, down - _INTERVAL))
        self.now += max(0.0, down - _INTERVAL)

    @rule(later=_LATER, what=st.sampled_from(("cancel", "disk", "break", "batches")), which=_WHICH)
    def read_otherwise(self, later: float, what: str, which: int) -> None:
        self._add(later, what, which=which)

    @rule(later=_LATER, seconds=st.sampled_from((30.0, 28_800.0)))
    def suspend(self, later: float, seconds: float) -> None:
        self._add(later, "suspend", amount=seconds)

    @rule(later=_LATER, seconds=st.sampled_from((5.0, 7200.0, 86_400.0)))
    def set_the_wall_clock(self, later: float, seconds: float) -> None:
        self._add(later, "wall", amount=seconds)

    def teardown(self) -> None:
        if self.plan is None:
            return
        quiet = self.now + 1.0
        end = quiet + settling(_INTERVAL, self.plan.late) + 3600.0
        plan = attrs.evolve(self.plan, ops=tuple(self.ops), quiet=quiet, end=end)
        logging.disable(logging.CRITICAL)
        try:
            ran = run(plan)
        finally:
            logging.disable(logging.NOTSET)
        assert not ran.flaws, (plan, ran.flaws)


TestWatching = Watching.TestCase
TestWatching.settings = settings(
    max_examples=5, stateful_step_count=15, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
