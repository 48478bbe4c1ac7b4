"""Values of the exchange, without behaviour.

`state` has its records, `profile` its quirks, `reference` its initial data, and `messages` calls, replies and failures
of the connection.
"""
