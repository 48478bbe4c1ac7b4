"""Addresses of databases: their parts, and their description without the password."""

from __future__ import annotations

import re
from typing import Any, Final

import psycopg
from psycopg import conninfo

from freight_exchange.errors import ConfigurationError

__all__ = ["describe_address", "read_address"]

_ADDRESS_SIGN: Final = re.compile("@|=|://")
"""Text of an address that is never in the name of a database."""
_OTHER_SEPARATOR: Final = re.compile(r"[;,?&]\s*\w+\s*=")
"""Separator of other drivers, which for libpq is a part of the value before it."""


def describe_address(address: str) -> str:
    """Describe a database for messages, without the password.

    Raises:
        ConfigurationError: It is not the address of a database.
    """
    parts = read_address(address)
    if parts is None:
        # Any part of the address may be the password, so this shows none, nor the library's message, which has some.
        raise ConfigurationError(
            "the address of the database cannot be read: write postgresql://USER@HOST:PORT/DATABASE, with special"
            " characters percent-encoded"
        )
    hosts = str(parts.get("host") or parts.get("hostaddr") or "localhost").split(",")
    ports = str(parts.get("port", "")).split(",")
    # Several hosts may share one port.
    places = zip(hosts, ports if len(ports) == len(hosts) else ports * len(hosts), strict=False)
    place = ",".join(f"{f'[{host}]' if ':' in host else host}{f':{port}' if port else ''}" for host, port in places)
    user = f"{parts['user']}@" if "user" in parts else ""
    return f"the database postgresql://{user}{place}/{parts.get('dbname', '')}"


def read_address(address: str) -> dict[str, Any] | None:
    """Return the parts of an address, or `None` if it cannot be read."""
    try:
        parts = conninfo.conninfo_to_dict(address)
    except (psycopg.Error, UnicodeError):
        return None
    # A password with unencoded characters ends up in the host, the port or the name of the database; so does a whole
    # address in the place of the name. A password whose colon is encoded ends up in the user, and one after a separator
    # of other drivers in the part before it.
    shown = [str(parts.get(name, "")) for name in ("host", "hostaddr", "user")]
    ports = str(parts.get("port", "")).split(",")
    is_sound = "@" not in str(parts.get("host", "")) and all(port.isdecimal() or not port for port in ports)
    is_sound = is_sound and ":" not in str(parts.get("user", ""))
    is_sound = is_sound and not any(map(_OTHER_SEPARATOR.search, shown))
    return parts if is_sound and not _ADDRESS_SIGN.search(str(parts.get("dbname", ""))) else None
