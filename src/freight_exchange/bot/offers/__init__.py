"""Offers, at most one for each request and revision.

`ledger` records each step of an offer before the step: `record` is one offer, `repository` stores offers, `sender`
sends them, and `in_doubt` resolves those without a reply. `existing_bids` finds bids that are not in the ledger, for
the first time in `initial_bid_check`. `own_updates` recognises updates that an offer of this bot caused.
"""
