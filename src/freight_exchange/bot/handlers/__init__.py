"""Handlers and how they are registered.

`handler` defines a handler, `router` has the decorators, `checks` validates their arguments, and `injection` resolves
the parameters that a lifespan provides.
"""
