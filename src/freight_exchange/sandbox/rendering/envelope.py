"""HTTP reply around a JSON payload, under a profile."""

from __future__ import annotations

from collections.abc import Mapping

from freight_exchange.sandbox.model.messages import Reply
from freight_exchange.sandbox.model.profile import Profile
from freight_exchange.sandbox.rendering.codec import encode

__all__ = ["Envelope"]

_BOM = b"\xef\xbb\xbf"
_UNAUTHORIZED: Mapping[str, object] = {"null": None, "false": False, "empty": "", "zero": 0}


class Envelope:
    """Status, headers and body of the replies of one profile."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile

    def success(self, payload: object, status: int, *, is_empty: bool) -> Reply:
        """Wrap the payload of an operation that succeeded."""
        if self._profile.unauthorized_key != "absent" and isinstance(payload, dict):
            payload = {**payload, "Unauthorized": _UNAUTHORIZED[self._profile.unauthorized_key]}
        return self._reply(status, b"" if is_empty else encode(payload), self._profile.content_type)

    def refusal(self, status: int, sentence: str, field: str, key: str) -> Reply:
        """Wrap a refusal. `field` is the parameter at fault; `key` replaces the profile's key of the sentence."""
        form = self._profile.bad_request_body
        content_type: str = self._profile.content_type
        if key:
            body = encode({key: sentence})
        elif status != 400 or form == "message":
            body = encode({"message": sentence})
        elif form == "error":
            body = encode({"error": sentence})
        elif form == "errors":
            body = encode({"errors": {field or "body": [sentence]}})
        elif form == "text":
            body, content_type = sentence.encode(), "text/plain; charset=utf-8"
        else:
            body = b""
        return self._reply(status, body, content_type)

    def _reply(self, status: int, body: bytes, content_type: str) -> Reply:
        if self._profile.bom and body:
            body = _BOM + body
        headers = (("content-type", content_type),) if content_type and body else ()
        return Reply(status, headers, body, delay=self._profile.latency)
