"""Crash tests in real processes: a watcher that is killed, its store, and a checker of the events it delivered."""
