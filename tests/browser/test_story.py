"""The board, used by a person while a real bot works."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from tests.browser.conftest import OpenPage, Serve, Served

pytestmark = pytest.mark.browser

LOST = "The answer to an offer gets lost"
FOCUS = "document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent.trim()"


def tab_to(page: Page, words: str, *, key: str = "Tab") -> None:
    """Press Tab until the element has the focus, as a person without a mouse does."""
    for _ in range(120):
        page.keyboard.press(key)
        if str(page.evaluate(FOCUS)).startswith(words):
            return
    raise AssertionError(f"{words!r} cannot be reached by keyboard")


def test_shipper_publishes_changes_strikes_and_approves(
    served: Served, open_page: OpenPage, bot: Path, tmp_path: Path
) -> None:
    """`PICTURES=docs/img make browser` renews the pictures of the documentation."""
    page = open_page(served.board, device_scale_factor=1.5)
    folder = Path(os.environ.get("PICTURES") or tmp_path)

    def picture(name: str) -> None:
        page.mouse.move(640, 400)
        page.wait_for_timeout(300)
        page.screenshot(path=folder / f"board-{name}.png", scale="device" if name == "busy" else "css")

    expect(page.get_by_text("1 offer waiting")).to_have_count(3)

    # Publish, by keyboard alone
    page.locator("#requests-title").focus()
    tab_to(page, "Publish a request", key="Shift+Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_label("Commodity")).to_be_focused()
    page.keyboard.type("Half a senten")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert page.evaluate(FOCUS) == "Publish a request"
    page.keyboard.press("Enter")
    expect(page.get_by_label("Commodity")).to_have_value("Half a senten")
    tab_to(page, "Fill in an example")
    page.keyboard.press("Space")
    picture("publish")
    page.get_by_label("Commodity").press("Enter")
    card = page.get_by_role("article").first
    expect(card).to_contain_text("Ceramic tiles · Shipping · 20 pallets · 21.60 m³ · 12,800 kg · FOB · by 20")
    # What the bot's tariff makes of it, worked out by hand: 21.6 revenue tons at 62.40, and 45 for the documents.
    offer = card.get_by_role("row").filter(has_text="USD 1,392.84")
    expect(offer).to_contain_text("Ocean Freight 1,347.84 · Documents 45.00 · valid 14 days")
    expect(offer).to_contain_text("Your bot")
    expect(page.locator("#news")).to_contain_text("You have published Ceramic tiles.")

    # Change, and a lower offer
    card.get_by_role("button", name="Change FX000004").click()
    page.get_by_label("Quantity").fill("0")
    page.get_by_label("Quantity").press("Enter")
    expect(page.get_by_role("dialog", name="Change FX000004")).to_be_visible()
    page.get_by_label("Quantity").fill("30")
    page.get_by_label("Quantity").press("Enter")
    expect(card).to_contain_text("30 pallets · 32.40 m³ · 19,200 kg")
    card.get_by_role("button", name="Let the rival make an offer on FX000004").click()
    expect(card.get_by_role("row").filter(has_text="Lowest")).to_contain_text("valid 7 days")

    # A fault, and what the bot makes of it
    page.get_by_role("button", name=f"Switch on: {LOST}").click()
    expect(page.get_by_role("group", name="Switched on")).to_contain_text(LOST)
    page.get_by_role("combobox", name="Order of the lists").select_option("random")
    expect(page.get_by_role("group", name="Switched on")).to_contain_text("Order of the lists: random")
    page.get_by_role("button", name="Publish a request").click()
    page.get_by_role("button", name="Fill in an example").click()
    page.get_by_role("button", name="Publish", exact=True).click()
    strike = page.locator("#strikes > li")
    expect(strike).to_contain_text("forwarder submits an offer on FX000005; the exchange carried it out.")
    expect(strike).to_contain_text("One offer stands: recovered")
    expect(page.locator("#count-duplicates")).to_have_text("0")
    expect(page.locator("#calls")).to_contain_text(f"Fault: {LOST}")
    picture("busy")

    # Approval, and the focus on what is left of its button
    offer = card.page.get_by_role("article").filter(has_text="FX000004").get_by_role("row").filter(has_text="Your bot")
    offer.first.get_by_role("button", name="Approve").press("Enter")
    approved = page.get_by_role("article").filter(has_text="FX000004")
    expect(approved).to_contain_text("Forwarder: Fergus Forward · forwarder@demo.example")
    expect(page.get_by_role("heading", name="Hong Kong → Long Beach").first).to_be_focused()
    page.get_by_label("Show", exact=True).select_option("selected")
    expect(page.get_by_role("article")).to_have_count(1)
    page.get_by_label("Find a request").fill("nowhere")
    expect(page.get_by_text("No request matches.")).to_be_visible()
    page.get_by_label("Find a request").fill("")
    picture("approved")
    page.emulate_media(color_scheme="dark")
    page.get_by_label("Show", exact=True).select_option("all")
    picture("dark")


def test_refused_quirk_is_set_back_with_the_reason(served: Served, open_page: OpenPage) -> None:
    page = open_page(served.board)
    field = page.get_by_label("Maximum records in a page", exact=True)
    field.fill("7")
    field.press("Tab")
    expect(page.get_by_role("group", name="Switched on")).to_contain_text("Maximum records in a page: 7")
    page.get_by_label("Find a fault or quirk").fill("rows clamp")
    expect(page.locator("#search-count")).to_contain_text("0 of 84 faults")
    field.press("End")
    field.press_sequentially("e")
    field.press("Tab")
    expect(page.locator("#problem")).to_have_text("Maximum records in a page: give a number.")
    expect(field).to_have_value("7")


def test_page_follows_a_restarted_exchange(serve: Serve, open_page: OpenPage, tmp_path: Path) -> None:
    kept = ("--state", str(tmp_path / "exchange.journal"), "--requests", "2")
    served = serve(*kept)
    page = open_page(served.board)
    served.process.kill()
    served.process.wait()
    expect(page.locator("#link-words")).to_have_text("Not connected")
    expect(page.locator("#problem")).to_be_visible()
    page.get_by_role("button", name="Withdraw FX000002").click()
    again = serve(*kept, port=int(served.url.rpartition(":")[2].removesuffix("/api")))
    expect(page.locator("#link-words")).to_have_text("Live")
    expect(page.locator("#problem")).to_be_hidden()
    again.ask("change", request=1, quantity=77)
    expect(page.get_by_role("article").last).to_contain_text("77 pallets")
    expect(page.get_by_role("article")).to_have_count(2)
