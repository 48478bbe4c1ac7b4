"""A shipper's answers to offers.

- `record`: an answer in the ledger
- `ledger`: at most one approval of a request, through crashes and lost replies
- `checks`: an answer against the request as it is listed
"""
