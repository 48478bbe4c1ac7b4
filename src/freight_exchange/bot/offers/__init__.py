"""Offers, at most one for each request and revision.

`ledger` records each step of an offer before it is taken: `record` is one offer, `repository` stores them, `sender`
sends them, and `in_doubt` resolves those without a reply. `existing_bids` finds bids that are not in the ledger,
`first_reading` begins with it, and `own_updates` recognises updates that an own offer caused.
"""
