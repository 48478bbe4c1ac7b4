"""A shipper's answers to offers.

- `record`: an answer in the ledger
- `repository`: answers in the bot's store
- `checks`: comparison of an answer with the listed request
- `in_doubt`: resolution of answers without a reply
- `ledger`: at most one approval of a request, through crashes and lost replies
"""
