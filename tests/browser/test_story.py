"""The board, used by a person while a real bot works."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import httpx
import pytest
from playwright.sync_api import Page, expect
from tests.browser.conftest import OpenWindow, Serve, Served, Window, until

pytestmark = pytest.mark.browser

LOST = "The answer to an offer gets lost"


def publish(page: Page) -> None:
    """Fill in the form with an example, and send it."""
    page.get_by_role("button", name="Fill in an example").click()
    page.get_by_role("button", name="Publish", exact=True).click()
    expect(page.get_by_label("Commodity")).to_be_empty()


def test_request_from_publication_to_contacts(window: Window, bot: Path) -> None:
    page = window.page
    expect(page.get_by_text("No request yet.")).to_be_visible()
    page.get_by_label("Commodity").fill("Ceramic tiles")
    page.get_by_label("From").fill("Hong Kong")
    page.get_by_label("To", exact=True).fill("Long Beach")
    page.get_by_label("Needed by").fill("2027-03-01")
    page.get_by_label("Quantity").fill("20")
    page.get_by_label("Weight each").fill("640")
    for label, size in {"Length": "1.2", "Width": "1", "Height": "0.9"}.items():
        page.get_by_label(label).fill(size)
    expect(page.locator("#sum")).to_have_text("Volume 21.60 m³ · gross weight 12,800 kg")
    page.get_by_role("button", name="Publish", exact=True).click()

    card = page.get_by_role("article", name="Hong Kong → Long Beach")
    expect(card).to_contain_text("Ceramic tiles · Shipping · 20 pallets · 21.60 m³ · 12,800 kg · FOB · by 1 Mar 2027")
    # What the bot's tariff makes of it, worked out by hand: 21.6 revenue tons at 62.40, and 45 for the documents.
    offer = card.get_by_role("row").filter(has_text="USD 1,392.84")
    expect(offer).to_contain_text("Ocean Freight 1,347.84 · Documents 45.00 · valid 14 days")
    expect(card).not_to_contain_text("forwarder@demo.example")
    expect(page.locator("#count-waiting")).to_have_text("1")

    offer.get_by_role("button", name="Approve the offer of USD 1,392.84 on FX000001").click()
    expect(card).to_contain_text("Fergus Forward · forwarder@demo.example")
    expect(card).to_contain_text("Sylvia Ship · shipper@demo.example")
    expect(card.get_by_text("Approved").first).to_be_visible()
    expect(page.locator("#count-selected")).to_have_text("1")
    until(lambda: "was selected: call Sylvia Ship <shipper@demo.example>" in bot.read_text())


def test_bot_recovers_from_a_lost_answer(window: Window, served: Served, bot: Path) -> None:
    page = window.page
    page.get_by_role("button", name=f"Switch on: {LOST}").click()
    expect(page.get_by_role("group", name="Switched on")).to_contain_text(LOST)
    publish(page)
    reactions = page.get_by_role("list", name="How callers reacted")
    expect(reactions).to_contain_text("forwarder submits an offer on FX000001; the exchange carried it out.")
    expect(reactions).to_contain_text("lists its own offers")
    until(lambda: "is no longer in doubt: it was found among your bids" in bot.read_text())
    expect(reactions).to_contain_text("One offer stands: recovered")
    expect(page.locator("#count-duplicates")).to_have_text("0")
    # The fault has struck, and is spent.
    expect(page.get_by_role("group", name="Switched on")).to_contain_text("Nothing is switched on")
    assert len(served.state()["requests"][0]["offers"]) == 1


def test_second_offer_after_a_lost_answer_is_counted(window: Window, served: Served) -> None:
    page = window.page
    publish(page)
    offer = {"requestIndex": 1, "offer": 900, "currencyIndex": 840}
    with served.client("forwarder") as careless:
        page.get_by_role("button", name=f"Switch on: {LOST}").click()
        until(lambda: len(served.state()["armed"]) == 1)
        with pytest.raises(httpx.TransportError):
            careless.post("/quote/submitoffer", json=offer)
        careless.post("/quote/submitoffer", json=offer).raise_for_status()
    expect(page.get_by_role("list", name="How callers reacted")).to_contain_text("2 offers stand: sent more than once")
    expect(page.locator("#count-duplicates")).to_have_text("1")


def test_bot_recovers_from_an_outage(window: Window, bot: Path) -> None:
    page = window.page
    page.get_by_role("button", name="Switch on: The exchange is down").click()
    publish(page)
    expect(page.locator("#calls")).to_contain_text("Fault: The exchange is down")
    expect(page.get_by_text("Open, no offer yet")).to_be_visible()
    page.get_by_role("button", name="Switch off: The exchange is down").click()
    expect(page.get_by_text("1 offer waiting")).to_be_visible()


def test_bot_finds_every_request_under_small_random_pages(window: Window, served: Served, bot: Path) -> None:
    """The server lists one record per page, in random order."""
    page = window.page
    page.get_by_role("radio", name="Quirks").check()
    page.get_by_label("Maximum records in a page", exact=True).fill("1")
    page.keyboard.press("Tab")
    page.get_by_role("combobox", name="Order of the lists").select_option("random")
    on = page.get_by_role("group", name="Switched on")
    expect(on).to_contain_text("Maximum records in a page: 1")
    expect(on).to_contain_text("Order of the lists: random")
    served.examples(4)
    expect(page.locator("#count-waiting")).to_have_text("4")
    page.get_by_role("button", name="Switch off: Order of the lists: random").click()
    expect(page.get_by_role("combobox", name="Order of the lists")).to_have_value("newest")


def test_search_finds_every_fault(window: Window, served: Served) -> None:
    page = window.page
    page.get_by_label("Find a fault or quirk").fill("gzip")
    suggestions = page.locator("#suggestions li")
    expect(suggestions).to_have_count(6)
    expect(page.get_by_text("6 of 84 faults match.")).to_be_visible()
    page.get_by_text("Which calls, how often, and when").click()
    page.get_by_label("Operation").select_option("Listing own offers")
    page.get_by_label("How often").select_option("every call, until switched off")
    page.get_by_role("button", name="Switch on: Two layers of gzip").click()
    expect(page.get_by_role("group", name="Switched on")).to_contain_text("Listing own offers, until switched off")
    page.get_by_label("Moment").select_option("before it is carried out")
    page.get_by_role("button", name="Switch on: Two layers of gzip").click()
    expect(page.get_by_role("alert").filter(has_text="cannot strike")).to_be_visible()
    window.forgive("status of 400")
    page.get_by_label("Find a fault or quirk").fill("no such thing")
    expect(page.get_by_text("None of 84 faults matches.")).to_be_visible()


def test_refusal_is_shown_at_its_field(window: Window) -> None:
    page = window.page
    page.get_by_role("button", name="Fill in an example").click()
    page.get_by_label("Commodity").fill("   ")
    page.get_by_role("button", name="Publish", exact=True).click()
    expect(page.locator("#publish-error")).to_have_text("The field commodityname must be a text.")
    field = page.get_by_label("Commodity")
    expect(field).to_be_focused()
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(field).to_have_accessible_description("The field commodityname must be a text.")
    window.forgive("status of 400")


def test_number_fields_accept_browser_notation(window: Window) -> None:
    page = window.page
    page.get_by_role("button", name="Fill in an example").click()
    page.get_by_label("Quantity").fill("1e3")
    page.get_by_label("Weight each").fill(".5")
    page.get_by_role("button", name="Publish", exact=True).click()
    expect(page.get_by_role("article")).to_contain_text("1,000 pallets")
    expect(page.get_by_role("article")).to_contain_text("500 kg")


def test_double_click_publishes_once(window: Window, served: Served) -> None:
    page = window.page
    page.get_by_role("button", name="Fill in an example").click()
    page.evaluate(
        """() => {
          const form = document.getElementById("publish");
          form.requestSubmit();
          form.requestSubmit();
          document.getElementById("f-commodityname").value = "The next cargo";
        }"""
    )
    expect(page.get_by_role("article")).to_have_count(1)
    expect(page.get_by_role("button", name="Publish", exact=True)).not_to_have_attribute("aria-disabled", "true")
    expect(page.get_by_label("Commodity")).to_have_value("The next cargo")
    assert len(served.state()["requests"]) == 1


def test_filter_and_search_of_requests(window: Window, served: Served) -> None:
    page = window.page
    served.examples(4)
    served.ask("offer_as_rival", request=2)
    served.ask("respond", offer=5001, approved=1)
    cards = page.get_by_role("article")
    expect(cards).to_have_count(4)
    for name, count in {"Open": 3, "With offers": 1, "Approved": 1, "All": 4}.items():
        page.get_by_role("radio", name=name).check()
        expect(cards).to_have_count(count)
    page.get_by_label("Find a request").fill("rotter")
    expect(cards).to_have_count(1)
    page.get_by_label("Find a request").fill("nowhere")
    expect(page.get_by_text("No request matches.")).to_be_visible()


def test_page_follows_a_restarted_exchange(serve: Serve, open_window: OpenWindow, tmp_path: Path) -> None:
    """The page reports that the exchange is away, and continues when it is back with the saved state."""
    kept = ("--state", str(tmp_path / "exchange.db"))
    served = serve(*kept)
    window = open_window(served.board)
    served.examples(2)
    served.ask("offer_as_rival", request=1)
    expect(window.page.get_by_role("article")).to_have_count(2)
    served.process.kill()
    served.process.wait()
    expect(window.page.locator("#link-words")).to_have_text("Not connected")
    again = serve(*kept, port=served.port)
    expect(window.page.locator("#link-words")).to_have_text("Live")
    again.examples(1)
    expect(window.page.get_by_role("article")).to_have_count(3)
    expect(window.page.get_by_role("article").get_by_text("1 offer waiting")).to_be_visible()
    window.forgive("net::ERR_")


def test_connection_error_disappears_after_reconnect(serve: Serve, open_window: OpenWindow) -> None:
    served = serve()
    window = open_window(served.board)
    page = window.page
    page.get_by_role("button", name="Fill in an example").click()
    served.process.kill()
    served.process.wait()
    page.get_by_role("button", name="Publish", exact=True).click()
    expect(page.locator("#publish-error")).to_have_text("The exchange does not answer. Is it still running?")
    expect(page.locator("#link-words")).to_have_text("Not connected")
    serve(port=served.port)
    expect(page.locator("#link-words")).to_have_text("Live")
    expect(page.locator("#publish-error")).to_be_empty()
    window.forgive("net::ERR_")


def test_two_windows_show_the_same_state(served: Served, open_window: OpenWindow) -> None:
    one, other = open_window(served.board).page, open_window(served.board).page
    publish(one)
    other.get_by_role("button", name="Let the rival make an offer on FX000001").click()
    one.get_by_role("button", name="Decline").click()
    expect(other.get_by_text("Declined")).to_be_visible()


def test_connection_line_can_be_copied(window: Window, served: Served) -> None:
    page = window.page
    button = page.get_by_role("button", name="Connect a bot")
    expect(button).to_have_attribute("aria-expanded", "false")
    button.click()
    expect(button).to_have_attribute("aria-expanded", "true")
    expect(page.locator("#paste")).to_have_text(
        f"export FREIGHT_EXCHANGE_URL={served.url} FREIGHT_EXCHANGE_EMAIL=forwarder@demo.example"
        " FREIGHT_EXCHANGE_PASSWORD=forwarder"
    )
    expect(page.get_by_role("table", name="Accounts of this exchange").get_by_role("row")).to_have_count(4)


def test_pictures_of_the_documentation_can_be_taken(
    served: Served, open_window: OpenWindow, bot: Path, tmp_path: Path
) -> None:
    """`make browser PICTURES=docs/img` renews the pictures of the documentation."""
    folder = Path(os.environ.get("PICTURES") or tmp_path)
    page = open_window(served.board, width=1280, height=860, device_scale_factor=1.5).page

    def picture(name: str, scale: Literal["css", "device"] = "css") -> None:
        page.mouse.move(640, 400)
        page.wait_for_timeout(1700)  # until what has arrived looks as it will stay
        page.screenshot(path=folder / f"board-{name}.png", scale=scale)
        assert (folder / f"board-{name}.png").stat().st_size > 20_000

    picture("empty")
    served.examples(3)
    expect(page.get_by_text("1 offer waiting")).to_have_count(3)
    page.get_by_role("button", name=f"Switch on: {LOST}").click()
    served.examples(4, first=3)
    expect(page.get_by_text("One offer stands: recovered")).to_be_visible()
    # There is no tariff for the sixth.
    expect(page.get_by_text("Your bot")).to_have_count(6)
    served.ask("offer_as_rival", request=7)
    served.ask("set_quirk", name="order", value="random")
    expect(page.get_by_text("2 offers waiting")).to_be_visible()
    expect(page.get_by_role("group", name="Switched on")).to_contain_text("Order of the lists: random")
    picture("busy", "device")
    page.get_by_role("row").filter(has_text="Your bot").first.get_by_role("button", name="Approve").click()
    expect(page.get_by_text("The forwarder, named to the shipper")).to_be_visible()
    picture("approved")
    page.get_by_label("Colours").select_option("dark")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    picture("dark")
