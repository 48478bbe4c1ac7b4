"""Runtime of a bot, from its process down to one session.

`process` runs it until a signal; `background` runs it beside a block. A `supervisor` opens the `lifespan` and the
operator's port, and runs one `session` after another: each takes its seat in the `fleet` of the store, runs the
deliveries and drains. `options` belong to a session, and `shutdown` to all of them. `status` reads the status of the
bot.
"""
