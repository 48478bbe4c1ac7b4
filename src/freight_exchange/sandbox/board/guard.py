"""Who may talk to a server that anybody's browser can reach: its own pages, and nobody else's.

A page of another site can send requests to a server on the user's machine. It is stopped at three doors: it cannot set
the headers that a change asks for, its browser says where it comes from, at the API too, and a name of its own that it
points at the machine (DNS rebinding) is not a name of this server.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Mapping
from urllib.parse import urlsplit

from freight_exchange.sandbox.core.validation import Refusal

__all__ = ["from_elsewhere", "known_host", "permit_change", "permit_look"]

_OTHERS = "Only the board's own page may do this."


def known_host(headers: Mapping[str, str], names: Collection[str]) -> bool:
    """Whether a call was sent to an address, to `localhost` or to one of these names, and not to somebody's own name.

    A call without a `Host` comes from no browser.
    """
    host = headers.get("host")
    if host is None:
        return True
    try:
        name = urlsplit(f"//{host}").hostname or ""
        if name == "localhost" or name in names:
            return True
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def from_elsewhere(headers: Mapping[str, str]) -> bool:
    """Whether the page of another site sent this, by the word of its browser. Programs have no such header."""
    return headers.get("sec-fetch-site", "none") not in ("same-origin", "none")


def permit_change(headers: Mapping[str, str]) -> None:
    """Lets a change pass that the server's own page sent.

    Raises:
        Refusal: It comes from elsewhere, or from no page at all: programs have the API.
    """
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refusal(415, "Content-Type must be application/json.")
    if headers.get("origin") != f"http://{headers.get('host')}":
        raise Refusal(403, _OTHERS)
    if headers.get("sec-fetch-site", "same-origin") != "same-origin":
        raise Refusal(403, _OTHERS)


def permit_look(headers: Mapping[str, str]) -> None:
    """Shows what the exchange holds to its own page, to a person who typed the address, and to programs.

    Raises:
        Refusal: The page of another site asks.
    """
    if from_elsewhere(headers):
        raise Refusal(403, _OTHERS)
