"""Access tokens: login, refresh, and sharing between processes."""
