"""The judge of the kills can tell right from wrong."""

from __future__ import annotations

from pathlib import Path

from tests.crash.judge import Line, judge, lines

from freight_exchange.testing import Cargo, Sandbox

ONE, TWO = ("1", "Oakland"), ("2", "Oakland")


def market(*, withdrawn: bool = False) -> Sandbox:
    """A request that was in state one, two, and one again, and then perhaps withdrawn."""
    sandbox = Sandbox()
    index = sandbox.publish(Cargo(quantity=1, destination="Oakland"))
    sandbox.exchange.touch(index, 1.0)
    sandbox.exchange.update(index, 2.0, Cargo(quantity=2, destination="Oakland"))
    sandbox.exchange.update(index, 3.0, Cargo(quantity=1, destination="Oakland"))
    if withdrawn:
        sandbox.exchange.withdraw(index, 4.0)
    return sandbox


def handed(*states: tuple[int, str, tuple[str, ...]]) -> list[Line]:
    return [Line(life, kind, 1, state) for life, kind, state in states]


def test_all_that_happened_is_good_and_so_are_states_that_nobody_saw() -> None:
    changes = market().audit_log.changes
    for written in (
        handed((1, "new", ONE), (1, "updated", TWO), (2, "updated", ONE)),
        handed((1, "new", TWO), (1, "updated", ONE)),
        handed((1, "new", ONE)),
    ):
        verdict = judge(changes, written)
        assert verdict.good, verdict
        assert (verdict.published, verdict.changed, verdict.withdrawn) == (1, 2, 0)


def test_a_last_state_that_was_not_handed_out_is_missed() -> None:
    assert judge(market().audit_log.changes, handed((1, "new", ONE), (1, "updated", TWO))).missed
    assert judge(market().audit_log.changes, []).missed
    assert judge(market(withdrawn=True).audit_log.changes, handed((1, "new", ONE))).missed
    assert judge(market(withdrawn=True).audit_log.changes, handed((1, "new", ONE), (1, "withdrawn", ONE))).good
    assert judge(market(withdrawn=True).audit_log.changes, []).good


def test_only_what_was_in_hand_at_a_kill_comes_again() -> None:
    changes = market().audit_log.changes
    again = judge(changes, handed((1, "new", ONE), (2, "new", ONE)))
    assert again.good
    assert again.again == 1
    assert judge(changes, handed((1, "new", ONE), (1, "new", ONE))).repeated
    other = market()
    other.publish(Cargo(quantity=1, destination="Oakland"))
    between = [*handed((1, "new", ONE)), Line(1, "new", 2, ONE), *handed((2, "new", ONE))]
    assert judge(other.audit_log.changes, between).repeated


def test_what_never_was_is_invented_and_so_is_what_comes_too_late() -> None:
    changes = market().audit_log.changes
    assert judge(changes, handed((1, "new", ("3", "Oakland")), (1, "updated", ONE))).invented
    assert judge(changes, [*handed((1, "new", ONE)), Line(1, "new", 7, ONE)]).invented
    assert judge(changes, [*handed((1, "new", ONE)), Line(1, "gap", None, ())]).invented
    backwards = handed((1, "new", ONE), (1, "updated", TWO), (1, "updated", ONE), (1, "updated", TWO))
    assert judge(changes, backwards).invented


def test_a_line_that_was_cut_off_was_not_written(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    assert lines(journal) == []
    journal.write_text('{"life":1,"kind":"new","index":1,"state":["1","Oakland"]}\n{"life":1,"ki')
    assert lines(journal) == handed((1, "new", ONE))
