"""The axe-core rules for accessibility, run in the page."""

from __future__ import annotations

from typing import Any

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page

__all__ = ["violations"]


def violations(page: Page) -> list[str]:
    """Return what axe finds, a line for each rule and element."""
    # Evaluated by the browser's own debugger, which the page's content security policy does not stop.
    page.evaluate(AXE_SCRIPT)
    found: dict[str, Any] = page.evaluate("() => axe.run({ resultTypes: ['violations'] })")
    assert len(found["passes"]) > 20
    return [
        f"{rule['id']} ({rule['impact']}): {' '.join(map(str, node['target']))}: {node['failureSummary']}"
        for rule in found["violations"]
        for node in rule["nodes"]
    ]
