"""Protection of a local server against pages of other sites (CSRF and DNS rebinding).

A page of another site can send requests to a server on the user's machine. Three checks refuse them: a change needs
headers that such a page cannot set, the browser reports the page's origin, and the `Host` must be a name of this
server.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Mapping
from urllib.parse import urlsplit

from freight_sandbox.fields import Refusal

__all__ = ["is_cross_site", "is_known_host", "permit_change", "permit_read"]

_OWN_PAGE_ONLY = "Only the board's own page may do this."


def is_known_host(headers: Mapping[str, str], names: Collection[str]) -> bool:
    """Return whether the `Host` is an IP address, `localhost` or one of `names`.

    A call without a `Host` comes from no browser and passes.
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


def is_cross_site(headers: Mapping[str, str]) -> bool:
    """Return whether a browser reports that a page of another site sent this. Programs send no such header."""
    return headers.get("sec-fetch-site", "none") not in ("same-origin", "none")


def permit_change(headers: Mapping[str, str]) -> None:
    """Permit changes by the board's own page only.

    Raises:
        Refusal: Another page or a program sent the change. Programs use the API.
    """
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refusal(415, "Content-Type must be application/json.")
    if headers.get("origin") != f"http://{headers.get('host')}":
        raise Refusal(403, _OWN_PAGE_ONLY)
    if headers.get("sec-fetch-site", "same-origin") != "same-origin":
        raise Refusal(403, _OWN_PAGE_ONLY)


def permit_read(headers: Mapping[str, str]) -> None:
    """Permit reads by the board's own page, by a person who typed the address, and by a program.

    Raises:
        Refusal: A page of another site sent the request.
    """
    if is_cross_site(headers):
        raise Refusal(403, _OWN_PAGE_ONLY)
