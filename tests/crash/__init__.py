"""Real processes: a watcher that is killed again and again, its store, and a judge of what it handed on."""
