"""Pure rules of the feed: no I/O, no clock, no event loop."""
