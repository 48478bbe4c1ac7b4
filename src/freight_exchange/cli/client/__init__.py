"""Client of a command.

`session` creates it with the `credentials`, and `runner` runs the event loop.
"""
