"""The offer ledger: at most one offer for each request and revision."""
