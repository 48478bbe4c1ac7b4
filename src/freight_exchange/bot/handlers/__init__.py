"""Handlers and how they are registered.

`handler` defines a handler, and `context` its second argument. `router` has the decorators that register one; their
types are in `decorators`, and `checks` validates their arguments. `injection` resolves the parameters that a lifespan
provides.
"""
