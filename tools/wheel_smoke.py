"""What a fresh environment must be able to do with the installed wheel; the arguments name its extras."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.resources
import sys
from typing import TYPE_CHECKING

import anyio

import freight_exchange
from freight_exchange.sandbox.core import Exchange
from freight_exchange.sandbox.inprocess import transport

if TYPE_CHECKING:
    from types import ModuleType


async def log_in_and_list(library: ModuleType) -> int:
    """One login and one listing against the sandbox in process."""
    async with (
        library.AsyncClient(transport=transport(Exchange(), library=library)) as http_client,
        freight_exchange.FreightExchange(
            "https://sandbox.example/api",
            email="forwarder@demo.example",
            password="forwarder",
            http_client=http_client,
        ) as exchange,
    ):
        await exchange.login()
        return len(await exchange.currencies.list())


def main(extras: list[str]) -> None:
    version = importlib.metadata.version("freight-exchange")
    if not importlib.resources.files(freight_exchange).joinpath("py.typed").is_file():
        sys.exit("py.typed is missing from the wheel: the types would be invisible to users")
    for name in freight_exchange.__all__:
        getattr(freight_exchange, name)
    for library in ["httpx", *(extra for extra in extras if extra == "httpx2")]:
        if anyio.run(log_in_and_list, importlib.import_module(library)) == 0:
            sys.exit(f"the sandbox listed no currency over {library}")
    if "sandbox" in extras:
        importlib.import_module("freight_exchange.sandbox.asgi")
    print(f"freight-exchange {version} on Python {sys.version.split()[0]}")


if __name__ == "__main__":
    main(sys.argv[1:])
