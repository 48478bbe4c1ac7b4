"""The state of a feed. In memory today; a durable store behind a protocol comes next."""
