"""Delivery of events to handlers, at least once.

`routing` turns events into deliveries, `dispatcher` claims those that are due, and `worker` calls the handler.
`retry_policy` decides the result, `updates` merges updates that wait, and `cancellation` distinguishes the bot's own
cancellation from a handler's. `absence` records handlers that the scanning version lacks, `backfills` recognises events
about requests that a handler has received already, and `attempt_log` logs each attempt.
"""
