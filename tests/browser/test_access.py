"""Accessibility of the board: keyboard, screen readers, colours and widths."""

from __future__ import annotations

import time
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, expect
from tests.browser.axe import violations
from tests.browser.conftest import OpenWindow, Serve, Served, Window, until

pytestmark = pytest.mark.browser

LOST = "The answer to an offer gets lost"
FOCUS = "document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent.trim()"

AUDIT = (Path(__file__).parent / "audit.js").read_text(encoding="utf-8")


def settled(served: Served, page: Page) -> None:
    """Fill every part of the page."""
    served.examples(5)
    for request in (1, 2, 3):
        served.ask("offer_as_rival", request=request)
    served.ask("respond", offer=5001, approved=1)
    served.ask("respond", offer=5002, approved=0)
    served.ask("withdraw", request=5)
    served.ask("set_quirk", name="order", value="random")
    served.ask("arm", name="reset_after_processing", operation="submit", times=1)
    with served.client("forwarder") as careless:
        with pytest.raises(httpx.TransportError):
            careless.post("/quote/submitoffer", json={"requestIndex": 4, "offer": 900, "currencyIndex": 840})
        careless.post("/quote/submitoffer", json={"requestIndex": 4, "offer": 900, "currencyIndex": 840})
        careless.post("/quote/submitoffer", json={"requestIndex": 3, "offer": 1, "currencyIndex": 840})
        careless.post("/nowhere", json={})
    served.ask("arm", name="slow", operation="", times=5)
    page.get_by_role("button", name="Connect a bot").click()
    page.get_by_text("Which calls, how often, and when").click()
    expect(page.locator("#count-duplicates")).to_have_text("1")
    expect(page.locator("#calls")).to_contain_text("calls POST nowhere")
    expect(page.get_by_role("group", name="Switched on").get_by_role("button")).to_have_count(2)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_passes_the_accessibility_audit(served: Served, open_window: OpenWindow, scheme: str) -> None:
    page = open_window(served.board, color_scheme=scheme).page
    empty = page.evaluate(AUDIT)
    assert (empty["faults"], empty["measured"] > 60) == ([], True)
    assert violations(page) == []
    settled(served, page)
    page.wait_for_timeout(1700)  # until what has arrived looks as it will stay
    expect(page.locator("html")).to_have_attribute("data-theme", scheme)
    for kind in ("Faults", "Quirks"):
        page.get_by_role("radio", name=kind).check()
        busy = page.evaluate(AUDIT)
        assert (busy["faults"], busy["measured"] > 150) == ([], True)
        assert violations(page) == []


def test_page_on_a_phone_passes_the_accessibility_audit(served: Served, open_window: OpenWindow) -> None:
    page = open_window(served.board, width=390, height=844, is_mobile=True, has_touch=True).page
    settled(served, page)
    page.wait_for_timeout(1700)  # until what has arrived looks as it will stay
    for _ in range(2):
        assert page.evaluate(AUDIT)["faults"] == []
        assert violations(page) == []
        page.locator("#publish-fold > summary").click()


def test_accessibility_audit_finds_faults(window: Window) -> None:
    """An audit that cannot fail would prove nothing."""
    page = window.page
    page.evaluate(
        """() => {
          const button = document.createElement("button");
          document.querySelector("main").append(button);
          document.querySelector("h2").id = "publish";
          document.querySelector(".hint").style.color = "#999";
        }"""
    )
    faults = " ".join(page.evaluate(AUDIT)["faults"])
    for found in ("no name: <button>", "the id publish twice", "points nowhere", "contrast 2.85"):
        assert found in faults
    assert {line.split()[0] for line in violations(page)} >= {"button-name", "color-contrast"}
    window.forgive("Applying inline style violates")


def tab_to(page: Page, words: str, *, key: str = "Tab") -> None:
    """Press Tab until the element has the focus, as a person without a mouse does."""
    for _ in range(120):
        page.keyboard.press(key)
        if str(page.evaluate(FOCUS)).startswith(words):
            return
    raise AssertionError(f"{words!r} cannot be reached by keyboard")


def test_keyboard_alone_is_enough(window: Window, bot: object) -> None:
    page = window.page
    tab_to(page, "Skip to the requests")
    page.keyboard.press("Shift+Tab")
    tab_to(page, "Fill in an example")
    page.keyboard.press("Space")
    page.keyboard.press("Shift+Tab")
    assert page.evaluate(FOCUS) == "Publish"
    page.keyboard.press("Enter")
    expect(page.get_by_label("Commodity")).to_be_focused()
    expect(page.get_by_text("1 offer waiting")).to_be_visible()
    tab_to(page, "Approve the offer of USD 1,392.84 on FX000001")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    page.keyboard.press("Enter")
    expect(page.get_by_role("article")).to_contain_text("Fergus Forward · forwarder@demo.example")
    # The button is gone; the focus is where its request is, and not lost.
    expect(page.get_by_role("heading", name="Hong Kong → Long Beach")).to_be_focused()
    tab_to(page, "Switch on: The exchange is down")
    page.keyboard.press("Enter")
    expect(page.get_by_role("group", name="Switched on")).to_contain_text("The exchange is down")
    tab_to(page, "Switch off: The exchange is down", key="Shift+Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("group", name="Switched on")).to_contain_text("Nothing is switched on")
    expect(page.get_by_role("heading", name="Faults and quirks")).to_be_focused()


def test_focus_survives_arrivals(window: Window, served: Served) -> None:
    page = window.page
    served.examples(1)
    served.ask("offer_as_rival", request=1)
    page.get_by_role("button", name="Decline").focus()
    served.examples(2)
    with served.client("forwarder") as forwarder:
        forwarder.post("/quote/submitoffer", json={"requestIndex": 1, "offer": 5, "currencyIndex": 840})
    expect(page.get_by_text("2 offers waiting")).to_be_visible()
    # The card was made anew around it.
    assert str(page.evaluate(FOCUS)).startswith("Decline the offer of USD 1,512.00")
    page.get_by_label("Notes").fill("half a sen")
    served.examples(1)
    expect(page.get_by_role("article")).to_have_count(4)
    expect(page.get_by_label("Notes")).to_be_focused()
    expect(page.get_by_label("Notes")).to_have_value("half a sen")


def test_focus_survives_removals_above(window: Window, served: Served) -> None:
    page = window.page
    served.examples(3)
    page.get_by_role("radio", name="Open").check()
    page.get_by_role("button", name="Withdraw FX000001").focus()
    served.ask("withdraw", request=3)
    expect(page.get_by_role("article")).to_have_count(2)
    assert page.evaluate(FOCUS) == "Withdraw FX000001"


def listen(page: Page) -> None:
    """Record what a screen reader announces."""
    page.evaluate(
        """() => {
          window.heard = [];
          const news = document.getElementById("news");
          new MutationObserver(() => window.heard.push(news.textContent)).observe(news, { childList: true });
        }"""
    )


def announcements(page: Page) -> list[str]:
    found: list[str] = page.evaluate("window.heard")
    return found


def announces(page: Page, sentence: str) -> None:
    """Wait for an announcement; check that nothing else was announced since the last one."""
    until(lambda: announcements(page) != [])
    assert announcements(page) == [sentence]
    page.evaluate("window.heard.length = 0")


def test_screen_reader_announces_own_actions(window: Window, served: Served) -> None:
    page = window.page
    listen(page)
    page.get_by_role("button", name="Fill in an example").click()
    announces(page, "The form is filled in with an example: Ceramic tiles, from Hong Kong to Long Beach.")
    page.get_by_role("button", name="Publish", exact=True).click()
    announces(page, "You have published Ceramic tiles, from Hong Kong to Long Beach.")
    served.examples(1)
    announces(page, "1 new request.")
    rival = page.get_by_role("button", name="Let the rival make an offer on FX000001")
    rival.click()
    announces(page, "The rival has made an offer on FX000001.")
    page.get_by_role("button", name="Decline").click()
    announces(page, "You have declined the offer of USD 1,512.00 on FX000001.")
    page.get_by_role("button", name="Let the rival make an offer on FX000002").click()
    announces(page, "The rival has made an offer on FX000002.")
    page.get_by_role("button", name="Approve").click()
    announces(
        page,
        "You have approved the offer of USD 1,512.00 on FX000002. Each side has the other's contact now.",
    )
    page.get_by_role("button", name="Withdraw FX000001").click()
    announces(page, "You have withdrawn FX000001.")
    page.get_by_role("button", name="Switch on: Slow answers").click()
    announces(page, "Switched on: Slow answers.")
    page.get_by_role("button", name="Switch off: Slow answers").click()
    announces(page, "Switched off: Slow answers.")
    page.get_by_role("radio", name="Quirks").check()
    announces(page, "12 quirks shown.")
    page.get_by_role("combobox", name="Order of the lists").select_option("random")
    announces(page, "Switched on: Order of the lists: random.")
    page.get_by_role("combobox", name="Order of the lists").select_option("newest")
    announces(page, "Switched off: Order of the lists.")
    page.get_by_role("radio", name="Approved").check()
    announces(page, "1 request shown.")
    page.get_by_label("Find a request").press_sequentially("nowhere")
    announces(page, "0 requests shown.")
    # None of it is news once more.
    page.wait_for_timeout(4000)
    assert announcements(page) == []


def test_screen_reader_announces_changes_by_others(window: Window, served: Served) -> None:
    page = window.page
    served.examples(3)
    for request in (1, 2, 3):
        served.ask("offer_as_rival", request=request)
    expect(page.get_by_text("1 offer waiting")).to_have_count(3)
    page.wait_for_timeout(4000)  # until all of that was announced
    listen(page)
    served.ask("respond", offer=5001, approved=0)
    served.ask("respond", offer=5002, approved=1)
    served.ask("withdraw", request=3)
    announces(page, "1 offer approved, 1 offer declined, 1 request withdrawn.")
    served.ask("arm", name="reset_after_processing", operation="submit", times=1)
    served.ask("arm", name="slow")
    served.ask("set_quirk", name="order", value="random")
    announces(page, f"Switched on: {LOST}, Slow answers, and Order of the lists: random.")
    with served.client("forwarder") as careless, pytest.raises(httpx.TransportError):
        careless.post("/quote/submitoffer", json={"requestIndex": 1, "offer": 900, "currencyIndex": 840})
    announces(page, f"1 new offer, 2 calls struck by a fault. Used up: {LOST}.")
    served.ask("disarm")
    served.ask("reset_quirks")
    announces(page, "Switched off: Slow answers and Order of the lists.")


def test_screen_reader_announces_lost_and_restored_connection(serve: Serve, open_window: OpenWindow) -> None:
    served = serve("--requests", "2")
    window = open_window(served.board)
    listen(window.page)
    served.process.kill()
    served.process.wait()
    announces(window.page, "The exchange does not answer. This page keeps trying.")
    # It counts from the beginning, and nothing has happened in it: the page must not wait for that.
    serve("--requests", "1", port=served.port)
    expect(window.page.locator("#link-words")).to_have_text("Live", timeout=10_000)
    announces(window.page, "The exchange is back: 1 open request, 0 offers waiting.")
    expect(window.page.get_by_role("article")).to_have_count(1)
    window.forgive("net::ERR_")


def test_refused_quirk_is_reset_with_the_reason(window: Window) -> None:
    page = window.page
    page.get_by_role("radio", name="Quirks").check()
    field = page.get_by_label("Maximum records in a page", exact=True)
    problem = page.locator("#faults-error")
    field.fill("7")
    field.press("Tab")
    expect(page.get_by_role("group", name="Switched on")).to_contain_text("Maximum records in a page: 7")
    field.fill("2.5")
    field.press("Tab")
    problem_text = (
        "Maximum records in a page: 2.5 was refused. Give a whole number from 1 to 10,000,000. The value is still 7."
    )
    expect(problem).to_have_text(problem_text)
    expect(field).to_have_value("7")
    expect(field).to_have_accessible_description(problem_text)
    field.press("End")
    field.press_sequentially("e")
    field.press("Tab")
    expect(problem).to_contain_text("what you wrote was refused. Give a number. The value is still 7.")
    expect(field).to_have_value("7")
    page.get_by_role("combobox", name="Order of the lists").select_option("random")
    expect(problem).to_be_empty()
    expect(field).to_have_accessible_description("")
    window.forgive("status of 400")


def test_screen_reader_gets_summaries_of_many_changes(window: Window, served: Served) -> None:
    page = window.page
    listen(page)
    began = time.monotonic()
    served.examples(20)
    for request in range(1, 11):
        served.ask("offer_as_rival", request=request)
    expect(page.locator("#count-waiting")).to_have_text("10")
    until(lambda: "10 new offers" in tallied(announcements(page)))
    # At most one in three seconds, however slow the machine is.
    assert len(announcements(page)) <= (time.monotonic() - began) / 3 + 1
    assert "20 new requests" in tallied(announcements(page))
    live = page.locator("[aria-live], [role=status], [role=alert]")
    assert {element.get_attribute("id") for element in live.all()} == {
        "news",
        "publish-error",
        "act-error",
        "faults-error",
    }


def tallied(announcements: list[str]) -> str:
    """Sum up announcements: "20 new requests, 10 new offers"."""
    sums: dict[str, int] = {}
    for sentence in announcements:
        for part in sentence.rstrip(".").split(", "):
            count, _, what = part.partition(" ")
            what = what if what.endswith("s") else f"{what}s"
            sums[what] = sums.get(what, 0) + int(count)
    return ", ".join(f"{count} {what}" for what, count in sums.items())


def test_reduced_motion_disables_animation(served: Served, open_window: OpenWindow) -> None:
    for motion, animated in (("reduce", "none"), ("no-preference", "arrive")):
        page = open_window(served.board, reduced_motion=motion).page
        count = page.get_by_role("article").count()
        served.examples(1)
        expect(page.get_by_role("article")).to_have_count(count + 1)
        assert page.locator("#requests > li").first.evaluate("it => getComputedStyle(it).animationName") == animated


@pytest.mark.parametrize("width", [320, 420, 800, 1024, 1280, 1920])
def test_page_fits_any_width(served: Served, open_window: OpenWindow, width: int) -> None:
    page = open_window(served.board, width=width).page
    settled(served, page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    wide = page.evaluate(
        """() => [...document.querySelectorAll("body *")]
          .filter((it) => !it.closest(".hidden, .skip, datalist, #paste") && it.checkVisibility())
          .filter((it) => it.getBoundingClientRect().right > innerWidth + 1)
          .map((it) => it.outerHTML.slice(0, 100))"""
    )
    assert wide == []


def test_chosen_colours_survive_a_reload(window: Window) -> None:
    page = window.page
    page.get_by_label("Colours").select_option("dark")
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    expect(page.get_by_label("Colours")).to_have_value("dark")


def test_dark_scheme_applies_before_the_script(served: Served, open_window: OpenWindow) -> None:
    page = open_window(served.board, color_scheme="dark").page
    ground = page.evaluate(
        """() => {
          delete document.documentElement.dataset.theme;
          return getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number);
        }"""
    )
    assert max(ground[:3]) < 64
