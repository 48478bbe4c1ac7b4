"""Process of a bot.

`process` runs a bot until a signal and sets the exit status, `signals` receives the signals, and `watchdog` ends a
process that hangs.
"""
