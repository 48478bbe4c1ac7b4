"""The clients that are compared: the same call of the same server by each of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

__all__ = ["CLIENTS", "Call", "client"]

Call = Callable[[], Awaitable[object]]

CLIENTS: Final = (
    "httpx",
    "this SDK",
    "httpx2",
    "this SDK on httpx2",
    "openai",
    "anthropic",
)

_ONE: Final = {"index": 1, "secondsSinceUpdate": 432000}
_PAGE: Final = {"type": "all", "secondsSinceUpdate": 432000, "offset": 0, "rowsperpage": 100}
# Of 500 callers some wait long for one of the library's connections.
_TIMEOUT: Final = 120.0
_KINDS: Final = {
    int: "index qty hazardous",
    float: "width height length weight",
    str: (
        "commodityname refId requesttype status origin destination needdate notes packaging measureUnit massUnit"
        " incoterm"
    ),
}
"""Fields of a vendor's model for the wire's fields."""


@asynccontextmanager
async def client(name: str, root: str, *, page: bool) -> AsyncIterator[Call]:
    """The call, by the client of that name: of a page of 100 records, or of one record.

    Args:
        root: The API root.
    """
    body = _PAGE if page else _ONE
    match name:
        case "httpx" | "httpx2":
            async with _bare(name, root) as http_client:

                async def post() -> object:
                    response = await http_client.post("quote/getrequests", json=body)
                    response.raise_for_status()
                    return response.json()

                yield post
        case "openai" | "anthropic":
            async with _vendor(name, root, body) as generic:
                yield generic
        case _:
            async with _sdk(root, page=page, on_httpx2=name.endswith("httpx2")) as call:
                yield call


def _bare(library: str, root: str) -> Any:
    """The library's own client, as people use it."""
    return __import__(library).AsyncClient(
        base_url=root, headers={"Authorization": "Bearer benchmark"}, verify=False, trust_env=False, timeout=_TIMEOUT
    )


@asynccontextmanager
async def _sdk(root: str, *, page: bool, on_httpx2: bool) -> AsyncIterator[Call]:
    """This SDK with everything on: typed, renewed, retried, limited, supervised."""
    from freight_exchange import FreightExchange

    http_client: Any = None
    if on_httpx2:
        import httpx2

        http_client = httpx2.AsyncClient(verify=False, trust_env=False)
    async with FreightExchange(
        root, email="ben@demo.example", password="benchmark", deadline=_TIMEOUT, http_client=http_client
    ) as exchange:
        await exchange.login()

        async def read() -> object:
            return await (exchange.requests.search() if page else exchange.requests.get(1))

        yield read
    if http_client is not None:
        await http_client.aclose()


@asynccontextmanager
async def _vendor(name: str, root: str, body: object) -> AsyncIterator[Call]:
    """Yield the generic call of a mature SDK, which its methods make, with a typed result, on its own HTTP library."""
    vendor: Any = __import__(name)
    base: Any = __import__(f"{name}._models", fromlist=["BaseModel"]).BaseModel
    kind = {"openai": "AsyncOpenAI", "anthropic": "AsyncAnthropic"}[name]
    listing = _listing(base)
    http_client = vendor.DefaultAsyncHttpxClient(verify=False, trust_env=False)
    async with getattr(vendor, kind)(
        base_url=root, api_key="benchmark", timeout=_TIMEOUT, http_client=http_client
    ) as sdk:

        async def post() -> object:
            return await sdk.post("/quote/getrequests", body=body, cast_to=listing)

        yield post


def _listing(base: Any) -> Any:
    """The reply as a model of the vendor's own base class, with the wire's names and plain types."""
    annotations = {name: kind for kind, names in _KINDS.items() for name in names.split()}
    record = type("Record", (base,), {"__annotations__": annotations, "__module__": __name__})
    return type("Listing", (base,), {"__annotations__": {"raterequests": dict[str, record]}, "__module__": __name__})  # type: ignore[valid-type]
