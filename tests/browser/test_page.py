"""Accessibility and layout of the board, on a desk and on a phone."""

from __future__ import annotations

import re
from typing import Any

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page, expect
from tests.browser.conftest import OpenPage, Served

pytestmark = pytest.mark.browser

MARKUP = "<img src=x onerror=alert(1)><script>alert(2)</script>'\"&amp;\u202e"
OUTSIDE = """() => [...document.querySelectorAll("body *")]
  .filter((it) => !it.closest(".hidden") && it.checkVisibility())
  .filter((it) => it.getBoundingClientRect().right > innerWidth + 1)
  .map((it) => it.outerHTML.slice(0, 100))"""
SMALL = """() => [...document.querySelectorAll("button, select, input:not([type=checkbox])")]
  .filter((it) => it.checkVisibility() && it.getBoundingClientRect().height < 24).map((it) => it.outerHTML)"""
CLIPPED = """() => [...document.querySelectorAll("dialog input[type=number], dialog input[type=date]")]
  .filter((it) => it.scrollWidth > it.clientWidth).map((it) => `${it.name}: ${it.value}`)"""


def violations(page: Page) -> list[str]:
    """Return what axe finds, a line for each rule and element."""
    # Evaluated by the browser's own debugger, which the page's content security policy does not stop.
    page.evaluate(AXE_SCRIPT)
    found: dict[str, Any] = page.evaluate("() => axe.run({ resultTypes: ['violations'] })")
    assert len(found["passes"]) > 15
    return [
        f"{rule['id']} ({rule['impact']}): {' '.join(map(str, node['target']))}: {node['failureSummary']}"
        for rule in found["violations"]
        for node in rule["nodes"]
    ]


def fill(served: Served, page: Page) -> None:
    """Fill every part of the page."""
    for request in (1, 2):
        served.ask("offer_as_rival", request=request)
    served.ask("respond", offer=5001, approved=1)
    served.ask("respond", offer=5002, approved=0)
    served.ask("change", request=2, notes=MARKUP, origin=MARKUP)
    served.ask("withdraw", request=3)
    served.ask("set_quirk", name="order", value="random")
    served.ask("arm", name="unavailable", operation="submit", times=1)
    served.offer(2, 2, 2)
    served.ask("arm", name="slow", operation="", times=5)
    page.get_by_text("Which calls, how often, and when").click()
    expect(page.locator("#count-duplicates")).to_have_text("1")
    expect(page.get_by_role("article").nth(1)).to_contain_text(MARKUP)
    assert page.locator("main img, main script").count() == 0
    # The mark of direction in the origin does not turn the destination.
    expect(page.get_by_role("article").nth(1).locator("h3 bdi").last).to_have_text("Chicago")
    expect(page.locator("#calls")).to_contain_text("calls POST nowhere")
    expect(page.get_by_role("group", name="Switched on").get_by_role("button")).to_have_count(2)


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (390, "light")])
def test_page_passes_the_audit_and_fits_its_width(served: Served, open_page: OpenPage, width: int, scheme: str) -> None:
    page = open_page(served.board, width=width, color_scheme=scheme)
    assert violations(page) == []
    fill(served, page)
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert (page.evaluate(OUTSIDE), page.evaluate(SMALL)) == ([], [])
    for name, dialog in {"Change FX000002": "Change FX000002", "Connect a bot": "Connect a bot"}.items():
        page.get_by_role("button", name=name).click()
        expect(page.get_by_role("dialog", name=dialog)).to_be_visible()
        assert violations(page) == []
        assert (page.evaluate(OUTSIDE), page.evaluate(SMALL), page.evaluate(CLIPPED)) == ([], [], [])
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)


def test_audit_finds_faults(served: Served, open_page: OpenPage) -> None:
    """An audit that cannot fail would prove nothing."""
    page = open_page(served.board)
    page.evaluate(
        """() => {
          document.querySelector("main").append(document.createElement("button"));
          document.querySelector("#search-count").style.color = "#aaa";
          document.querySelector("main button").style.marginLeft = "200vw";
        }"""
    )
    assert {line.split()[0] for line in violations(page)} >= {"button-name", "color-contrast"}
    assert page.evaluate(OUTSIDE) != []


def test_header_has_one_line_and_stays_in_place(served: Served, open_page: OpenPage) -> None:
    page = open_page(served.board)
    places = """() => [...document.querySelectorAll("header > *, #counts > *, main > *, article time")].map((it) => {
      const { x, y, width } = it.getBoundingClientRect();
      return [x, y, width];
    })"""
    before = page.evaluate(places)
    # A time of day stays as it is. An age would change.
    for moment in page.locator("article time").all():
        expect(moment).to_have_text(re.compile(r"\b\d\d:\d\d$"))
    assert page.locator("header").evaluate("it => it.offsetHeight") < 50
    served.process.kill()
    served.process.wait()
    expect(page.locator("#link-words")).to_have_text("Not connected")
    assert page.evaluate(places) == before
    # Figures of a long session need more room.
    page.evaluate("""() => ["40", "120", "15", "300", "0"].forEach((figure, at) => {
      document.querySelectorAll("#counts dd")[at].textContent = figure;
    })""")
    assert page.locator("header").evaluate("it => it.offsetHeight") < 50
