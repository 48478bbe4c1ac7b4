"""Runtime of a bot, from its process down to one session.

`process` runs it until a signal, with a `watchdog` that ends what hangs; `background` runs it beside a block. A
`supervisor` opens the `lifespan` and the operator's port, and runs one `session` after another: each takes the lease of
the store, runs the deliveries and drains. `options` and `health` belong to a session, `shutdown` to all of them, and
`status` reads the status of the bot.
"""
