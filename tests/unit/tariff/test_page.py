"""The guide to tariffs: its blocks, run as one program against the sandbox."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path

import pytest

from freight_exchange.testing import Cargo, Sandbox

PAGE = (Path(__file__).parents[3] / "docs" / "tariff.md").read_text(encoding="utf-8")


async def test_page_quotes_and_its_bot_offers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (file,) = re.findall(r"```csv\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "tariff.csv").write_text(file, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    program: dict[str, object] = {"__name__": "my_bot"}
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)).replace('store="bot.db"', "store=None")
    exec(compile(code, "tariff.md", "exec", dont_inherit=True), program)  # the page is ours
    assert (
        capsys.readouterr().out == "1297.80 USD {'Ocean Freight': Decimal('1252.80'), 'Documents': Decimal('45.00')}\n"
    )
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
