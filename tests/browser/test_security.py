"""Protection of the board against markup in texts and pages of other sites."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import expect
from tests.browser.conftest import Served, Window

pytestmark = pytest.mark.browser

MARKUP = "<img src=x onerror=alert(1)><script>alert(2)</script>'\"&amp;\u202e{{7*7}}"


def test_markup_in_texts_is_not_interpreted(window: Window, served: Served) -> None:
    page = window.page
    sample = httpx.get(f"{served.board}/catalogue", trust_env=False).json()["samples"][0]
    words = dict.fromkeys(("commodityname", "origin", "destination", "notes"), MARKUP)
    served.ask("requests", **{**sample, **words})
    with served.client("forwarder") as forwarder:
        offer = {"requestIndex": 1, "offer": 5, "currencyIndex": 840, "terms": MARKUP, "rates": {MARKUP: 5}}
        forwarder.post("/quote/submitoffer", json=offer).raise_for_status()
        forwarder.post("/login", json={"email": MARKUP, "password": MARKUP})
        forwarder.post(f"/{MARKUP.replace('/', '')}", json={})
    expect(page.get_by_text("1 offer waiting")).to_be_visible()
    expect(page.get_by_role("article")).to_contain_text(f"{MARKUP} → {MARKUP}")
    expect(page.get_by_role("row").last).to_contain_text(f"{MARKUP} 5.00 · {MARKUP}")
    expect(page.locator("#calls")).to_contain_text("onerror")
    assert page.locator("main img, main script").count() == 0


@contextmanager
def another_site(content: str) -> Iterator[str]:
    """Serve a site on another port, which is another origin."""

    class Site(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(content.encode())

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Site)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


FORM = (Path(__file__).parent / "form.js").read_text(encoding="utf-8")
ATTACK = (Path(__file__).parent / "attack.js").read_text(encoding="utf-8")


def test_page_of_another_site_changes_and_reads_nothing(window: Window, served: Served) -> None:
    sample = httpx.get(f"{served.board}/catalogue", trust_env=False).json()["samples"][0]
    before = served.state()
    with another_site("<!DOCTYPE html><title>Elsewhere</title>") as elsewhere:
        page = window.page.context.new_page()
        page.goto(elsewhere)
        tries = page.evaluate(ATTACK, [served.board, json.dumps(sample)])
        # A form needs no script.
        with page.expect_navigation():
            page.evaluate(FORM, [served.board, json.dumps(sample)])
        expect(page.locator("body")).to_contain_text("Content-Type must be application/json.")
    # The login was answered unread: it is not among the calls.
    assert tries == [*["TypeError"] * 6, "opaque", "TypeError", "closed"]
    assert {**served.state(), "now": None} == {**before, "now": None}
