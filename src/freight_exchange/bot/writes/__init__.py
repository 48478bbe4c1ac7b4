"""Parts of writes to the service that the ledgers of offers and of answers share.

`write_outcome` maps an error to the outcome of a write, `late_writes` waits for writes that may still arrive, and
`record_versions` replaces a record only if nothing else has changed it.
"""
