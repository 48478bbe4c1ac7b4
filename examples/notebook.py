# mypy: disable-error-code="top-level-await, unused-ignore"
# ruff: noqa: F704
# %% [markdown]
# # A look at the market
#
# A notebook as a script: each `# %%` begins a cell. Editors run the cells one by one, and `jupytext` turns the file
# into a notebook. A cell can `await`, because the notebook runs an event loop.

# %%
from __future__ import annotations

from collections import Counter
from decimal import Decimal

from freight_exchange import FreightExchange, cargo

# %% [markdown]
# Enter the client in a cell of its own. It stays open until the last cell closes it. The account
# comes from the environment: others may read a notebook, so keep passwords out of it.

# %%
exchange = await FreightExchange().__aenter__()
await exchange.login()

# %% [markdown]
# All listed requests of the last five days, four pages at a time.

# %%
requests = await exchange.requests.search(window=4).collect()
print(len(requests), "requests")

# %% [markdown]
# The busiest lanes.

# %%
lanes = Counter((request.origin, request.destination) for request in requests)
for (origin, destination), count in lanes.most_common(5):
    print(f"{count:>5}  {origin} -> {destination}")

# %% [markdown]
# The quantity that a sea carrier charges for. `per="unit"`: the weight is that of one pallet. An implausible weight is
# a warning, not an error.

# %%
tons = Decimal(0)
for request in requests:
    if request.type == "Shipping" and request.volume and request.weight:
        charged = cargo.revenue_tons(request, per="unit", minimum=1)
        tons += charged.tons
        if charged.gross.warning:
            print(request.ref_id, charged.gross.warning.message)
print(tons, "revenue tons by sea")

# %% [markdown]
# Close the client at the end: an open one keeps its connections.

# %%
await exchange.aclose()
