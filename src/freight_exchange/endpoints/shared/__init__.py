"""Parts shared by all endpoints: calls, checks of arguments and replies, and reports of unreadable rows."""
