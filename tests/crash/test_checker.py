"""Tests of the checker of a watcher that is killed."""

from __future__ import annotations

from pathlib import Path

from tests.crash.checker import Line, check, lines

from freight_exchange.testing import Cargo, Sandbox

ONE, TWO = ("1", "Oakland"), ("2", "Oakland")


def market(*, withdrawn: bool = False) -> Sandbox:
    """Return the audit log of a request in state one, two and one again, then perhaps withdrawn."""
    sandbox = Sandbox()
    index = sandbox.publish(Cargo(quantity=1, destination="Oakland"))
    sandbox.exchange.touch(index, 1.0)
    sandbox.exchange.update(index, 2.0, Cargo(quantity=2, destination="Oakland"))
    sandbox.exchange.update(index, 3.0, Cargo(quantity=1, destination="Oakland"))
    if withdrawn:
        sandbox.exchange.withdraw(index, 4.0)
    return sandbox


def delivered(*states: tuple[int, str, tuple[str, ...]]) -> list[Line]:
    return [Line(run, kind, 1, state) for run, kind, state in states]


def test_every_state_and_skipped_states_are_good() -> None:
    changes = market().audit_log.changes
    for written in (
        delivered((1, "new", ONE), (1, "updated", TWO), (2, "updated", ONE)),
        delivered((1, "new", TWO), (1, "updated", ONE)),
        delivered((1, "new", ONE)),
    ):
        result = check(changes, written)
        assert result.is_good, result
        assert (result.published, result.changed, result.withdrawn) == (1, 2, 0)


def test_last_state_that_was_not_delivered_is_missed() -> None:
    assert check(market().audit_log.changes, delivered((1, "new", ONE), (1, "updated", TWO))).missed
    assert check(market().audit_log.changes, []).missed
    assert check(market(withdrawn=True).audit_log.changes, delivered((1, "new", ONE))).missed
    assert check(market(withdrawn=True).audit_log.changes, delivered((1, "new", ONE), (1, "withdrawn", ONE))).is_good
    assert check(market(withdrawn=True).audit_log.changes, []).is_good


def test_only_the_last_event_before_a_kill_is_redelivered() -> None:
    changes = market().audit_log.changes
    again = check(changes, delivered((1, "new", ONE), (2, "new", ONE)))
    assert again.is_good
    assert again.redelivered == 1
    assert check(changes, delivered((1, "new", ONE), (1, "new", ONE))).repeated
    other = market()
    other.publish(Cargo(quantity=1, destination="Oakland"))
    between = [*delivered((1, "new", ONE)), Line(1, "new", 2, ONE), *delivered((2, "new", ONE))]
    assert check(other.audit_log.changes, between).repeated


def test_event_without_cause_or_out_of_order_is_invented() -> None:
    changes = market().audit_log.changes
    assert check(changes, delivered((1, "new", ("3", "Oakland")), (1, "updated", ONE))).invented
    assert check(changes, [*delivered((1, "new", ONE)), Line(1, "new", 7, ONE)]).invented
    assert check(changes, [*delivered((1, "new", ONE)), Line(1, "gap", None, ())]).invented
    backwards = delivered((1, "new", ONE), (1, "updated", TWO), (1, "updated", ONE), (1, "updated", TWO))
    assert check(changes, backwards).invented


def test_truncated_line_is_ignored(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    assert lines(journal) == []
    journal.write_text('{"run":1,"kind":"new","index":1,"state":["1","Oakland"]}\n{"run":1,"ki')
    assert lines(journal) == delivered((1, "new", ONE))
