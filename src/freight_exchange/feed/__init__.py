"""The watcher: a polled list becomes events."""
