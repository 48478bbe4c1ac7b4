"""Values of the exchange, without behaviour.

`state` has its records, `profile` its quirks, `reference` the data that it starts with, and `messages` a call, a reply
and what can happen to the connection.
"""
