"""The board over HTTP: one page, what it shows, and what it asks for."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import Any, Final

from freight_exchange.sandbox.board.controller import BoardController
from freight_exchange.sandbox.board.guard import known_host, permit_change, permit_look
from freight_exchange.sandbox.board.samples import samples
from freight_exchange.sandbox.board.view import snapshot
from freight_exchange.sandbox.board.words import catalogue
from freight_exchange.sandbox.core.validation import Fields, Refusal, read_number
from freight_exchange.sandbox.model.messages import Call, Reply
from freight_exchange.sandbox.rendering.codec import decode

__all__ = ["PATH", "Board"]

PATH: Final = "board"

_FILES: Final = {
    PATH: ("board.html", "text/html; charset=utf-8"),
    f"{PATH}/board.css": ("board.css", "text/css; charset=utf-8"),
    f"{PATH}/board.js": ("board.js", "text/javascript; charset=utf-8"),
    f"{PATH}/icon.svg": ("icon.svg", "image/svg+xml"),
}
_HEADERS: Final = (
    # Nothing from elsewhere, nothing inline: a text that gets past the escaping still runs nothing.
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
_PATIENCE: Final = 20.0
_LARGEST: Final = 100_000
_SAMPLES: Final = 8


class Board:
    """Answers what lies outside the API, for `serve_tcp(site=...)`.

    Args:
        desk: The exchange.

    Attributes:
        url: The API root that the page tells people to use: to be set when the server knows it.
    """

    def __init__(self, desk: BoardController) -> None:
        self.url = ""
        self._desk = desk
        self._pages = {path: (_content(name), kind) for path, (name, kind) in _FILES.items()}
        self._acts: Mapping[str, Callable[[Fields], None]] = {
            "requests": self._publish,
            "withdraw": lambda fields: desk.withdraw(fields.integer("request")),
            "respond": self._respond,
            "compete": lambda fields: desk.compete(fields.integer("request")),
            "arm": self._arm,
            "disarm": lambda fields: desk.disarm(fields.integer("id") if "id" in fields else None),
            "turn": lambda fields: desk.turn(fields.text("name"), fields.get("value")),
            "straighten": lambda fields: desk.straighten(),
        }

    async def __call__(self, call: Call) -> Reply:
        if call.method == "HEAD":
            return _reply(405, b"")
        try:
            if not known_host(call.headers, self._desk.names):
                raise Refusal(421, "This server does not go by that name.")
            if call.method == "POST":
                return self._act(call)
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
            permit_look(call.headers)
            return _json({**catalogue(), **self._connection()})
        if call.path == f"{PATH}/state":
            permit_look(call.headers)
            fields = Fields({}, call.query)
            await self._desk.news(fields.integer("after", least=0) if "after" in fields else 0, _PATIENCE)
            return _json(snapshot(self._desk))
        raise Refusal(404, "There is no such page. The board is at /board, the API under /api.")

    def _connection(self) -> dict[str, Any]:
        exchange, database = self._desk.exchange, self._desk.exchange.database
        return {
            "url": self.url,
            "accounts": [
                {"email": account.email, "password": account.password, "name": account.name, "role": account.role}
                for account in database.accounts.values()
            ],
            "forwarder": exchange.forwarder.email,
            "samples": list(samples(_SAMPLES, self._desk.clock())),
        }

    def _act(self, call: Call) -> Reply:
        act = self._acts.get(call.path.removeprefix(f"{PATH}/"))
        if act is None:
            raise Refusal(404, "There is no such thing to do.")
        permit_change(call.headers)
        if len(call.body) > _LARGEST:
            raise Refusal(413, "That is too long.")
        try:
            values = decode(call.body)
        except ValueError:
            raise Refusal(400, "The body is not well-formed JSON.") from None
        if not isinstance(values, dict):
            raise Refusal(400, "The body must be a JSON object.")
        act(Fields(values, {}))
        return _json({"revision": self._desk.revision})

    def _publish(self, fields: Fields) -> None:
        self._desk.publish(fields.merged())

    def _respond(self, fields: Fields) -> None:
        self._desk.respond(fields.integer("offer"), approved=bool(fields.integer("approved", least=0, most=1)))

    def _arm(self, fields: Fields) -> None:
        processed = fields.get("processed")
        seconds = read_number(fields.get("seconds"))
        if processed is not None and not isinstance(processed, bool):
            raise Refusal(400, "The field processed must be true or false.", "processed")
        if seconds is not None and not 0 <= seconds <= 60:
            raise Refusal(400, "Give seconds from 0 to 60.", "seconds")
        self._desk.arm(
            fields.text("name"),
            operation=fields.optional_text("operation") or "",
            times=fields.integer("times", least=1, most=1000) if "times" in fields else None,
            processed=processed,
            seconds=float(seconds) if seconds is not None else None,
        )


def _content(name: str) -> bytes:
    return files("freight_exchange.sandbox.board").joinpath("page", name).read_bytes()


def _json(value: Mapping[str, Any], status: int = 200) -> Reply:
    """Not by the exchange's own codec, which lets a text stand where a number should: the page must read all of it."""
    return _reply(status, json.dumps(value, default=float).encode("ascii"), ("content-type", "application/json"))


def _reply(status: int, body: bytes, *headers: tuple[str, str]) -> Reply:
    return Reply(status, (*headers, *_HEADERS), body)
