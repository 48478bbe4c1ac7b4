"""Updates that the checker dates by what replies lacked or showed before, and the nearest cases that stay undated."""

from __future__ import annotations

import pytest
from tests.model.servers.hand_made import FIRST, SECOND, WIDEST, HandMadeRun
from tests.model.servers.quirks import Empty, Quirks, Span

FALSE = "false withdrawal"
FEW = "absent from every reply of an interval, with few others"
FAILING = Quirks(empties=(Empty(Span(1000.0, 30_000.0), listings=True, lookups=True, share=0.95, form="object"),))
AN_HOUR = Quirks(windows="an hour", lookups_have_windows=True)


@pytest.mark.parametrize(
    ("before", "window", "excuse"),
    [
        pytest.param((800.0, 1700, 0), 800, FEW, id="lacked before"),
        pytest.param(None, 800, "", id="no scan before"),
        pytest.param((800.0, 300, 0), 800, "", id="a scan that did not look back as far"),
        pytest.param((800.0, 1700, 1), 800, "", id="a later page"),
        pytest.param((880.0, 1780, 0), 800, "", id="perhaps the first page of the same scan"),
        pytest.param((800.0, 1700, 0), 450, "", id="a window that begins after the scan before"),
    ],
)
def test_scans_that_lacked_a_request_before_it_was_listed_date_its_last_update(
    before: tuple[float, int, int] | None, window: int, excuse: str
) -> None:
    run = HandMadeRun(FAILING)
    run.listing(0.5, WIDEST)
    run.market.publish(100.0, FIRST)
    if before is not None:
        at, seconds, offset = before
        run.listing(at, seconds, offset=offset)
    run.listing(900.0, 1800, 1)
    run.report(900.0, "new", 1)
    run.listing(1200.0, window)
    run.listing(1500.0, 2400)
    run.look_up(1501.0, 1)
    run.report(1501.0, "withdrawn", 1)
    assert (FALSE, excuse) in run.findings


@pytest.mark.parametrize(("lacking", "excuse"), [(600.0, ""), (800.0, FEW)])
def test_scans_date_an_update_only_if_they_lacked_the_request_after_its_earlier_state(
    lacking: float, excuse: str
) -> None:
    run = HandMadeRun(FAILING)
    run.listing(0.5, WIDEST)
    run.market.publish(100.0, FIRST)
    run.market.update(300.0, 1, SECOND)
    for at in sorted((lacking, 700.0)):
        run.listing(at, int(at) + 900, *([1] if at == 700.0 else []), as_of=200.0)
    run.report(700.0, "new", 1)
    run.listing(920.0, 1820, 1)
    run.report(920.0, "updated", 1, SECOND)
    run.listing(1200.0, 480)
    run.listing(1500.0, 2400)
    run.look_up(1501.0, 1)
    run.report(1501.0, "withdrawn", 1, SECOND)
    assert (FALSE, excuse) in run.findings


@pytest.mark.parametrize(
    ("as_of", "lacking", "begin", "excuse"),
    [
        pytest.param(200.0, None, 640, FEW, id="an earlier state"),
        pytest.param(200.0, None, 650, "", id="a window that begins within the allowance"),
        pytest.param(400.0, None, 640, "", id="the same state"),
        pytest.param(200.0, 700, 790, FEW, id="lacked from then on"),
        pytest.param(200.0, 710, 790, "", id="a scan that did not look back as far"),
    ],
)
def test_reply_that_showed_an_earlier_state_dates_an_update(
    as_of: float, lacking: int | None, begin: int, excuse: str
) -> None:
    run = HandMadeRun(FAILING)
    run.market.publish(100.0, FIRST)
    run.market.update(300.0, 1, SECOND)
    run.listing(0.5, WIDEST)
    run.listing(700.0, 1600, 1, as_of=as_of)
    if lacking is not None:
        run.listing(850.0, 850 - lacking)
    run.listing(920.0, 1820, 1)
    run.report(920.0, "updated", 1, SECOND)
    run.listing(1200.0, 1200 - begin)
    run.listing(1500.0, 2400)
    run.look_up(1501.0, 1)
    run.report(1501.0, "withdrawn", 1, SECOND)
    assert (FALSE, excuse) in run.findings


@pytest.mark.parametrize(("before", "excuse"), [((), "hidden from all listings and look-ups"), ((1,), "")])
def test_state_that_was_shown_before_and_after_another_one_may_be_the_older_reply(
    before: tuple[int, ...], excuse: str
) -> None:
    run = HandMadeRun(AN_HOUR)
    run.market.publish(100.0, FIRST)
    run.market.update(300.0, 1, SECOND)
    run.listing(0.5, WIDEST)
    run.listing(600.0, 1600, *before)
    run.listing(700.0, 1600, 1, as_of=200.0)
    run.listing(920.0, 1820, 1)
    run.report(920.0, "updated", 1, SECOND)
    run.listing(4600.0, 3960)
    run.listing(4900.0, WIDEST)
    run.look_up(4901.0, 1)
    run.report(4901.0, "withdrawn", 1, SECOND)
    assert (FALSE, excuse) in run.findings
