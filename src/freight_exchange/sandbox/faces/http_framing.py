"""HTTP for all faces: conversion of requests to calls, and of replies to header fields and bodies."""

from __future__ import annotations

import http
from collections.abc import Iterable
from urllib.parse import parse_qsl

from freight_exchange.sandbox.model.messages import Call, Cut, Reply

__all__ = [
    "BASE_PATH",
    "EARLY_RESETS",
    "HALVED",
    "NOT_FOUND",
    "RESETS",
    "frame_headers",
    "half",
    "parse_call",
    "reason_phrase",
    "unsupported_cut",
]

BASE_PATH = "/api/"
NOT_FOUND = Reply(404, (("content-type", "text/html"),), b"<html><body><h1>Not Found</h1></body></html>")
EARLY_RESETS = frozenset({Cut.RESET_BEFORE_HEADERS, Cut.RESET_MID_BODY})
RESETS = EARLY_RESETS | {Cut.RESET_AFTER_SEND, Cut.RESET_AFTER_PROCESSING}
HALVED = frozenset({Cut.RESET_MID_REPLY, Cut.STALL_MID_REPLY, Cut.TRUNCATED_LENGTH, Cut.TRUNCATED_CHUNKS})
_PHRASES = {status.value: status.phrase.encode("ascii") for status in http.HTTPStatus}


def parse_call(
    method: str,
    path: str,
    query: str,
    headers: Iterable[tuple[bytes, bytes]],
    body: bytes,
    base_path: str = BASE_PATH,
) -> Call | None:
    """Make the call of a request, or `None` if its path is outside of the API."""
    if not path.startswith(base_path):
        return None
    named = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in headers}
    parameters = dict(parse_qsl(query, keep_blank_values=True)) if query else {}
    return Call(method, path[len(base_path) :], parameters, named, body)


def frame_headers(reply: Reply) -> list[tuple[bytes, bytes]]:
    """Return the reply's HTTP/1.1 header fields. The length of the body is wrong if the fault requires that."""
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in reply.headers]
    cut = None if reply.wire is None else reply.wire.cut
    if cut in HALVED:
        headers = [field for field in headers if field[0].lower() != b"content-length"]
        if cut is Cut.TRUNCATED_CHUNKS:
            return [*headers, (b"transfer-encoding", b"chunked")]
        return [*headers, (b"content-length", b"%d" % max(len(reply.body), 1))]
    if reply.status in (204, 304) or any(name.lower() == b"content-length" for name, _ in headers):
        return headers
    return [*headers, (b"content-length", b"%d" % len(reply.body))]


def half(reply: Reply) -> bytes:
    """Return the part of the body that a connection delivers before it breaks."""
    body: bytes = reply.body
    return body[: len(body) // 2]


def reason_phrase(status: int) -> bytes:
    """Return the reason phrase of a status."""
    return _PHRASES.get(status, b"")


def unsupported_cut(face: str, cut: Cut) -> Reply:
    """Make the reply for a cut that a face cannot perform, so that no test passes without its fault."""
    text = f'{{"message": "the sandbox\'s {face} face cannot perform the fault {cut.value}"}}'
    return Reply(500, (("content-type", "application/json"),), text.encode("ascii"))
