"""Pure rules of the send path.

`status_errors` maps a reply to an error, and `retry_matrix` decides what follows, by the time of `retry_after`.
`redaction` masks what an error, a log or a hook may show.
"""
