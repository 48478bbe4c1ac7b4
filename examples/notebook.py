# mypy: disable-error-code="top-level-await, unused-ignore"
# ruff: noqa: F704
# %% [markdown]
# # A look at the market
#
# A notebook as a script: each `# %%` begins a cell. Editors run the cells one by one, and `jupytext` turns the file
# into a notebook. In a cell, `await` stands by itself: the notebook has a loop already.

# %%
from __future__ import annotations

from collections import Counter
from decimal import Decimal

from freight_exchange import FreightExchange, cargo

# %% [markdown]
# Enter the client in a cell of its own. It stays open until the last cell closes it; a cell is no `async with` block.
# Here it takes the account from the environment: no password in a notebook, which others will read.

# %%
exchange = await FreightExchange().__aenter__()
await exchange.login()

# %% [markdown]
# Everything that is open, five days back. Four pages at a time.

# %%
requests = await exchange.requests.search(window=4).collect()
print(len(requests), "requests")

# %% [markdown]
# What is asked for, and where it goes.

# %%
lanes = Counter((request.origin, request.destination) for request in requests)
for (origin, destination), count in lanes.most_common(5):
    print(f"{count:>5}  {origin} -> {destination}")

# %% [markdown]
# How much a carrier by sea would charge for. `per="unit"`: the weight is that of one pallet. A doubt about a weight is
# a warning, and no error.

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
# Close it when you have done. A notebook that is left open holds its connections.

# %%
await exchange.aclose()
