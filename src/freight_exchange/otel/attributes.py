"""Attributes of spans: names of the semantic conventions if there are any, otherwise names under `freight_exchange`.

No attribute contains a body, a header of a request, a query string, or a price.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from freight_exchange.errors import FreightExchangeError
from freight_exchange.models import SubmitOffer

if TYPE_CHECKING:
    from freight_exchange.hooks import Attempt, Login, Retry, Scan
    from freight_exchange.instrumentation import CallInfo, HandlerRun, ScanInfo

__all__ = [
    "Attributes",
    "of_attempt",
    "of_call",
    "of_error",
    "of_handler",
    "of_login",
    "of_retry",
    "of_scan",
    "of_scan_result",
]

Attributes = dict[str, str | bool | int | float]

_FIRST_ERROR = 400
_PORTS: Mapping[str, int] = {"http": 80, "https": 443}


def of_call(call: CallInfo) -> Attributes:
    """Return the attributes of a call, those of an HTTP client."""
    parts = urlsplit(call.base_url)
    attributes: Attributes = {
        "http.request.method": call.method,
        "url.full": f"{call.base_url}/{call.path}",
        "url.template": f"{parts.path}/{call.path}",
        "server.address": parts.hostname or "",
        "server.port": parts.port or _PORTS.get(parts.scheme, 0),
        "freight_exchange.call.id": call.call_id,
    }
    if isinstance(call.write, SubmitOffer):
        attributes["freight_exchange.request.index"] = call.write.request
    return attributes


def of_attempt(attempt: Attempt) -> Attributes:
    """Return the attributes of an attempt of a call."""
    attributes: Attributes = {
        "http.request.resend_count": max(attempt.number - 1, 0),
        "freight_exchange.attempt.duration": attempt.elapsed,
    }
    if attempt.status is not None:
        attributes["http.response.status_code"] = attempt.status
        if attempt.status >= _FIRST_ERROR:
            attributes["error.type"] = str(attempt.status)
    if attempt.request_id is not None:
        attributes["freight_exchange.request_id"] = attempt.request_id
    if attempt.abandoned:
        attributes["freight_exchange.attempt.abandoned"] = True
    return attributes | of_error(attempt.error)


def of_retry(retry: Retry) -> Attributes:
    """Return the attributes of the wait before the next attempt."""
    return {"freight_exchange.retry.delay": retry.delay} | of_error(retry.error)


def of_login(login: Login) -> Attributes:
    """Return the attributes of a login."""
    return {"freight_exchange.login.reason": login.reason} | of_error(login.error)


def of_scan(scan: ScanInfo) -> Attributes:
    """Return the attributes of a scan, or a part of one."""
    return {
        "freight_exchange.feed.name": scan.feed,
        "freight_exchange.scan.tier": scan.tier,
        "freight_exchange.scan.window": scan.window,
    }


def of_scan_result(scan: Scan) -> Attributes:
    """Return the attributes of a scan that has ended."""
    return {
        "freight_exchange.scan.pages": scan.pages,
        "freight_exchange.scan.rows": scan.rows,
        "freight_exchange.scan.events": scan.events,
        "freight_exchange.scan.complete": scan.complete,
    }


def of_handler(run: HandlerRun) -> Attributes:
    """Return the attributes of a handler, those of a consumer of messages."""
    attributes: Attributes = {
        "messaging.system": "freight_exchange",
        "messaging.operation.type": "process",
        "messaging.operation.name": "process",
        "messaging.destination.name": run.feed,
        "messaging.consumer.group.name": run.handler,
        "messaging.message.id": str(run.event),
        "freight_exchange.event.kind": run.kind,
        "freight_exchange.handler.attempt": run.attempt,
    }
    if run.request is not None:
        attributes["freight_exchange.request.index"] = run.request
    return attributes


def of_error(error: BaseException | None) -> Attributes:
    """Return the attributes of an error, or none without one."""
    if error is None:
        return {}
    attributes: Attributes = {"error.type": _type_name(error)}
    if isinstance(error, FreightExchangeError) and error.may_have_taken_effect:
        attributes["freight_exchange.may_have_taken_effect"] = True
    return attributes


def _type_name(error: BaseException) -> str:
    """Return the name of an error's class; for the package's own, the public one."""
    kind = type(error)
    module = "freight_exchange" if kind.__module__.startswith("freight_exchange.") else kind.__module__
    return kind.__qualname__ if module == "builtins" else f"{module}.{kind.__qualname__}"
