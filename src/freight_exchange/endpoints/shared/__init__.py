"""Shared by all endpoints: sending of their calls, checks of arguments and replies, and reports of unreadable rows."""
