"""Events that the feed of requests does not have: selections of own bids, and offers on own requests."""
