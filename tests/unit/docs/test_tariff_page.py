"""Test of the guide to tariffs: its bot offers by its tariff. `test_snippets.py` runs the blocks."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from tools.snippets.pages import ROOT, snippets_of

from freight_exchange.testing import Cargo, Sandbox


@pytest.mark.virtual_time
async def test_page_quotes_and_its_bot_offers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code = {snippet.name: snippet.code for snippet in snippets_of(ROOT / "docs" / "tariff.md")}
    (tmp_path / "tariff.csv").write_text(code["tariff.csv"], encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    exec(compile(code["price.py"], "price.py", "exec"), {})  # the page is ours
    assert (
        capsys.readouterr().out == "1297.80 USD {'Ocean Freight': Decimal('1252.80'), 'Documents': Decimal('45.00')}\n"
    )
    program: dict[str, object] = {"__name__": "quoting_bot"}
    exec(compile(code["quoting_bot.py"].replace('store="bot.db"', "store=None"), "quoting_bot.py", "exec"), program)
    sandbox = Sandbox()
    tiles = Cargo(
        destination="Long Beach", quantity=20, length=Decimal("1.2"), width=1, height=Decimal("0.9"), weight=640
    )
    async with sandbox.running(program["bot"]) as trial:  # type: ignore[arg-type]  # a name of the page
        await trial.idle()
        quoted = sandbox.publish(tiles)
        await trial.idle()
    (record,) = sandbox.audit_log.offers_on(quoted)
    assert record.offer.amount == Decimal("1297.80")
