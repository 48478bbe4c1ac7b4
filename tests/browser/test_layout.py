"""Layout of the board: fields, header, marks, and what a phone or a reload changes."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect
from tests.browser.conftest import OpenWindow, Serve, Served, Window

pytestmark = pytest.mark.browser

CLIPPED = """() => [...document.querySelectorAll("input:not([type=radio], [type=checkbox]), select")]
  .filter((field) => field.checkVisibility())
  .filter((field) => {
    if (field.matches("select, [type=date]")) {
      const roomy = field.cloneNode(true);
      roomy.value = field.value;
      field.after(roomy);
      roomy.className = "as-wide-as-its-words";
      const needed = roomy.getBoundingClientRect().width;
      roomy.remove();
      return needed > field.getBoundingClientRect().width + 0.5;
    }
    return field.scrollWidth > field.clientWidth;
  })
  .map((field) => `${field.id}: ${field.value}`)"""
ROOMY = ".as-wide-as-its-words { width: max-content !important; min-width: 0 !important; position: absolute; }"


def clipped(page: Page) -> list[str]:
    """Return the fields that are too narrow for their value, or for one of their choices."""
    page.evaluate(
        """(rules) => {
          const sheet = new CSSStyleSheet();
          sheet.replaceSync(rules);
          document.adoptedStyleSheets = [sheet];
        }""",
        ROOMY,
    )
    found: list[str] = page.evaluate(CLIPPED)
    return found


@pytest.mark.parametrize("width", [390, 1280, 1920])
def test_no_field_clips_its_value(served: Served, open_window: OpenWindow, width: int) -> None:
    page = open_window(served.board, width=width).page
    if width < 760:
        page.get_by_role("button", name="Publish a request").click()
    page.get_by_text("Which calls, how often, and when").click()
    for _ in range(8):
        page.get_by_role("button", name="Fill in an example").click()
        assert clipped(page) == []
    page.get_by_label("Quantity").fill("1000000")
    page.get_by_label("Weight each").fill("12345.678")
    page.get_by_label("Length").fill("12.192")
    page.get_by_role("radio", name="Quirks").check()
    assert clipped(page) == []
    page.get_by_label("From").fill("A place whose name is longer than this field on an ordinary screen")
    if width == 1280:
        assert len(clipped(page)) == 1


def test_header_stays_in_place_when_the_connection_is_lost(serve: Serve, open_window: OpenWindow) -> None:
    served = serve("--requests", "12")
    window = open_window(served.board, width=1280)
    places = """() => [...document.querySelectorAll("header > *, main > *")].map((it) => {
      const { x, y, width } = it.getBoundingClientRect();
      return [x, y, width];
    })"""
    before = window.page.evaluate(places)
    assert window.page.locator("header").evaluate("it => it.offsetHeight") < 50
    served.process.kill()
    served.process.wait()
    expect(window.page.locator("#link-words")).to_have_text("Not connected")
    expect(window.page.get_by_text("The exchange does not answer.").first).to_be_visible()
    assert window.page.evaluate(places) == before
    window.forgive("net::ERR_")


def test_offers_of_the_bot_are_marked(window: Window, served: Served) -> None:
    served.examples(1)
    with served.client("forwarder") as forwarder:
        forwarder.post("/quote/submitoffer", json={"requestIndex": 1, "offer": 900, "currencyIndex": 840})
    served.ask("offer_as_rival", request=1)
    rows = window.page.get_by_role("table", name="Offers on FX000001").get_by_role("row")
    expect(rows.filter(has_text="USD 900.00")).to_contain_text("Your bot")
    expect(rows.filter(has_text="USD 873.00")).not_to_contain_text("Your bot")


def test_search_counts_its_matches(window: Window) -> None:
    page = window.page
    search = page.get_by_label("Find a fault or quirk")
    count = page.locator("#suggestion-count")
    expect(count).to_have_text("12 of 84 faults. Search for the others, such as “login” or “gzip”.")
    search.fill("gzip")
    expect(count).to_have_text("6 of 84 faults match.")
    search.fill("two layers of gzip")
    expect(count).to_have_text("1 of 84 faults matches.")
    page.get_by_role("radio", name="Quirks").check()
    expect(count).to_contain_text("None of ")
    search.fill("")
    expect(count).to_contain_text("Search for the others, such as “offer” or “date”.")


def test_phone_shows_requests_first_and_folds_the_form(served: Served, open_window: OpenWindow) -> None:
    served.examples(2)
    page = open_window(served.board, width=390, height=844, is_mobile=True, has_touch=True).page
    form = page.get_by_label("Commodity")
    expect(form).to_be_hidden()
    requests, fold = page.locator("#requests-column").bounding_box(), page.locator("#publish-fold").bounding_box()
    assert requests is not None
    assert fold is not None
    assert requests["y"] + requests["height"] <= fold["y"]
    page.get_by_role("button", name="Publish a request").click()
    expect(form).to_be_focused()
    page.set_viewport_size({"width": 1280, "height": 844})
    expect(page.get_by_role("button", name="Publish a request")).to_be_hidden()
    expect(form).to_be_visible()


def test_half_typed_form_outlives_a_reload(window: Window) -> None:
    page = window.page
    page.get_by_role("button", name="Fill in an example").click()
    page.get_by_label("Commodity").fill("Half a senten")
    page.get_by_label("Service").select_option("Trucking")
    page.get_by_label("Dangerous goods").check()
    page.reload()
    expect(page.get_by_label("Commodity")).to_have_value("Half a senten")
    expect(page.get_by_label("Service")).to_have_value("Trucking")
    expect(page.get_by_label("Dangerous goods")).to_be_checked()
    expect(page.locator("#sum")).to_have_text("Volume 21.60 m³ · gross weight 12,800 kg")
    page.get_by_role("button", name="Publish", exact=True).click()
    expect(page.get_by_role("article")).to_have_count(1)
    page.reload()
    expect(page.get_by_label("Commodity")).to_be_empty()
    expect(page.get_by_label("Service")).to_have_value("Shipping")
    expect(page.get_by_label("Dangerous goods")).not_to_be_checked()
