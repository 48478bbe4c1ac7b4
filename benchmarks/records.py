"""The rate requests that the benchmarks read: such as the service sends (service document, 2), no two alike."""

from __future__ import annotations

import json
from typing import Any, Final

__all__ = ["LOGIN", "listing", "page", "record"]

LOGIN: Final = {
    "user": {"access_token": "benchmark", "expires_on": 86400, "firstname": "Ben", "email": "ben@demo.example"}
}

_TYPES: Final = ("Shipping", "Air Freight", "Trucking", "Warehousing")
_PACKAGINGS: Final = ("Pallet", "Carton", "Piece")
_PORTS: Final = ("Hong Kong", "Shenzhen", "Singapore", "Rotterdam", "Hamburg")
_INCOTERMS: Final = ("FOB", "CIF", "EXW", "DAP")


def record(index: int) -> dict[str, Any]:
    """The rate request with this index."""
    quantity, port = 1 + index % 80, _PORTS[index % 5]
    return {
        "index": index,
        "commodityname": f"Ceramic tiles, lot {index}",
        "refId": f"FX{index:06d}",
        "requesttype": _TYPES[index % 4],
        "status": "Available",
        "origin": port,
        "destination": "Long Beach",
        "needdate": f"2027-{1 + index % 12:02d}-{1 + index % 28:02d} 00:00:00",
        "notes": f"{quantity} pallets of Ceramic tiles, lot {index}, from {port} to Long Beach",
        "qty": quantity,
        "packaging": _PACKAGINGS[index % 3],
        "measureUnit": "m",
        "width": 1.2,
        "height": round(0.3 + index % 170 / 100, 2),
        "length": 1,
        "massUnit": "kg",
        "weight": round(40 + index % 3000 / 4, 2),
        "incoterm": _INCOTERMS[index % 4],
        "hazardous": int(index % 9 == 0),
    }


def listing(first: int, count: int) -> dict[str, Any]:
    """The reply that lists so many of them."""
    return {"raterequests": {str(place): record(first + place) for place in range(count)}}


def page(first: int, count: int) -> bytes:
    """The same, as the service writes it."""
    return json.dumps(listing(first, count), separators=(",", ":")).encode()
