"""Status, probes and administration of a bot."""
