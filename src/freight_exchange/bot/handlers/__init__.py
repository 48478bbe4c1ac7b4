"""Handlers: what a handler is, and what it is called with.

`handler` defines a handler, `checks` validates the arguments of its registration, and `injection` resolves the
parameters that a lifespan provides.
"""
