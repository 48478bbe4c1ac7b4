"""Real processes: a watcher that is killed again and again, its store, and a checker of what it handed on."""
