"""A shipper's answers to offers.

- `record`: an answer in the ledger
- `repository`: answers in the bot's store
- `checks`: an answer against the request as it is listed
- `in_doubt`: whether answers without a reply were carried out
- `ledger`: at most one approval of a request, through crashes and lost replies
"""
