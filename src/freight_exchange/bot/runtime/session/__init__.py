"""Session of a bot, between a start and a drain.

`session` runs the deliveries and `drain` ends them; `feeds` makes the feeds that the handlers need, and `health`
reports their age.
"""
