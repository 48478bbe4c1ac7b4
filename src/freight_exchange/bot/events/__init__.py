"""Events that the feed of requests lacks: selections of the account's bids, and offers on its requests."""
