"""The board over HTTP: its page, its state as JSON, and its actions."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import Any, Final

from freight_sandbox.board.controller import BoardController
from freight_sandbox.board.guard import is_known_host, permit_change, permit_read
from freight_sandbox.board.labels import catalogue
from freight_sandbox.board.view import snapshot
from freight_sandbox.codec import decode
from freight_sandbox.fields import Fields, Refusal, read_number
from freight_sandbox.samples import samples
from freight_sandbox.wire import Call, Reply

__all__ = ["PATH", "Board"]

PATH: Final = "board"

_FILES: Final = {
    PATH: ("board.html", "text/html; charset=utf-8"),
    f"{PATH}/board.css": ("board.css", "text/css; charset=utf-8"),
    f"{PATH}/board.js": ("board.js", "text/javascript; charset=utf-8"),
    f"{PATH}/icon.svg": ("icon.svg", "image/svg+xml"),
}
_HEADERS: Final = (
    # No foreign or inline scripts: text that gets past the escaping still cannot run.
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
    ),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cache-control", "no-store"),
)
_POLL_TIMEOUT: Final = 20.0
_MAX_BODY: Final = 100_000
_SAMPLES: Final = 8


class Board:
    """Page and actions of the board, for `serve(site=...)`.

    Args:
        controller: The exchange to show.

    Attributes:
        url: The API root that the page shows. It is set when the server has its port.
    """

    def __init__(self, controller: BoardController) -> None:
        self.url = ""
        self._controller = controller
        self._pages = {path: (_content(name), kind) for path, (name, kind) in _FILES.items()}
        self._actions: Mapping[str, Callable[[Fields], None]] = {
            "requests": self._publish,
            "withdraw": lambda fields: controller.withdraw(fields.integer("request")),
            "respond": self._respond,
            "offer_as_rival": lambda fields: controller.offer_as_rival(fields.integer("request")),
            "arm": self._arm,
            "disarm": lambda fields: controller.disarm(fields.integer("id") if "id" in fields else None),
            "set_quirk": lambda fields: controller.set_quirk(fields.text("name"), fields.get("value")),
            "reset_quirks": lambda fields: controller.reset_quirks(),
        }

    async def __call__(self, call: Call) -> Reply:
        if call.method == "HEAD":
            return _reply(405, b"")
        try:
            if not is_known_host(call.headers, self._controller.names):
                raise Refusal(421, "This server does not have that name.")
            if call.method == "POST":
                return self._run_action(call)
            if call.method != "GET":
                raise Refusal(405, "Method Not Allowed")
            return await self._show(call)
        except Refusal as refusal:
            return _json({"message": refusal.sentence, "field": refusal.field}, refusal.status)

    async def _show(self, call: Call) -> Reply:
        if call.path == "":
            return _reply(302, b"", ("location", f"/{PATH}"))
        if call.path in self._pages:
            content, kind = self._pages[call.path]
            return _reply(200, content, ("content-type", kind))
        if call.path == f"{PATH}/catalogue":
            permit_read(call.headers)
            return _json({**catalogue(), **self._connection()})
        if call.path == f"{PATH}/state":
            permit_read(call.headers)
            fields = Fields({}, call.query)
            await self._controller.wait_for_change(
                fields.integer("after", least=0) if "after" in fields else 0, _POLL_TIMEOUT
            )
            return _json(snapshot(self._controller))
        raise Refusal(404, "There is no such page. The board is at /board, the API under /api.")

    def _connection(self) -> dict[str, Any]:
        exchange = self._controller.exchange
        return {
            "url": self.url,
            "accounts": [
                {"email": account.email, "password": account.password, "name": account.name, "role": account.role}
                for account in exchange.accounts.values()
            ],
            "forwarder": exchange.forwarder.email,
            "samples": list(samples(_SAMPLES, self._controller.clock())),
        }

    def _run_action(self, call: Call) -> Reply:
        act = self._actions.get(call.path.removeprefix(f"{PATH}/"))
        if act is None:
            raise Refusal(404, "There is no such action.")
        permit_change(call.headers)
        if len(call.body) > _MAX_BODY:
            raise Refusal(413, "The body is too long.")
        try:
            values = decode(call.body)
        except ValueError:
            raise Refusal(400, "The body is not well-formed JSON.") from None
        if not isinstance(values, dict):
            raise Refusal(400, "The body must be a JSON object.")
        act(Fields(values, {}))
        return _json({"revision": self._controller.revision})

    def _publish(self, fields: Fields) -> None:
        self._controller.publish(fields.merged())

    def _respond(self, fields: Fields) -> None:
        self._controller.respond(fields.integer("offer"), approved=bool(fields.integer("approved", least=0, most=1)))

    def _arm(self, fields: Fields) -> None:
        processed = fields.get("processed")
        seconds = read_number(fields.get("seconds"))
        if processed is not None and not isinstance(processed, bool):
            raise Refusal(400, "The field processed must be true or false.", "processed")
        if seconds is not None and not 0 <= seconds <= 60:
            raise Refusal(400, "Give seconds from 0 to 60.", "seconds")
        self._controller.arm(
            fields.text("name"),
            operation=fields.optional_text("operation") or "",
            times=fields.integer("times", least=1, most=1000) if "times" in fields else None,
            processed=processed,
            seconds=float(seconds) if seconds is not None else None,
        )


def _content(name: str) -> bytes:
    return files("freight_sandbox.board").joinpath("page", name).read_bytes()


def _json(value: Mapping[str, Any], status: int = 200) -> Reply:
    """Make a JSON reply, without the codec of the exchange: a text with the codec's mark would become invalid JSON."""
    return _reply(status, json.dumps(value, default=float).encode("ascii"), ("content-type", "application/json"))


def _reply(status: int, body: bytes, *headers: tuple[str, str]) -> Reply:
    return Reply(status, (*headers, *_HEADERS), body)
